import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from dragoman.globs import MAX_GLOB_LENGTH, Glob, GlobError
from dragoman.tools.builtin import tree as tree_module
from dragoman.tools.builtin.tree import Walk
from dragoman.tools.builtin.workspace import TooLarge, Workspace, WorkspaceError, WorkspacePath


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "main.py").write_text("print()\n")
    return workspace


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return Workspace.of([folder])


class TestPlaces:
    @pytest.mark.parametrize(
        ("path", "label"),
        [
            ("src/main.py", "src/main.py"),
            ("./src/../src//main.py", "src/main.py"),
            (".", "."),
            ("src/..", "."),
            ("not/there/yet.py", "not/there/yet.py"),
        ],
    )
    def test_inside(self, workspace: Workspace, folder: Path, path: str, label: str) -> None:
        for written in (path, str(folder / path)):
            place = workspace.place(written)
            assert place.label == label
            assert place.path == Path(os.path.normpath(folder / path))

    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../secret.txt",
            "src/../../secret.txt",
            "/etc/passwd",
            "/",
            "../workspace-evil/x",
            "~/x/../../../../..",
            "not/../../there",
        ],
    )
    def test_outside(self, workspace: Workspace, path: str) -> None:
        with pytest.raises(WorkspaceError, match="is outside the workspace"):
            workspace.place(path)

    @pytest.mark.parametrize("path", ["", "a\0b", "half\ud83d/a pair"])
    def test_what_is_no_path(self, workspace: Workspace, path: str) -> None:
        with pytest.raises(WorkspaceError, match="is no path"):
            workspace.place(path)

    def test_a_sibling_whose_name_begins_alike_is_outside(self, folder: Path) -> None:
        sibling = folder.with_name("workspace-evil")
        sibling.mkdir()
        with pytest.raises(WorkspaceError, match="outside"):
            Workspace.of([folder]).place(str(sibling / "x"))

    @pytest.mark.parametrize("target", ["../secret.txt", "../outside", "../not-there", "/etc"])
    @pytest.mark.parametrize("below", ["", "/x", "/x/y"])
    def test_links_that_lead_out(self, workspace: Workspace, folder: Path, target: str, below: str) -> None:
        (folder / "link").symlink_to(target)
        with pytest.raises(WorkspaceError, match="outside"):
            workspace.place(f"link{below}")

    def test_a_link_through_a_link_that_leads_out(self, workspace: Workspace, folder: Path) -> None:
        (folder / "one").symlink_to("two")
        (folder / "two").symlink_to("../outside")
        with pytest.raises(WorkspaceError, match="outside"):
            workspace.place("one/new.txt")

    def test_a_link_inside_is_what_it_leads_to(self, workspace: Workspace, folder: Path) -> None:
        (folder / "link").symlink_to("src")
        assert workspace.place("link/main.py").label == "src/main.py"

    def test_a_link_to_itself(self, workspace: Workspace, folder: Path) -> None:
        (folder / "loop").symlink_to("loop")
        with pytest.raises((WorkspaceError, OSError)):
            workspace.place("loop").read(100)

    def test_a_workspace_that_is_reached_by_a_link(self, folder: Path) -> None:
        link = folder.with_name("link")
        link.symlink_to(folder)
        workspace = Workspace.of([link])
        assert workspace.place(str(folder / "src/main.py")).label == "src/main.py"
        assert workspace.place("src/main.py").read(100) == b"print()\n"

    def test_several_folders(self, folder: Path) -> None:
        other = folder.with_name("outside")
        workspace = Workspace.of([folder, other])
        assert workspace.place("src").label == "src"
        assert workspace.place("../outside/x").label == str(other / "x")
        assert workspace.place(str(other)).below("x").label == str(other / "x")

    def test_no_folder(self) -> None:
        with pytest.raises(WorkspaceError, match="No folder is open"):
            Workspace.of([])

    def test_a_name_that_is_too_long(self, workspace: Workspace) -> None:
        with pytest.raises((WorkspaceError, OSError), match="name too long"):
            workspace.place("x" * 300).read(1)


