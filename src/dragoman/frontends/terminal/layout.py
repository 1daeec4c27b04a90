"""The layout of the screen: behind a mark, in the text column, on one line.

The first two columns belong to us. What a model says, and what a tool or a file contains, begins in the third, so that
nothing of it can pass for a question of ours or for a line about a tool, whatever it draws.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

__all__ = ["Hanging", "column", "elapsed", "marked", "note", "place", "short_places", "stacked"]

_MARGIN = "  "
_PLAIN = Style()
_NOTHING = Text()
_TENTHS_BELOW = 10
_MINUTE = 60
# Before the name of a file with a line: `~/.config/dragoman/` in `~/.config/dragoman/dragoman.toml:12`.
_FOLDERS = re.compile(r"\S*/(?=[^/\s]+:\d)")


@dataclass(frozen=True, slots=True)
class Hanging:
    """Something behind a mark; the lines after the first stand behind another of the same width.

    Where that would leave less than `least` columns there is no mark: what does not fit would not be seen at all.
    """

    first: str
    others: str
    body: RenderableType
    style: Style = _PLAIN
    least: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - cell_len(self.first)
        if width < self.least:
            yield self.body
            return
        width = max(1, width)
        lines = console.render_lines(self.body, options.update(width=width, height=None), pad=False)
        for index, line in enumerate(lines):
            yield Segment(self.others if index else self.first, self.style)
            yield from line
            yield Segment.line()


@dataclass(frozen=True, slots=True)
class _Cut:
    body: Text
    fixed: Text
    rest: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        room = max(1, options.max_width - self.fixed.cell_len)
        if self.body.cell_len > room:
            line = self.body.copy()
            line.truncate(room, overflow="ellipsis")
            line += self.fixed
        else:
            line = self.body + self.fixed + self.rest
        line.no_wrap, line.overflow = True, "ellipsis"
        yield line


def column(body: RenderableType) -> RenderableType:
    """Lay out something in the text column."""
    return Hanging(_MARGIN, _MARGIN, body)


def marked(
    mark: str, body: Text, style: Style = _PLAIN, *, fixed: Text = _NOTHING, rest: Text = _NOTHING
) -> RenderableType:
    """A line of ours: a mark in the first column, then text that is cut so that the `fixed` text fits behind it.

    What is left of the line is for the `rest`.
    """
    return Hanging(f"{mark} ", _MARGIN, _Cut(body, fixed, rest), style)


def note(mark: str, text: str, style: Style = _PLAIN) -> RenderableType:
    """A remark of ours, which may take several lines. Yellow is for the mark only: on white, words in it cannot be read."""
    words = _without_colour(style) if style.color is not None and style.color.name == "yellow" else style
    return Hanging(f"{mark} ", _MARGIN, Text(text, words, overflow="fold"), style)


def _without_colour(style: Style) -> Style:
    return Style(bold=style.bold, dim=style.dim)


def stacked(renderables: Iterable[RenderableType], *, loose: bool = True) -> RenderableType:
    """Stack renderables, with an empty line between them if they are loose."""
    made: list[RenderableType] = []
    for renderable in renderables:
        if made and loose:
            made.append(Text())
        made.append(renderable)
    return Group(*made)


def elapsed(seconds: float) -> str:
    if seconds < _TENTHS_BELOW:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:02.0f} s"


def place(folder: str | Path) -> str:
    """A folder as people write it."""
    path, home = Path(folder), Path.home()
    return str("~" / path.relative_to(home)) if path.is_relative_to(home) else str(path)


def short_places(text: str) -> str:
    """A text in which files with a line stand without their folders: a narrow line has no room for these."""
    return _FOLDERS.sub("…/", text)
