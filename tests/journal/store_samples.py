"""Events for tests of stores: a conversation with an agent, turn by turn."""

from __future__ import annotations

from dragoman.conversations.history import NormalAnswer, NormalPrompt, item_key
from dragoman.journal.agent_events import PermissionRequested, ReplyEnded, RequestReceived, TextSaid
from dragoman.journal.event import JournalKind, JournalStarted
from dragoman.journal.events import AnyEvent, StampedEvent

__all__ = ["asked", "stamped", "started", "turn"]


def stamped(*events: AnyEvent, at: float = 1_000.0) -> list[StampedEvent]:
    return [(at, event) for event in events]


def started(kind: JournalKind = "agent", model: str = "m", parent: str | None = None) -> JournalStarted:
    return JournalStarted(kind, model, ("/folder",), "editor", None, parent, "a title")


def turn(number: int, text: str = "hello") -> list[AnyEvent]:
    """A prompt and its answer, after `number - 1` turns of the same."""
    prompt, answer = NormalPrompt(f"{text} {number}"), NormalAnswer(f"{text} back {number}")
    return [
        RequestReceived(
            number,
            number,
            "prompt",
            "marker",
            "the history goes on",
            "",
            2 * (number - 1),
            (item_key(prompt),),
            items=(prompt,),
        ),
        TextSaid(number, 0, len(answer.text), answer.text),
        ReplyEnded(number, "complete", item_key(answer)),
    ]


def asked(id_: str) -> PermissionRequested:
    return PermissionRequested(id_, "claude", "execute", "dragoman-agent-action-execute", f"digest {id_}")
