"""Choosing one of the stored chats, with the arrow keys or by its number; and a yes or no with one key."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from dragoman.frontends.terminal.keys import END, ESCAPE, INTERRUPT, KeySource
from dragoman.frontends.terminal.layout import marked, note, stacked
from dragoman.frontends.terminal.prompt import PromptInterrupted
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.stored_chats import MOST_OFFERED, in_words
from dragoman.journal.store import JournalInfo

__all__ = ["choose_chat", "confirmed"]

_CHOSEN = Style(color="cyan", bold=True)
_DIM = Style(dim=True)
_ASKED = Style(color="yellow")


async def choose_chat(chats: Sequence[JournalInfo], screen: Screen, keys: KeySource) -> JournalInfo | None:
    """The chat that the user chooses of the latest; None if they choose none. `PromptInterrupted` after Ctrl-C."""
    offered = chats[:MOST_OFFERED]
    place = 0
    with keys.listening():
        try:
            while True:
                screen.show(_menu(offered, place, len(chats) - len(offered)))
                match await keys.key():
                    case "up":
                        place = max(place - 1, 0)
                    case "down":
                        place = min(place + 1, len(offered) - 1)
                    case "c-m" | "c-j" | "enter":
                        return offered[place]
                    case digit if digit.isdecimal() and 0 < int(digit) <= len(offered):
                        return offered[int(digit) - 1]
                    case key if key == INTERRUPT:
                        raise PromptInterrupted
                    case key if key in (ESCAPE, END, "q", "c-d"):
                        return None
                    case _:
                        pass
        finally:
            screen.show(None)


async def confirmed(question: str, screen: Screen, keys: KeySource) -> bool:
    """Whether the user presses `y`. Other keys that are no answer are ignored."""
    with keys.listening():
        try:
            while True:
                screen.show(note("?", f"{question}   y yes   Esc no", _ASKED))
                match await keys.key():
                    case "y":
                        return True
                    case key if key in (ESCAPE, END, INTERRUPT, "n", "q", "c-d"):
                        return False
                    case _:
                        pass
        finally:
            screen.show(None)


def _menu(offered: Sequence[JournalInfo], place: int, more: int) -> RenderableType:
    lines = [
        marked("❯" if at == place else " ", Text(f"{at + 1}  {in_words(each)}"), _CHOSEN)
        for at, each in enumerate(offered)
    ]
    rest = f" {more} older: dragoman conversations lists them." if more else ""
    lines.append(note(" ", f"↑ ↓ and Enter, or a number; Esc for none.{rest}", _DIM))
    return stacked(lines, loose=False)
