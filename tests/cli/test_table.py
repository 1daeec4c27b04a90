"""Tables that fit: on a line where there is room, in pieces where there is not."""

import sys
from pathlib import Path

import pytest

from dragoman.cli.table import table
from terminal_screen import Terminal

_HEADINGS = ("ID", "NAME", "ABOUT")
_ROWS = [("one", "The first", "What there is to say of it"), ("twenty", "", "Less\x1b[2J")]


def test_where_there_is_room_a_row_is_a_line() -> None:
    assert table(_HEADINGS, _ROWS, width=80) == (
        "ID      NAME       ABOUT\n"
        "one     The first  What there is to say of it\n"
        "twenty             Less\\x1b[2J"
    )


def test_what_does_not_fit_stands_below_by_its_name() -> None:
    assert table(_HEADINGS, _ROWS, width=30) == (
        "ID      NAME\n"
        "one     The first\n"
        "  about  What there is to say\n"
        "         of it\n"
        "twenty\n"
        "  about  Less\\x1b[2J"
    )
    assert table(_HEADINGS, _ROWS, width=10).splitlines()[:3] == ["ID", "one", "  name   The"]


def test_below_its_row_a_cell_is_cut_much_later() -> None:
    about = " ".join(["word"] * 30)
    assert table(_HEADINGS, [("one", "", about)], width=200).endswith(" w…")
    below = table(_HEADINGS, [("one", "", about)], width=40)
    assert below.split()[-30:] == about.split()
    assert table(_HEADINGS, [("one", "", about * 10)], width=40).endswith("…")


def test_without_a_terminal_it_is_as_wide_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert not sys.stdout.isatty()
    assert table(_HEADINGS, _ROWS) == table(_HEADINGS, _ROWS, width=200)


@pytest.mark.parametrize("columns", [40, 80, 125])
def test_the_catalogue_fits_the_terminal(columns: int, tmp_path: Path) -> None:
    # Wider than what it prints: a line that were too long would be one here, and not two.
    with Terminal(
        "-m",
        "dragoman",
        "agents",
        cwd=tmp_path,
        columns=200,
        rows=60,
        environment={"COLUMNS": str(columns)},
    ) as terminal:
        assert terminal.wait_end() == 0
        lines = terminal.text.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("ID             NAME")
    assert any(line.startswith("claude         Claude Code") for line in lines)
    assert "Anthropic's coding agent, in the last version that runs on Node 20." in " ".join(
        terminal.text.split()
    )
