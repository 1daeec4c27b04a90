"""The terminal as a place to print: above, what is printed for good; at its end, a few live lines.

The live lines are drawn over whenever something changes; everything else is written once and then belongs to the
scrollback. Taking the live lines away, printing, and drawing them again is a single write, so nothing flickers. Where
output is no terminal there are no live lines.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TypeAlias

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from dragoman.visible import visible

__all__ = ["Rows", "Screen", "ScreenRow", "TerminalConsole"]

_ERASE_BELOW = "\x1b[J"
_HIDE_CURSOR = "\x1b[?25l"
_SHOW_CURSOR = "\x1b[?25h"

# Output buffered while the user types a line. The oldest is dropped first.
_MOST_HELD = 1_000

ScreenRow: TypeAlias = list[Segment]


class TerminalConsole(Console):
    """A console that knows the width of its terminal, whatever that can do. The library's takes a dumb one to have 80."""

    @property
    def size(self) -> ConsoleDimensions:
        if not (self.is_dumb_terminal and self.is_terminal):
            return super().size
        return ConsoleDimensions(*shutil.get_terminal_size())

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self.width, self.height = new_size


class Screen:
    def __init__(self, console: Console, *, live: bool | None = None) -> None:
        self.console = console
        can_be_live = console.is_terminal and not console.is_dumb_terminal
        self.is_live = can_be_live if live is None else live
        # Most terminals break a line that no longer fits after they were made narrower; this one cuts it off.
        self._breaks_lines = "XTERM_VERSION" not in os.environ
        self._shown: RenderableType | None = None
        self._drawn: list[int] = []
        self._lent = False
        self._held: deque[RenderableType] = deque(maxlen=_MOST_HELD)

    def print(self, renderable: RenderableType = "") -> None:
        """Print something above the live lines, permanently."""
        if self._lent:
            self._held.append(renderable)
        elif self.is_live:
            self._write(self._erasure() + self._text(self.rows(renderable)) + self._drawing())
        else:
            self.console.print(Rows(self.rows(renderable)))

    def send(self, sequence: str) -> None:
        """Send a control sequence to the terminal, such as a picture."""
        if self.is_live and not self._lent:
            self._write(f"{self._erasure()}{sequence}\n{self._drawing()}")

    def control(self, sequence: str) -> None:
        """Send a control sequence that draws nothing."""
        if self.is_live:
            self._write(sequence)

    def show(self, renderable: RenderableType | None) -> None:
        """Make this the live lines; None for none."""
        self._shown = renderable
        if self.is_live and not self._lent:
            self._write(self._erasure() + self._drawing())

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Leave the terminal to another program or prompt. What is printed meanwhile appears afterwards."""
        if self._lent:
            # The one that has it lends it on.
            yield
            return
        if self.is_live:
            self._write(self._erasure())
        self._lent = True
        try:
            yield
        finally:
            self._lent = False
            while self._held:
                self.print(self._held.popleft())
            self.show(self._shown)

    @contextmanager
    def instead_of_stderr(self) -> Iterator[None]:
        """What is written to standard error in here appears above the live lines, not in their midst."""
        if not (self.is_live and sys.stderr.isatty()):
            yield
            return
        with redirect_stderr(_Lines(self)):
            yield

    def rows(self, renderable: RenderableType) -> list[ScreenRow]:
        """The lines something takes, laid out for the terminal as it is now."""
        options = self.console.options.update(height=None)
        return [_trimmed(row) for row in self.console.render_lines(renderable, options, pad=False)]

    def _text(self, rows: list[ScreenRow]) -> str:
        with self.console.capture() as captured:
            self.console.print(Rows(rows))
        return captured.get()

    def _drawing(self) -> str:
        rows = self.rows(self._shown) if self._shown is not None else []
        # A live line that has scrolled out of reach could not be taken away again: the last ones are the newest.
        rows = rows[-max(1, self.console.height - 1) :]
        if not rows:
            return ""
        self._drawn = [Segment.get_line_length(row) for row in rows]
        return _HIDE_CURSOR + self._text(rows).removesuffix("\n")

    def _erasure(self) -> str:
        if not self._drawn:
            return ""
        width = max(1, self.console.width)
        lines = sum(max(1, -(-length // width)) if self._breaks_lines else 1 for length in self._drawn)
        self._drawn = []
        up = f"\x1b[{lines - 1}A" if lines > 1 else ""
        return f"\r{up}{_ERASE_BELOW}{_SHOW_CURSOR}"

    def _write(self, text: str) -> None:
        if text:
            self.console.file.write(text)
            self.console.file.flush()


class _Lines(io.TextIOBase):
    """A file that prints each line when it is whole."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._partial = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._screen.print(Text(visible(line), Style(dim=True)))
        return len(text)


class Rows:
    """Lines that are laid out already."""

    def __init__(self, rows: list[ScreenRow]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        for row in self._rows:
            yield from row
            yield Segment.line()


def _trimmed(row: ScreenRow) -> ScreenRow:
    """A line without blanks at its end, which would wrap when the terminal is made narrower."""
    row = list(row)
    while row and not row[-1].control and not row[-1].text.rstrip(" "):
        row.pop()
    if row and not row[-1].control:
        text, style, _ = row.pop()
        row.append(Segment(text.rstrip(" "), style))
    return row
