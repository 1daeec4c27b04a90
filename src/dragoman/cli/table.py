"""Tables on standard output: one line for each row, whatever is in it."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.logs import one_line

__all__ = ["cell", "table"]

# A cell may hold a whole command; this much of it is recognised, and a line stays a line.
_LONGEST_CELL = 60


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def cell(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST_CELL else line[: _LONGEST_CELL - 1] + "…"
