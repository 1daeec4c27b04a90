"""Text that is shown in part, and all of it afterwards."""

import io

import pytest
from rich.console import Console, RenderableType

from dragoman.frontends.terminal.folded import FoldedTexts
from dragoman.frontends.terminal.screen import Screen
from terminal_screen import READY, Folder


def _drawn(shown: RenderableType | None, width: int = 40) -> list[str]:
    output = io.StringIO()
    Screen(Console(file=output, width=width)).print(shown or "")
    return output.getvalue().splitlines()


def test_an_output_shows_its_end_and_counts_the_rest() -> None:
    texts = FoldedTexts()
    lines = [f"line {number}" for number in range(10)]
    assert _drawn(texts.output("make", "\n".join([*lines, ""]))) == [
        "    … 2 more lines · /last shows all",
        *(f"    {line}" for line in lines[2:]),
    ]
    assert _drawn(texts.whole()) == ["● make", *(f"    {line}" for line in lines)]


def test_a_change_shows_its_beginning_and_the_one_before_can_be_asked_for() -> None:
    texts = FoldedTexts(hint="")
    texts.output("first", "out")
    drawn = _drawn(texts.change("second", "\n".join(f"+{number}" for number in range(13))))
    assert (drawn[0], drawn[11:]) == ("    +0", ["    +11", "    … 1 more line"])
    assert _drawn(texts.whole(2)) == ["● first", "    out"]
    assert (texts.whole(3), texts.whole(0)) == (None, None)


def test_a_line_takes_one_row_and_hides_nothing_that_a_terminal_would_obey() -> None:
    texts = FoldedTexts()
    assert _drawn(texts.output("t", "日" * 100 + "\n\x1b[2Jx")) == [f"    {'日' * 17} …", "    ␛[2Jx"]
    assert "".join(_drawn(texts.whole())).count("日") == 100


def test_the_name_of_a_changed_file_is_whole_and_the_files_are_counted() -> None:
    texts = FoldedTexts(hint="")
    name = "a/long/path/to/a/file/that/is/deep/notes.txt"
    several = "\n".join(f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n-a\n+{number}" for number in range(4))
    drawn = _drawn(texts.change("edit", several))
    assert name in "".join(line.strip() for line in drawn)
    assert drawn[-1] == "    … 8 more lines, 4 files in all"


def test_only_the_latest_are_kept() -> None:
    texts = FoldedTexts()
    for number in range(50):
        texts.output(str(number), "x")
    assert texts.whole(20) is not None
    assert texts.whole(21) is None


_CHECK = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "check $i"; done; echo "3 are wrong" >&2; exit 7\n'


@pytest.mark.parametrize(
    "columns", [pytest.param(60, marks=pytest.mark.long), 100, pytest.param(200, marks=pytest.mark.long)]
)
def test_a_failed_command_of_an_agent_shows_its_output_and_exit_status(folder: Folder, columns: int) -> None:
    (folder.path / "check.sh").write_text(_CHECK)
    chat = folder.chat("demo", columns=columns)
    chat.enter("run `sh check.sh`")
    chat.wait_for("Esc deny")
    chat.type("y")
    chat.wait_for(READY)
    chat.wait_for("^✗ sh check.sh$")
    assert "\n    … 6 more lines · /last shows all\n    check 7\n" in chat.text
    assert "\n    3 are wrong\n    [Exit code 7.]\n" in chat.text
    assert "    check 6\n" not in chat.text
    chat.enter("/last")
    chat.wait_for(r"^    check 6$")
    chat.wait_for(r"^    3 are wrong$", times=2)


def test_a_failed_command_of_the_terminal_shows_its_output_and_exit_status(folder: Folder) -> None:
    (folder.path / "check.sh").write_text(_CHECK)
    folder.script(
        {"when": {"round": 1}, "do": [{"say": "It failed."}]},
        {"do": [{"call": "run_command", "input": {"command": "sh check.sh"}}]},
    )
    chat = folder.chat()
    chat.enter("/last")
    chat.wait_for("Nothing was shown in part so far.")
    chat.enter("check it")
    chat.wait_for("Esc deny")
    chat.type("y")
    chat.wait_for("It failed.")
    assert "✗ Running sh check.sh · failed" in chat.text
    assert "\n    … 6 more lines · /last shows all\n    check 7\n" in chat.text
    assert "\n    3 are wrong\n    [Exit code 7.]\n" in chat.text
    chat.enter("/last 2")
    chat.wait_for("Nothing was shown", times=2)
    chat.enter("/last x")
    chat.wait_for("Type /last, or /last 2")
