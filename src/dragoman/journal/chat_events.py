"""The events of a chat in the terminal. Its permissions are recorded by the same events as an agent's."""

from __future__ import annotations

from typing import TypeAlias

from dragoman.journal.event import JournalEvent
from dragoman.lm import Message

__all__ = ["ChatEvent", "MessagesAdded", "ModelChosen", "RunEnded"]


class MessagesAdded(JournalEvent, frozen=True):
    """Messages at the end of the chat: a prompt, an answer, results of tools."""

    messages: tuple[Message, ...] = ()
    # False: only roles, names of tools and outcomes are left of them.
    has_content: bool = True


class ModelChosen(JournalEvent, frozen=True):
    """The chat goes on with this model."""

    model: str


class RunEnded(JournalEvent, frozen=True):
    """The run that a prompt began has ended (`loop.events.EndReason`). An error and a hint, if it failed."""

    reason: str
    error: str | None = None
    hint: str | None = None


ChatEvent: TypeAlias = MessagesAdded | ModelChosen | RunEnded
