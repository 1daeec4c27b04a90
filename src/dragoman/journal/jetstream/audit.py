"""The log of decisions. It is append-only, and has no content: that is in the journals, and is read from there.

An owner writes a decision to its journal first, then copies it here. `JournalHead.unaudited` is the first event that may be
missing. The next node that appends, claims or deletes copies the missing ones. A copy that is made twice is read
once. Copies have no id by which the server drops the second: every worker could store something under that id first. Every
worker can also add what nobody decided, so a copy that differs from an earlier one of the same event is read as well, and one
that cannot be read is left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.stored import StoredMessage, StoredStream
from dragoman.fleet.subjects import AUDIT, AUDIT_SUBJECTS, JOURNALS
from dragoman.journal.content import decisions_in, is_decision
from dragoman.journal.events import JournalEntry, UnreadableJournal, decode_events, encode_events
from dragoman.journal.jetstream.head import journal_token

__all__ = ["AuditLog", "AuditedDecision"]

_log = logging.getLogger(__name__)

# A node's clock may be ahead of the server's.
_WRONG_CLOCK = timedelta(days=1)
# Requests under way at a time.
_AT_ONCE = 32


class _Copied(msgspec.Struct, frozen=True):
    """Decisions of one append, without their content."""

    journal: str
    # The stream sequence number of the journal's message.
    message: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    # Numbers of the events.
    numbers: tuple[int, ...]
    events: msgspec.Raw


class AuditedDecision(msgspec.Struct, frozen=True):
    journal: str
    message: int
    entry: JournalEntry


class AuditLog:
    """The decisions of all journals, those of deleted ones included."""

    def __init__(self, connection: FleetConnection) -> None:
        self._stream = StoredStream(connection, AUDIT)
        self._journals = StoredStream(connection, JOURNALS)
        # The stream sequence numbers of copies that were reported: the log is read often.
        self._unreadable: set[int] = set()

    async def add(self, journal: str, message: int, entries: Sequence[JournalEntry]) -> None:
        """Copy the decisions among the entries of a journal's message. Raises `FleetUnavailable` or `NoAnswer`."""
        bare = list(decisions_in(entries))
        if bare:
            events = encode_events([(entry.at, entry.event) for entry in bare])
            numbers = tuple(entry.sequence for entry in bare)
            copied = msgspec.json.encode(_Copied(journal, message, numbers, msgspec.Raw(events)))
            await self._stream.put(f"{AUDIT_SUBJECTS}.{journal_token(journal)}", copied)

    async def since(self, since: float) -> list[AuditedDecision]:
        """Each decision once, in the order in which they were copied."""
        try:
            start = datetime.fromtimestamp(since, UTC) - _WRONG_CLOCK
        except (OverflowError, ValueError, OSError):
            start = datetime.fromtimestamp(0, UTC)
        found: dict[tuple[str, int, bytes], AuditedDecision] = {}
        for message in await self._stream.since(f"{AUDIT_SUBJECTS}.*", start):
            for each in self._decisions(message):
                if each.entry.at >= since:
                    content = encode_events([(each.entry.at, each.entry.event)])
                    found.setdefault((each.journal, each.entry.sequence, content), each)
        return list(found.values())

    def _decisions(self, message: StoredMessage) -> list[AuditedDecision]:
        try:
            copied = msgspec.json.decode(message.data, type=_Copied)
            events = list(zip(copied.numbers, decode_events(bytes(copied.events)), strict=True))
        except (msgspec.MsgspecError, UnreadableJournal, ValueError) as error:
            if message.sequence not in self._unreadable:
                self._unreadable.add(message.sequence)
                _log.warning("message %d of %s is no copy of a decision: %s", message.sequence, AUDIT, error)
            return []
        return [
            AuditedDecision(copied.journal, copied.message, JournalEntry(number, at, event))
            for number, (at, event) in events
            if is_decision(event)
        ]

    async def messages(self, sequences: Sequence[int]) -> list[StoredMessage]:
        """The journals' messages with these stream sequence numbers, as far as they are still there."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def found(sequence: int) -> StoredMessage | None:
            async with limit:
                return await self._journals.at(sequence)

        messages = await asyncio.gather(*(found(each) for each in sequences))
        return [message for message in messages if message is not None]
