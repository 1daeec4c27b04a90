"""All events, and their stored form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from dragoman.journal.agent_events import AgentEvent
from dragoman.journal.chat_events import ChatEvent
from dragoman.journal.event import ContentDeleted, JournalStarted
from dragoman.journal.response_events import HttpEvent
from dragoman.lm.json import encode

__all__ = [
    "AnyEvent",
    "JournalEntry",
    "StampedEvent",
    "UnreadableJournal",
    "decode_events",
    "encode_events",
]

AnyEvent: TypeAlias = JournalStarted | ContentDeleted | AgentEvent | ChatEvent | HttpEvent
# An event and when it happened, in seconds of the system's time.
StampedEvent: TypeAlias = tuple[float, AnyEvent]


class JournalEntry(msgspec.Struct, frozen=True):
    """An event in its journal. Sequence numbers begin with 1 and have no gaps."""

    sequence: int
    at: float
    event: AnyEvent


class UnreadableJournal(Exception):
    """Stored events cannot be read: they are damaged, or of a newer Dragoman."""


_decoder = msgspec.json.Decoder(list[StampedEvent])


def encode_events(events: Sequence[StampedEvent]) -> bytes:
    return encode([(round(at, 3), event) for at, event in events])


def decode_events(data: bytes) -> list[StampedEvent]:
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableJournal(str(error)) from error