class TestOpening:
    def test_what_is_there(self, workspace: Workspace) -> None:
        assert workspace.place("src/main.py").read(8) == b"print()\n"

    def test_too_large(self, workspace: Workspace) -> None:
        with pytest.raises(TooLarge, match=r"src/main\.py has 8 bytes; at most 7 can be read"):
            workspace.place("src/main.py").read(7)

    @pytest.mark.parametrize("path", ["src", "."])
    def test_a_folder(self, workspace: Workspace, path: str) -> None:
        with pytest.raises(WorkspaceError, match="is a folder, not a file"):
            workspace.place(path).read(1)

    def test_a_named_pipe_does_not_block(self, workspace: Workspace, folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        with pytest.raises(WorkspaceError, match="not an ordinary file"):
            workspace.place("pipe").read(1)

    def test_a_file_replaced_by_a_link_meanwhile(self, workspace: Workspace, folder: Path) -> None:
        place = workspace.place("src/main.py")
        (folder / "src/main.py").unlink()
        (folder / "src/main.py").symlink_to(folder.parent / "secret.txt")
        with pytest.raises(OSError, match="symbolic links"):
            place.read(100)

    def test_a_folder_replaced_by_a_link_meanwhile(self, workspace: Workspace, folder: Path) -> None:
        place = workspace.place("src/main.py")
        (folder.parent / "outside" / "main.py").write_text("secret")
        (folder / "src").rename(folder / "old")
        (folder / "src").symlink_to(folder.parent / "outside")
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            place.read(100)
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            place.open_parent(missing_made=True)

    def test_missing_folders_are_made(self, workspace: Workspace, folder: Path) -> None:
        os.close(workspace.place("a/b/c.txt").open_parent(missing_made=True))
        assert (folder / "a/b").is_dir()
        assert not (folder / "a/b/c.txt").exists()


class TestGlobs:
    @pytest.mark.parametrize(
        ("glob", "path"),
        [
            ("*", "a"),
            ("*.py", "a.py"),
            ("./*.py", "a.py"),
            ("src/*.py", "src/a.py"),
            ("**", "a/b/c"),
            ("**/*", "a"),
            ("**/*.py", "a.py"),
            ("**/*.py", "a/b/c.py"),
            ("src/**", "src/a/b"),
            ("src/**/b", "src/b"),
            ("src/**/b", "src/a/a/b"),
            ("**/**/b", "b"),
            ("a/**/b/**/c", "a/x/b/y/b/c"),
            ("?.p[xy]", "a.py"),
            ("[!b].py", "a.py"),
            ("*.{py,js}", "a.js"),
            ("{a,b}/{c,d}", "b/c"),
            ("a{,.bak}", "a"),
            (".*", ".hidden"),
            ("*", ".hidden"),
            ("a b", "a b"),
        ],
    )
    def test_a_match(self, glob: str, path: str) -> None:
        assert Glob(glob).matches(tuple(path.split("/")))

    @pytest.mark.parametrize(
        ("glob", "path"),
        [
            ("*", "a/b"),
            ("*.py", "a.pyc"),
            ("*.py", "src/a.py"),
            ("src/*.py", "a.py"),
            ("**/*.py", "a/b"),
            ("src/**/b", "src/a"),
            ("a/**/b", "b/a"),
            ("*.PY", "a.py"),
            ("*.{py,js}", "a.ts"),
            ("a?", "a/"),
        ],
    )
    def test_no_match(self, glob: str, path: str) -> None:
        assert not Glob(glob).matches(tuple(path.split("/")))

    @pytest.mark.parametrize(
        ("glob", "why"),
        [
            ("", "is empty"),
            ("/", "is empty"),
            ("../*", "does not climb"),
            ("a/../../b", "does not climb"),
            ("{a,b}" * 7, "more than 100 patterns"),
            ("x" * (MAX_GLOB_LENGTH + 1), "at most 1,000"),
        ],
    )
    def test_what_is_no_glob(self, glob: str, why: str) -> None:
        with pytest.raises(GlobError, match=why):
            Glob(glob)

    @given(
        st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "?"]), min_size=1, max_size=5),
        st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=5),
    )
    def test_whoever_is_told_that_nothing_is_below_misses_nothing(
        self, glob: list[str], path: list[str]
    ) -> None:
        compiled = Glob("/".join(glob))
        if compiled.matches(tuple(path)):
            for length in range(len(path)):
                assert compiled.may_match_below(tuple(path[:length]))

    def test_many_stars_take_no_time_to_speak_of(self) -> None:
        assert not Glob("/".join(["**", "a"] * 200)).matches(("a",) * 199 + ("b",))


