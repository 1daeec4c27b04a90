"""The live lines at the end of the screen, and what is printed above them for good."""

import io
import sys

import pyte
import pytest
from rich.console import Console
from rich.text import Text

from dragoman.frontends.terminal.screen import Screen


class _Output(io.StringIO):
    """A terminal of its own size: what is written to it is drawn."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(columns, lines, history=1000)
        self._stream = pyte.Stream(self.screen)
        self.writes = 0

    def write(self, text: str) -> int:
        self.writes += bool(text)
        # What a terminal's driver does to the end of a line.
        self._stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    @property
    def rows(self) -> list[str]:
        scrolled = [
            "".join(row[x].data for x in range(self.screen.columns)) for row in self.screen.history.top
        ]
        return [row.rstrip() for row in [*scrolled, *self.screen.display] if row.strip()]


def _screen(columns: int = 30, lines: int = 10) -> tuple[Screen, _Output]:
    output = _Output(columns, lines)
    console = Console(file=output, width=columns, height=lines, force_terminal=True, color_system=None)
    return Screen(console), output


def test_live_lines_are_drawn_over() -> None:
    screen, output = _screen()
    screen.show(Text("one\ntwo"))
    screen.show(Text("three"))
    assert output.rows == ["three"]


def test_what_is_printed_stands_above_the_live_lines() -> None:
    screen, output = _screen()
    screen.show(Text("working"))
    screen.print(Text("for good"))
    assert output.rows == ["for good", "working"]
    screen.show(None)
    assert output.rows == ["for good"]


def test_printing_is_one_write() -> None:
    screen, output = _screen()
    screen.show(Text("working"))
    before = output.writes
    screen.print(Text("for good"))
    assert output.writes == before + 1


def test_the_scrollback_has_every_line_once() -> None:
    screen, output = _screen(lines=6)
    for number in range(40):
        screen.show(Text(f"working on {number}\n…"))
        screen.print(Text(f"done {number}"))
    screen.show(None)
    assert output.rows == [f"done {number}" for number in range(40)]


def test_no_more_live_lines_than_can_be_taken_away() -> None:
    screen, output = _screen(lines=5)
    screen.show(Text("\n".join(map(str, range(50)))))
    assert output.rows == ["46", "47", "48", "49"]
    screen.show(None)
    assert output.rows == []


def test_a_narrower_terminal_breaks_live_lines_and_they_are_still_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XTERM_VERSION", raising=False)
    screen, output = _screen(columns=30)
    screen.print(Text("kept"))
    screen.show(Text("x" * 28))
    # What a terminal does that breaks lines: 28 columns take three rows of 10.
    output.screen.reset()
    output.screen.resize(10, 10)
    output.write("kept\n" + "\n".join(["x" * 10, "x" * 10, "x" * 8]))
    screen.console.width = 10
    screen.show(Text("y"))
    assert output.rows == ["kept", "y"]


def test_lent_prints_afterwards() -> None:
    screen, output = _screen()
    screen.show(Text("working"))
    with screen.lend():
        assert output.rows == []
        screen.print(Text("meanwhile"))
        screen.show(Text("still working"))
        assert output.rows == []
    assert output.rows == ["meanwhile", "still working"]


def test_standard_error_does_not_get_into_the_live_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, output = _screen()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    screen.show(Text("working"))
    with screen.instead_of_stderr():
        print("a warning\x1b[2J", file=sys.stderr)
    assert output.rows == ["a warning␛[2J", "working"]


def test_without_a_terminal_nothing_is_live() -> None:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=30))
    screen.show(Text("working"))
    screen.print(Text("for good"))
    screen.send("\x1b_Gpicture")
    screen.show(None)
    assert output.getvalue() == "for good\n"


def test_blanks_at_the_end_of_a_line_are_not_printed() -> None:
    output = io.StringIO()
    Screen(Console(file=output, width=30)).print(Text("text   \n  indented  "))
    assert output.getvalue() == "text\n  indented\n"
