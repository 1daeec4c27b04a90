"""Sentences that break between words in a terminal, and not at all elsewhere."""

import io
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.layout import say
from terminal_screen import Terminal


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_stay_lines_and_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    screen = _Screen()
    say('There is no "dmo".\n\n  Did you mean "demo"? Or /usr/local/bin/something-long?', screen, end=" ")
    assert screen.getvalue() == (
        'There is no "dmo".\n\n  Did you mean "demo"?\n  Or\n  /usr/local/bin/something-long? '
    )


def test_what_goes_to_a_file_or_a_pipe_is_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    text = "  A sentence  that is longer\tthan the terminal, which this is not."
    written = io.StringIO()
    say(text, written)
    assert written.getvalue() == f"{text}\n"


@pytest.mark.parametrize("line", [["conversations"], ["chat", "dmo"]])
def test_a_command_says_the_same_in_a_narrow_terminal(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(line)
    said = "".join(capsys.readouterr())
    # Wider than what it prints: a line that were too long would be one here, and not two.
    with Terminal(
        "-m", "dragoman", *line, cwd=tmp_path, columns=200, environment={"COLUMNS": "40"}
    ) as terminal:
        terminal.wait_end()
        shown = terminal.text
    assert shown.split() == said.split()
    assert max(map(len, shown.splitlines())) <= 40