class TestWalking:
    @pytest.fixture
    def top(self, folder: Path, workspace: Workspace) -> Iterator[WorkspacePath]:
        for name in ("b", "a", ".git", "node_modules/deep", "src/node_modules"):
            (folder / name).mkdir(parents=True)
        for name in ("b/2", "b/1", "a/3", ".git/config", "node_modules/deep/x.py", "z.py"):
            (folder / name).write_text("")
        (folder / "link").symlink_to(folder.parent / "outside")
        (folder.parent / "outside" / "secret").write_text("")
        return iter([workspace.place(".")])

    def test_in_order_without_following_links_or_entering_trees(self, top: Iterator[WorkspacePath]) -> None:
        walk = Walk(next(top), Glob("**"))
        assert [entry.label for entry in walk] == [
            ".git/",
            "a/",
            "b/",
            "link",
            "node_modules/",
            "src/",
            "z.py",
            "a/3",
            "b/1",
            "b/2",
            "src/main.py",
            "src/node_modules/",
        ]
        assert list(walk.notices()) == [
            "Not entered: .git, node_modules, src/node_modules. To look inside, name one of them as the path."
        ]

    def test_one_that_is_named_is_entered(self, top: Iterator[WorkspacePath]) -> None:
        walk = Walk(next(top).below("node_modules"), Glob("**/*.py"))
        assert [entry.label for entry in walk] == ["node_modules/deep/x.py"]

    def test_what_cannot_match_is_not_even_looked_at(self, top: Iterator[WorkspacePath]) -> None:
        walk = Walk(next(top), Glob("a/*"))
        assert [entry.label for entry in walk] == ["a/3"]
        assert list(walk.notices()) == []

    def test_it_ends(self, top: Iterator[WorkspacePath], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tree_module, "MAX_VISITED", 3)
        walk = Walk(next(top), Glob("**"))
        assert len(list(walk)) == 3
        assert next(walk.notices()).startswith("Stopped after 3 entries")

    def test_a_folder_that_vanishes_is_told(self, top: Iterator[WorkspacePath], folder: Path) -> None:
        walk = Walk(next(top), Glob("**"))
        for entry in walk:
            if entry.label == "z.py":
                (folder / "a/3").unlink()
                (folder / "a").rmdir()
        assert "Could not be read: a." in list(walk.notices())

    def test_a_top_that_is_not_there(self, workspace: Workspace) -> None:
        with pytest.raises(FileNotFoundError):
            list(Walk(workspace.place("nowhere"), Glob("*")))

    def test_a_notice_names_a_few(self, workspace: Workspace, folder: Path) -> None:
        for number in range(7):
            (folder / f"{number}" / ".git").mkdir(parents=True)
        walk = Walk(workspace.place("."), Glob("**"))
        list(walk)
        [notice] = walk.notices()
        assert notice.startswith("Not entered: 0/.git, 1/.git, 2/.git, 3/.git, 4/.git and 2 more.")
