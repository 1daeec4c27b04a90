"""The events of the HTTP server: of a background response, and of an id made by `/v1/conversations`.

They are what the server keeps for its clients, as its stored responses are, and a client gets them back exactly: a stream
that is resumed, or the history of the next request, must not differ from what was said. So secrets are not masked in them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dragoman.journal.event import JournalEvent
from dragoman.lm import JsonObject
from dragoman.lm.parts import Part

__all__ = [
    "HttpEvent",
    "ItemRemoved",
    "ItemsAdded",
    "MetadataChanged",
    "PartsReported",
    "ResponseClosed",
    "ResponseEnd",
    "ResponseOpened",
]

ResponseEnd: TypeAlias = Literal["completed", "failed", "cancelled"]


class ResponseOpened(JournalEvent, frozen=True):
    """A background response has begun. Its request is with the stored responses."""

    # How its parts become events, so that they become the same events again.
    reasoning: Literal["summary", "spec", "openai"]
    approves_items: bool = False
    # What the metadata named as ignored at the beginning. The model may name more.
    ignored: str | None = None


class PartsReported(JournalEvent, frozen=True):
    """Parts that the model reported, in order and as it cut them: a resumed stream repeats the same events."""

    parts: tuple[Part, ...] = ()


class ResponseClosed(JournalEvent, frozen=True):
    """The response has ended. An answer that the model cut short is `completed` here: its parts say why."""

    end: ResponseEnd
    # In seconds of the system's time.
    at: int
    usage: JsonObject | None = None
    # Content: the error's message, type, param and code.
    error: JsonObject | None = None


class ItemsAdded(JournalEvent, frozen=True):
    """Items at the end of a conversation, each with its id."""

    items: tuple[JsonObject, ...] = ()


class ItemRemoved(JournalEvent, frozen=True):
    """An item was deleted. It is no longer in the event that added it."""

    item: str


class MetadataChanged(JournalEvent, frozen=True):
    metadata: JsonObject


HttpEvent: TypeAlias = (
    ResponseOpened | PartsReported | ResponseClosed | ItemsAdded | ItemRemoved | MetadataChanged
)
