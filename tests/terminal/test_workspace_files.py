"""The files that `@` completes."""

from pathlib import Path

from dragoman.frontends.terminal.workspace_files import MOST_OFFERED, WorkspaceFiles


def _made(folder: Path, *paths: str) -> WorkspaceFiles:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    return WorkspaceFiles(folder)


def test_names_are_found_in_the_folder_and_further_down(tmp_path: Path) -> None:
    files = _made(tmp_path, "README.md", "src/main.py", "src/deep/main_test.py", "docs/main.md", ".hidden")
    assert files.matching("") == ["docs/", "src/", "README.md"]
    assert files.matching("re") == ["README.md"]
    # The shorter path first.
    assert files.matching("main") == ["src/main.py", "docs/main.md", "src/deep/main_test.py"]
    assert files.matching("src/") == ["src/deep/", "src/main.py", "src/deep/main_test.py"]
    assert files.matching("src/m")[0] == "src/main.py"
    assert files.matching(".h") == [".hidden"]
    assert files.matching("zzz") == []


def test_ignored_folders_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    files = _made(
        tmp_path,
        "node_modules/x/index.js",
        "build/index.js",
        "src/index.js",
        "src/index.log",
        "src/keep.log",
        "src/made/index.js",
    )
    (tmp_path / ".gitignore").write_text("# made\n/build\n*.log\n!keep.log\n")
    (tmp_path / "src" / ".gitignore").write_text("made/\n")
    assert files.matching("index") == ["src/index.js"]
    assert files.matching("keep") == ["src/keep.log"]
    assert "node_modules/" not in files.matching("")
    assert "build/" not in files.matching("")
    assert files.matching("build/") == ["build/index.js"]


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    files = _made(folder, "a/file.txt")
    (folder / "a" / "up").symlink_to(folder)
    assert files.matching("file") == ["a/file.txt"]


def test_a_file_that_was_made_since_is_found_after_a_moment(tmp_path: Path) -> None:
    now = 0.0
    files = WorkspaceFiles(tmp_path, lambda: now)
    assert files.matching("late") == []
    _made(tmp_path, "deep/later.txt")
    assert files.matching("late") == []
    now += 6
    assert files.matching("late") == ["deep/later.txt"]


def test_a_large_tree_is_read_up_to_a_limit(tmp_path: Path) -> None:
    """Breadth first, and only so long: what is near is found, and typing goes on."""
    steps = iter(range(1_000_000))
    files = WorkspaceFiles(tmp_path, lambda: next(steps) / 100)
    for number in range(200):
        _made(tmp_path, f"near{number:03}.txt", f"d{number:03}/far.txt")
    assert len(files.matching("near")) == MOST_OFFERED
    # The clock allows a few dozen folders.
    assert 0 < len(files.matching("far.txt")) < 100
