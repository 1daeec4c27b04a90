"""Tables on standard output: one line for each row, whatever is in it.

In a terminal that is too narrow for that, the columns that do not fit stand below the row they belong to, each by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import accumulate

from dragoman.cli.layout import filled, width_of
from dragoman.logs import one_line

__all__ = ["LONGEST_PATH", "cell", "table"]

# A cell may hold a whole command; this much of it is recognised, and a line stays a line.
_LONGEST_CELL = 72
# Below its row it may have some lines.
_LONGEST_BELOW = 240
# For tables with paths, which are of no use without their ends.
LONGEST_PATH = 240
_GAP = "  "


def table(
    headings: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    *,
    width: int | None = None,
    longest: int = _LONGEST_CELL,
) -> str:
    """A table within `width`, by default that of standard output. Longer cells than `longest` are cut."""
    width = width or width_of(sys.stdout)
    whole = list(rows)
    lines = [tuple(cell(text, longest) for text in row) for row in whole]
    widths = [max(map(len, column)) for column in zip(headings, *lines, strict=True)]
    ends = accumulate(size + len(_GAP) for size in widths)
    # The first is what a row is called by.
    beside = max(1, sum(end - len(_GAP) <= width for end in ends))
    shown = [_row(headings[:beside], widths)]
    for line, row in zip(lines, whole, strict=True):
        shown.append(_row(line[:beside], widths))
        shown += _below(headings[beside:], row[beside:], width)
    return "\n".join(shown)


def cell(text: str, longest: int = _LONGEST_CELL) -> str:
    line = one_line(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    return _GAP.join(text.ljust(width) for text, width in zip(cells, widths, strict=False)).rstrip()


def _below(headings: tuple[str, ...], cells: tuple[str, ...], width: int) -> Iterator[str]:
    widest = max(map(len, headings), default=0)
    for heading, text in zip(headings, cells, strict=True):
        if text:
            name = f"{_GAP}{heading.lower():<{widest}}{_GAP}"
            yield from filled(cell(text, _LONGEST_BELOW), width, " " * len(name), name)
