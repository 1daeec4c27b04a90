"""Turns of a conversation as events, the same wherever they are made: so that what is stored can be compared with them."""

from __future__ import annotations

from dragoman.conversations.history import NormalAnswer, NormalPrompt, item_key
from dragoman.journal.agent_events import (
    PermissionDecided,
    PermissionRequested,
    ReplyEnded,
    RequestReceived,
    TextSaid,
)
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent

__all__ = ["STARTED", "appends_of"]

STARTED = JournalStarted("agent", "m", ("/folder",), "editor", None, None, "a title")


def _request(number: int) -> list[AnyEvent]:
    prompt = NormalPrompt(f"prompt {number}: {'word ' * (number % 40)}")
    keeps, keys = 2 * (number - 1), (item_key(prompt),)
    return [
        RequestReceived(
            number, number, "prompt", "marker", "a test", f"{number}", keeps, keys, items=(prompt,)
        )
    ]


def _answer(number: int) -> list[AnyEvent]:
    answer = NormalAnswer(f"answer {number}: {'word ' * (7 * number % 60)}".strip())
    return [
        TextSaid(number, 0, len(answer.text), answer.text),
        ReplyEnded(number, "complete", item_key(answer)),
    ]


def _permission(number: int) -> list[AnyEvent]:
    id_ = f"p{number}"
    return [
        PermissionRequested(id_, "claude", "execute", "dragoman-agent-action-execute", f"digest {number}"),
        PermissionDecided(id_, is_allowed=bool(number % 2), by="person", where="vscode", seconds=1.0),
    ]


def appends_of(number: int) -> list[list[AnyEvent]]:
    """What is appended in a turn, one list for each append. The first turn has number 1."""
    asked = [_permission(number)] if number % 3 == 0 else []
    return [[*([STARTED] if number == 1 else []), *_request(number)], *asked, _answer(number)]
