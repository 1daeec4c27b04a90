"""Text that is shown in part: the first lines of a change, the last lines of an output. `/last` shows all of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.diffs import files_of
from dragoman.frontends.terminal.blocks import Code
from dragoman.frontends.terminal.layout import column, note, stacked
from dragoman.frontends.terminal.markdown import render
from dragoman.visible import visible

__all__ = ["CHANGE_LINES", "OUTPUT_LINES", "FoldedTexts"]

# Enough to recognise a change, and what went wrong; a screen holds several of them.
CHANGE_LINES = 12
OUTPUT_LINES = 8
# Each has up to some hundred thousand characters.
_MOST_KEPT = 20
# Of a line that is cut at the end of its row: more does not fit in any terminal.
_ROW = 400
_DIM = Style(dim=True)
_SIGNS = {"+": Style(color="green"), "-": Style(color="red"), "@": Style(color="cyan")}


@dataclass(frozen=True, slots=True)
class _Kept:
    title: str
    lines: tuple[str, ...]
    language: str


class FoldedTexts:
    """Lays texts out in part, one row a line, and keeps the latest of them whole."""

    def __init__(self, *, hint: str = "/last shows all") -> None:
        """`hint` says how to see all of a text; empty: there is no way."""
        self._hint = hint
        self._kept: deque[_Kept] = deque(maxlen=_MOST_KEPT)

    def change(self, title: str, diff: str) -> RenderableType:
        """The beginning of a unified diff."""
        lines = self._keep(title, diff, "diff")
        files = len(list(files_of(diff)))
        shown = [_row(line, _SIGNS.get(line[:1], _DIM)) for line in lines[:CHANGE_LINES]]
        return _block([*shown, *self._more(len(lines) - CHANGE_LINES, files)])

    def output(self, title: str, text: str) -> RenderableType:
        """The end of what a command or a tool has said."""
        lines = self._keep(title, text, "text")
        shown = [_row(line, _DIM) for line in lines[-OUTPUT_LINES:]]
        return _block([*self._more(len(lines) - OUTPUT_LINES), *shown])

    def whole(self, which: int = 1) -> RenderableType | None:
        """All of a text: 1 is the latest, 2 the one before. None if there is none."""
        if not 1 <= which <= len(self._kept):
            return None
        kept = self._kept[-which]
        return stacked(
            [note("●", kept.title), column(render(Code(kept.lines, kept.language)))],
            loose=False,
        )

    def _keep(self, title: str, text: str, language: str) -> Sequence[str]:
        lines = tuple(visible(text).strip("\n").split("\n"))
        self._kept.append(_Kept(title, lines, language))
        return lines

    def _more(self, left: int, files: int = 1) -> list[Text]:
        if left <= 0:
            return []
        words = f"… {left:,} more {'line' if left == 1 else 'lines'}"
        words += f", {files} files in all" if files > 1 else ""
        return [Text(f"{words} · {self._hint}" if self._hint else words, _DIM)]


def _row(line: str, style: Style) -> Text:
    """A line in one row. The name of a file is never cut: its end says which it is."""
    if line.startswith(("--- ", "+++ ")):
        return Text(line, style, overflow="fold")
    return Text(line[:_ROW], style, no_wrap=True, overflow="ellipsis")


def _block(rows: Sequence[Text]) -> RenderableType:
    """Set in as far as code is."""
    return column(column(Group(*rows)))
