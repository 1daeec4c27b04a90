"""The pages of a question, and the row of keys that answer it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.style import Style
from rich.text import Text

from dragoman.frontends.terminal.blocks import Blocks, Code, MarkdownBlock
from dragoman.frontends.terminal.layout import column
from dragoman.frontends.terminal.markdown import render
from dragoman.frontends.terminal.screen import Rows, Screen, ScreenRow
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.visible import visible_exactly

__all__ = ["PAUSE_SECONDS", "Details", "key_row", "more_lines"]

_KEY = Style(color="cyan", bold=True)
_DIM = Style(dim=True)
_GAP = "   "
# What stands beside the message and must be seen with it: title, keys, tools that run meanwhile.
_OTHER_ROWS = 8
_FEWEST_ROWS = 6
# A typing user leaves less than this between two keys.
PAUSE_SECONDS = 0.5


class Details:
    """The message of a question, laid out as far as it has been shown."""

    def __init__(self, markdown: str, screen: Screen) -> None:
        blocks = Blocks()
        self._screen = screen
        self._blocks = [*blocks.feed(visible_exactly(markdown)), *blocks.close()]
        self._rows: list[ScreenRow] = []
        self._is_first = True

    @property
    def left(self) -> int:
        """How many lines have not been shown, estimated without laying them out."""
        return len(self._rows) + sum(_lines(block) for block in self._blocks)

    def print_page(self, transcript: Transcript, kind: str = "question") -> None:
        """Print the next lines, as many as fit on the screen. An empty line sets those of another kind apart."""
        rows = self._page(max(_FEWEST_ROWS, self._screen.console.height - _OTHER_ROWS))
        if rows:
            transcript.say(Rows(rows), kind)

    def _page(self, height: int) -> list[ScreenRow]:
        while self._blocks and len(self._rows) < height:
            self._rows += self._laid_out(self._blocks.pop(0))
        page, self._rows = self._rows[:height], self._rows[height:]
        return page

    def _laid_out(self, block: MarkdownBlock) -> Iterator[ScreenRow]:
        if block.gap and not self._is_first:
            yield []
        self._is_first = False
        yield from self._screen.rows(column(render(block)))


def _lines(block: MarkdownBlock) -> int:
    return len(block.lines) if isinstance(block, Code) else block.source.count("\n") + 1


def key_row(choices: Iterable[tuple[str, str]]) -> RenderableType:
    """Keys with their meanings, in as many lines as the terminal needs."""
    return column(_Row([Text.assemble((key, _KEY), (f" {meaning}", _DIM)) for key, meaning in choices]))


@dataclass(frozen=True, slots=True)
class _Row:
    """Texts side by side. A text that does not fit any more begins the next line."""

    texts: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        line = Text()
        for text in self.texts:
            if line and line.cell_len + len(_GAP) + text.cell_len > options.max_width:
                yield line
                line = Text()
            line.append(_GAP if line else "").append_text(text)
        yield line


def more_lines(left: int) -> list[tuple[str, str]]:
    """The key for the next page, if lines are left."""
    return [("d", f"{left} more {'line' if left == 1 else 'lines'}")] if left else []
