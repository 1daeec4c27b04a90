"""Reads and writes the messages of journals. It decides nothing.

Events that are too large for one message are written as chunks, at a subject of their own, before the message that names
them. Only that one is compared and counts, so an append is whole or nothing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.stored import StoredMessage, StoredStream, WrongSequence
from dragoman.fleet.subjects import JOURNAL_SUBJECTS, JOURNALS
from dragoman.journal.events import JournalEntry, UnreadableJournal
from dragoman.journal.jetstream.head import HEAD, JournalHead, KnownHead, journal_subject
from dragoman.journal.store import JournalStoreError

__all__ = ["JournalMessages", "mapping_errors"]

_log = logging.getLogger(__name__)

_ID = "Nats-Msg-Id"
# Beside the head: names of headers, the sequence number that is expected, an id.
_ROOM = 1_024
# A replica may lag behind the leader that acknowledged a write. Usually by less than a millisecond.
_LAG_SECONDS = 2.0
_LAG_LOOK_SECONDS = 0.005


@contextmanager
def mapping_errors() -> Iterator[None]:
    """What the network raises, as the error of a store."""
    try:
        yield
    except (FleetUnavailable, NoAnswer) as error:
        raise JournalStoreError(f"The fleet's store cannot be used now: {error}") from error


class JournalMessages:
    """The messages of all journals. `check` raises `JournalStoreError` if this node may not write."""

    def __init__(self, connection: FleetConnection, check: Callable[[], None]) -> None:
        self._connection = connection
        self._stream = StoredStream(connection, JOURNALS)
        self._check = check
        # The stream sequence numbers of messages that were reported: lists are read often.
        self._unreadable: set[int] = set()

    async def head(self, journal: str) -> KnownHead | None:
        """As the leader has it. Raises `FleetUnavailable` or `NoAnswer`."""
        message = await self._stream.last(journal_subject(journal))
        return None if message is None else KnownHead.read(message)

    async def heads(self, journals: Sequence[str]) -> dict[str, KnownHead]:
        """Those of the journals that exist and can be read, deleted ones included."""
        found = await self._stream.last_of_each([journal_subject(each) for each in journals])
        return {known.head.info.id: known for known in self._readable(found)}

    async def all_heads(self) -> list[KnownHead]:
        """Those of all journals that can be read, without the deleted ones, but those that are being erased."""
        found = await self._stream.last_of_all(f"{JOURNAL_SUBJECTS}.*")
        return [known for known in self._readable(found) if known.head.life != "deleted"]

    def _readable(self, messages: Iterable[StoredMessage]) -> Iterator[KnownHead]:
        """One journal that is damaged, or of a newer Dragoman, must not hide the others."""
        for message in messages:
            try:
                yield KnownHead.read(message)
            except UnreadableJournal as error:
                if message.sequence not in self._unreadable:
                    self._unreadable.add(message.sequence)
                    _log.warning("%s is left out: %s", message.subject, error)

    async def after(self, journal: str, sequence: int, at_least: int = 0) -> list[StoredMessage]:
        """The messages after the one with this stream sequence number, up to `at_least` and perhaps more."""
        limit = time.monotonic() + _LAG_SECONDS
        subject = journal_subject(journal)
        while True:
            found = await self._stream.after(subject, sequence)
            reached = found[-1].sequence if found else sequence
            if reached >= at_least or time.monotonic() >= limit:
                return found
            await asyncio.sleep(_LAG_LOOK_SECONDS)

    async def entries(self, message: StoredMessage) -> list[JournalEntry]:
        """The events of a message. Raises `UnreadableJournal`."""
        head = JournalHead.read(message)
        if not head.chunks:
            return head.entries(message.data)
        chunks = [await self._chunk(sequence) for sequence in head.chunks]
        return head.entries(b"".join(chunks))

    async def _chunk(self, sequence: int) -> bytes:
        found = await self._stream.nearest_at(sequence)
        if found is None:
            raise UnreadableJournal(f"message {sequence}, which has a part of it, is gone")
        return found.data

    async def put(
        self, head: JournalHead, content: bytes, expected: int, *, is_only: bool = False
    ) -> KnownHead:
        """Write a message, if the journal's last one has the stream sequence number `expected`.

        `is_only`: all earlier messages of the journal are deleted with it. Raises `WrongSequence`, `FleetUnavailable`, or
        `NoAnswer`: then it may be written or not, and the head could not be read back.
        """
        subject = journal_subject(head.info.id)
        most = self._connection.max_payload - _ROOM
        size, header = len(content), head.header()
        chunks: list[int] = []
        if len(header) + len(content) > most:
            for start in range(0, len(content), most):
                self._check()
                chunk = content[start : start + most]
                chunks.append(await self._stream.put(f"{subject}.part", chunk))
            head, content = replace(head, chunks=tuple(chunks)), b""
            header = head.header()
        headers = {HEAD: header, _ID: secrets.token_hex(8)}
        if is_only:
            headers["Nats-Rollup"] = "sub"
        self._check()
        try:
            sequence = await self._stream.put(subject, content, expected=expected, headers=headers)
        except NoAnswer:
            found = await self._stream.last(subject)
            if found is None or found.headers.get(_ID) != headers[_ID]:
                raise WrongSequence(subject) from None
            sequence = found.sequence
        return KnownHead(head, sequence, size)

    async def erase_before(self, journal: str, sequence: int) -> None:
        """Overwrite all messages of a journal before this one, and all chunks, in the server's files."""
        subject = journal_subject(journal)
        older = await self._stream.after(subject)
        chunks = await self._stream.after(f"{subject}.part")
        for message in [*older, *chunks]:
            if message.sequence < sequence:
                await self._stream.erase(message.sequence)

    async def erase_all(self, messages: Sequence[StoredMessage]) -> None:
        """Overwrite these messages, and the chunks that they name."""
        for message in messages:
            for sequence in (*JournalHead.read(message).chunks, message.sequence):
                await self._stream.erase(sequence)
