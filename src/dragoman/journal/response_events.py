"""The events of the HTTP server: of a background response, and of an id made by `/v1/conversations`.

They are what the server keeps for its clients, as its stored responses are, and a client gets them back exactly: a stream
that is resumed, or the history of the next request, must not differ from what was said. So secrets are not masked in them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.journal.event import JournalEvent
from dragoman.lm import JsonObject
from dragoman.lm.parts import Part, UsagePart

__all__ = [
    "FileTerms",
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


class FileTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the client of a response gets its files."""

    # The beginning of the addresses that the client can use.
    origin: str = ""
    may_store: bool = True
    # Whether pictures are links, too.
    links_pictures: bool = False
    # Whether each file is an item with its bytes, and none is a link.
    takes_data: bool = False
    # Whether a link has an annotation. A completion has one text, in which the place of the link is not known.
    has_items: bool = True


class ResponseOpened(JournalEvent, frozen=True):
    """A background response has begun. Its request is with the stored responses."""

    # How its parts become events, so that they become the same events again.
    reasoning: Literal["summary", "spec", "openai"]
    approves_items: bool = False
    # What the metadata named as ignored at the beginning. The model may name more.
    ignored: str | None = None
    # For a server that continues the response of another one: how the client gets files, whether the answer has a form, and
    # whether the client may learn where the operator's files are.
    files: FileTerms = FileTerms()
    has_form: bool = False
    sees_paths: bool = False


class PartsReported(JournalEvent, frozen=True):
    """Parts that the model reported, in order and as it cut them: a resumed stream repeats the same events."""

    parts: tuple[Part, ...] = ()
    # Where the response goes on after these, in the words of its back end. None: only this process has the rest.
    position: str | None = None
    # The last usage that the model has reported until then.
    usage: UsagePart | None = None


class ResponseClosed(JournalEvent, frozen=True):
    """The response has ended. An answer that the model cut short is `completed` here: its parts say why."""

    end: ResponseEnd
    # In seconds of the system's time.
    at: int
    usage: JsonObject | None = None
    # Content: the error's message, type, param and code.
    error: JsonObject | None = None
    # Whether clients may have got parts that are not stored: the server that ran it is gone, and another has ended it.
    is_cut: bool = False


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
