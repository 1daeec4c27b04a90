import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.lm import CancellationError, CancellationSource
from dragoman.tools.builtin import search as search_module, searcher
from dragoman.tools.builtin.child import run_module
from dragoman.tools.builtin.search import SEARCH_SECONDS, search_files
from dragoman.tools.builtin.searcher import EXCERPT, MAX_FILE_BYTES, UNUSABLE, main
from tool_calls import Deadline, Workbench

# Python's engine needs longer than anybody lives for this expression and this text.
_CATASTROPHE = {"query": "(a|aa)+$", "is_regex": True}
_VICTIM = "a" * 100 + "b\n"


@pytest.fixture
def searching(tmp_path: Path) -> Workbench:
    return Workbench(search_files(), tmp_path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import os\nimport sys\r\n# done\n")
    (tmp_path / "readme.md").write_text("Import nothing\n")
    (tmp_path / "picture").write_bytes(b"import\0")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("import\n")
    return tmp_path


def _at_the_first_find(act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def watched(*arguments: str, receive: Callable[[bytes], None], seconds: float) -> int | None:
        def receive_and_act(data: bytes) -> None:
            receive(data)
            act()

        return await run_module(*arguments, receive=receive_and_act, seconds=seconds)

    monkeypatch.setattr(search_module, "run_module", watched)


class TestInAProcessOfItsOwn:
    async def test_a_text(self, searching: Workbench, tree: Path) -> None:
        assert await searching.said(query="import ") == (
            "src/a.py:1: import os\nsrc/a.py:2: import sys\n"
            "[Not entered: .git. To look inside, name one of them as the path.]"
        )

    async def test_what_cannot_be_searched(self, searching: Workbench, tree: Path) -> None:
        assert await searching.complaint(query="x", path="/etc") == (
            f"/etc is outside the workspace ({tree}). Only what is inside can be used."
        )

    async def test_a_package_of_our_name_in_the_workspace_is_not_run(
        self, searching: Workbench, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tree / "dragoman.py").write_text("raise SystemExit('evil')")
        (tree / "json.py").write_text("raise SystemExit('evil')")
        monkeypatch.chdir(tree)
        assert (await searching.said(query="os", path="src")).startswith("src/a.py:1:")

    async def test_an_expression_that_takes_for_ever(
        self, searching: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "1").write_text("aa\n")
        (tmp_path / "2").write_text(_VICTIM)
        deadline = Deadline(SEARCH_SECONDS, monkeypatch)
        _at_the_first_find(deadline.pass_now, monkeypatch)
        said = await searching.said(**_CATASTROPHE)
        assert said.startswith("1:1: aa\n[Stopped after 20 seconds; there may be more.")

    async def test_cancelled_on_the_way(
        self, searching: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "1").write_text("aa\n")
        (tmp_path / "2").write_text(_VICTIM)
        source = CancellationSource()
        _at_the_first_find(source.cancel, monkeypatch)
        with pytest.raises(CancellationError):
            await searching.invoke(searching.invocation(**_CATASTROPHE), source.token)

    async def test_a_searcher_that_fails(
        self, searching: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searcher, "__name__", "dragoman.tools.builtin.nowhere")
        assert "The search failed." in await searching.complaint(query="x")

    async def test_without_a_workspace(self) -> None:
        assert "No folder is open" in await Workbench(search_files()).complaint(query="a")

    async def test_what_it_says_while_it_runs(self, searching: Workbench) -> None:
        assert (await searching.ask(query="a\x1b")).invocation_message == "Searching . for a␛"


def _search(folder: Path, query: str, **given: object) -> list[str]:
    order = {
        "folders": [str(folder)],
        "query": query,
        "is_regex": False,
        "ignore_case": False,
        "path": ".",
        "glob": "**",
        "max_results": 100,
        **given,
    }
    lines: list[str] = []
    status = main(json.dumps(order), lines.append)
    return [f"status {status}", *lines] if status else lines


class TestSearching:
    def test_case(self, tree: Path) -> None:
        assert _search(tree, "Import", path="readme.md") == ["readme.md:1: Import nothing"]
        assert len(_search(tree, "IMPORT", ignore_case=True)) == 4

    def test_an_expression(self, tree: Path) -> None:
        assert _search(tree, r"^import \w+$", is_regex=True, path="src") == ["src/a.py:1: import os"]
        assert _search(tree, r"import \w+", path="src") == ["Nothing was found."]

    def test_a_glob(self, tree: Path) -> None:
        assert _search(tree, "mport", glob="*.md") == ["readme.md:1: Import nothing"]

    def test_more_than_asked_for(self, tree: Path) -> None:
        assert _search(tree, "import", path="src", max_results=1) == [
            "src/a.py:1: import os",
            "[There are more. Narrow the search, or ask for up to 1,000 results.]",
        ]
        assert len(_search(tree, "import", path="src", max_results=2)) == 2

    def test_more_than_can_be_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(searcher, "MAX_OUTPUT", 20)
        (tmp_path / "a").write_text("xxxxxxxxxx\n" * 3)
        assert _search(tmp_path, "x")[1].startswith("[There are more.")

    def test_a_long_line_is_shown_around_what_was_found(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("x" * 1000 + "needle" + "y" * 1000)
        [line] = _search(tmp_path, "needle")
        assert line.startswith("a:1: …xxx")
        assert "needle" in line
        assert line.endswith("yyy…")
        assert len(line) < EXCERPT + 20
        (tmp_path / "a").write_text("needle" + "y" * 1000)
        assert _search(tmp_path, "needle")[0].startswith("a:1: needleyyy")
        (tmp_path / "a").write_text("x" * 1000 + "needle")
        assert _search(tmp_path, "needle")[0].endswith("needle")

    def test_files_that_are_too_large_are_told(self, tmp_path: Path) -> None:
        with (tmp_path / "large").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        assert _search(tmp_path, "x") == [
            "Nothing was found.",
            f"[Left out, being larger than {MAX_FILE_BYTES:,} bytes: large.]",
        ]

    def test_links_and_what_is_no_file_are_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("needle")
        folder = tmp_path / "workspace"
        folder.mkdir()
        (folder / "link").symlink_to(tmp_path / "secret")
        os.mkfifo(folder / "pipe")
        assert _search(folder, "needle") == ["Nothing was found."]

    def test_lines_and_names_are_told_as_they_are(self, tmp_path: Path) -> None:
        """They are for a model, which has to use them; a person is shown neither as it is."""
        (tmp_path / "a\u200c\x1b\u3000").write_bytes(b"x\x1b[2J\xe2\x80\x8c\xff\r\n")
        assert _search(tmp_path, "x") == ["a\u200c\x1b\u3000:1: x\x1b[2J\u200c\ufffd"]

    def test_a_name_that_breaks_the_line_or_is_not_utf8_stands_on_one(self, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"a\nb\xff")).write_text("x")
        assert _search(tmp_path, "x") == ["a␊b\ufffd:1: x"]

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"query": "(", "is_regex": True}, "The regular expression cannot be used: missing )"),
            ({"query": "a{99999999999}", "is_regex": True}, "The regular expression cannot be used:"),
            ({"query": "x", "path": "nowhere"}, "nowhere: No such file or directory."),
            ({"query": "x", "path": "../.."}, "../.. is outside the workspace"),
            ({"query": "x", "glob": ".."}, "A glob does not climb"),
        ],
    )
    def test_what_cannot_be_done(self, tmp_path: Path, given: dict[str, object], why: str) -> None:
        status, said = _search(tmp_path, **{"query": "", **given})  # type: ignore[arg-type] # a query among them
        assert status == f"status {UNUSABLE}"
        assert said.startswith(why)
