"""Journals in JetStream: each is a subject, each append is one message (`head`).

Every message is written by compare-and-set with the journal's last one. So an append by a former owner is refused, whatever
clocks say. A message without an acknowledgement may have been written: the head names the *attempt* that wrote it, and is
read back. What remains unknown is remembered, and settled by the next call.

While a stream has no leader, nothing can be written, and no owner is known. What a request needs waits for the election.

This node owns what its incarnation has claimed, for as long as its lease lasts. A fenced node writes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, Received
from dragoman.fleet.lease import NodeLease, live_incarnations
from dragoman.fleet.placement import Place
from dragoman.fleet.stored import StoredMessage, StoredStream, naming_errors, through_election
from dragoman.fleet.subjects import INDEX, INDEX_SUBJECTS, JOURNALS, NEWS
from dragoman.journal.content import is_decision
from dragoman.journal.event import JournalKind, JournalStarted
from dragoman.journal.events import (
    AnyEvent,
    JournalEntry,
    StampedEvent,
    UnreadableJournal,
    encode_events,
)
from dragoman.journal.fold import ConversationState
from dragoman.journal.jetstream.deletion import JournalDeletion
from dragoman.journal.jetstream.folds import ConversationFolds
from dragoman.journal.jetstream.head import (
    JournalHead,
    KnownHead,
    ListedInfo,
    journal_subject,
    journal_token,
)
from dragoman.journal.jetstream.known import KnownHeads, new_attempt
from dragoman.journal.jetstream.messages import mapping_errors
from dragoman.journal.store import Claim, HeldElsewhere, JournalConflict, JournalInfo, JournalStoreError

__all__ = ["JetStreamJournals"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

# How often a write is tried: others may write to the same journal in between, and answers may be missing.
_MOST_TRIES = 4
# Attempts of a journal that are remembered. Those before have been overtaken by a later one, or were never sent.
_MOST_ATTEMPTS = 16
# `follow` hears of each append. News may be lost with a server, so it also looks this often.
_LOOK_SECONDS = 5.0
# Conversations under one index key. Many begin alike; two are enough to know that a beginning identifies none.
_MOST_HINTED = 16


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An append that may have been written."""

    expected: int
    count: int
    digest: bytes

    def is_begin_of(self, expected: int, events: Sequence[StampedEvent]) -> bool:
        """Whether an append of these events repeats it, perhaps with more."""
        repeated = events[: self.count]
        content = encode_events(repeated) if repeated else b""
        return expected == self.expected and self.digest == _digest(content)


class JetStreamJournals:
    """The journals of a fleet, as one node uses them."""

    is_shared = True

    def __init__(self, connection: FleetConnection, lease: NodeLease, *, shared: Path | None = None) -> None:
        """`shared`: a folder that all workers reach. An agent that works in it resumes a session of another node."""
        self._connection = connection
        self._lease = lease
        self._known = KnownHeads(connection, lease)
        self._messages = self._known.messages
        self._audit = self._known.audit
        self._folds = ConversationFolds(connection, self._messages, lease.node, shared)
        self._deletion = JournalDeletion(connection, self._known, self._folds)
        self._attempts: dict[str, dict[str, _Attempt]] = {}
        # Called after each deletion. Deletes what clients have stored of a conversation, and returns the ids of that: they
        # may be journals as well.
        self.on_deleted: Callable[[str], Awaitable[Sequence[str]]] | None = None

    # Writing.

    async def append(
        self, journal: str, expected: int, events: Sequence[StampedEvent], *, holds: bool = True
    ) -> int:
        entries = [JournalEntry(number, at, event) for number, (at, event) in enumerate(events, expected + 1)]

        async def appended() -> int:
            for _ in range(_MOST_TRIES):
                known = await self._head_before(journal, expected, events)
                # So many of them were written by an attempt that had no answer.
                done = known.head.last - expected
                if done:
                    await self._note_written(known, entries[:done])
                if done == len(events) > 0 and holds == self._known.is_ours(known.head):
                    return known.head.last
                if await self._write(known, entries[done:], holds=holds):
                    return expected + len(events)
            raise _never_settled(journal)

        # The caller keeps what is not written: without a connection nobody waits.
        return await self._patient(appended, lambda: self._connection.is_connected)

    async def _patient(
        self, work: Callable[[], Awaitable[_T]], goes_on: Callable[[], bool] = lambda: True
    ) -> _T:
        with mapping_errors():
            return await through_election(work, goes_on)

    async def _head_before(self, journal: str, expected: int, events: Sequence[StampedEvent]) -> KnownHead:
        """The head that an append comes after. Raises `JournalConflict`."""
        attempts = self._attempts.get(journal, {})
        known = self._known.get(journal)
        started = events[0][1] if expected == 0 and events else None
        is_new = isinstance(started, JournalStarted)
        if attempts or not (is_new or self._is_usable(known, expected)):
            known = await self._known.load(journal)
        if known is None and isinstance(started, JournalStarted):
            info = ListedInfo.of(journal, started, round(events[0][0], 3))
            return KnownHead(JournalHead(info, 0, 0, self._lease.node), 0)
        landed = attempts.get(known.head.attempt) if known is not None else None
        if known is not None and landed is not None and landed.is_begin_of(expected, events):
            return known
        if (
            known is None
            or known.head.is_deleted
            or known.head.last != expected
            or await self._known.is_held_elsewhere(known.head)
        ):
            self._attempts.pop(journal, None)
            raise JournalConflict(journal)
        return known

    def _is_usable(self, known: KnownHead | None, expected: int) -> bool:
        """Whether what is known suffices to write: no owner's lease has to be looked at."""
        return (
            known is not None
            and known.head.last == expected
            and (not known.head.incarnation or self._known.is_ours(known.head))
        )

    async def _write(self, known: KnownHead, entries: Sequence[JournalEntry], *, holds: bool) -> bool:
        """Append after this head. False: there is another one by now."""
        head, attempt = await self._known.audited(known), new_attempt()
        events = [(entry.at, entry.event) for entry in entries]
        content = encode_events(events) if events else b""
        head = self._known.claimed(head, attempt).with_events(events)
        head = head if holds else self._known.released(head)
        attempts = self._attempts.setdefault(head.info.id, {})
        while len(attempts) >= _MOST_ATTEMPTS:
            del attempts[next(iter(attempts))]
        attempts[attempt] = _Attempt(known.head.last, len(events), _digest(content))
        written = await self._known.replace(known, head, content)
        if written is None:
            return False
        await self._note_written(written, entries)
        return True

    async def _note_written(self, known: KnownHead, entries: Sequence[JournalEntry]) -> None:
        """Events are stored. What follows from them is not part of the append, and its failure is only logged."""
        head = known.head
        self._attempts.pop(head.info.id, None)
        self._known.note(known)
        if head.unaudited:
            try:
                await self._audit.add(head.info.id, known.sequence, entries)
                self._known.note(KnownHead(replace(head, unaudited=0), known.sequence))
            except (FleetUnavailable, NoAnswer) as error:
                _log.warning("a decision in %s is copied to the audit log later: %s", head.info.id, error)
        if entries and head.info.kind == "agent":
            await self._folds.appended(known, entries)

    async def claim(self, journal: str, expected: int) -> Claim:
        return await self._patient(lambda: self._claimed(journal, expected))

    async def _claimed(self, journal: str, expected: int) -> Claim:
        for _ in range(_MOST_TRIES):
            known = self._known.get(journal)
            if known is None or not self._is_usable(known, expected):
                known = await self._known.load(journal)
            if known is None or known.head.is_deleted:
                return "gone"
            if await self._known.is_held_elsewhere(known.head):
                raise HeldElsewhere(known.head.node)
            if known.head.last != expected:
                return "changed"
            self._known.check_fence()
            if self._known.is_ours(known.head):
                return "ours"
            head = self._known.claimed(await self._known.audited(known), new_attempt())
            if await self._known.replace(known, head):
                return "ours"
        raise _never_settled(journal)

    async def release(self, journal: str) -> None:
        with mapping_errors():
            for _ in range(_MOST_TRIES):
                known = self._known.get(journal) or await self._known.load(journal)
                if known is None or not self._known.is_ours(known.head):
                    return
                head = self._known.released(self._known.claimed(known.head, new_attempt()))
                if await self._known.replace(known, head):
                    return
        raise _never_settled(journal)

    def is_leased(self, since: float) -> bool:
        """The lease is the node's, and renewed by itself. What a former incarnation owned, this one does not own."""
        return self._lease.seconds_left() > 0 and since >= self._lease.began_at

    async def renew(self) -> frozenset[str]:
        return self._known.owned()

    async def delete(self, journal: str) -> bool:
        with mapping_errors():
            if not await self._deletion.delete(journal):
                return False
            if self.on_deleted is not None:
                for each in await self.on_deleted(journal):
                    await self._deletion.delete(each)
            return True

    async def amend(self, journal: str, sequence: int, change: Callable[[AnyEvent], AnyEvent]) -> None:
        with mapping_errors():
            await self._deletion.amend(journal, sequence, change)

    async def forget_unused(self, now: datetime, keep: timedelta) -> int:
        with mapping_errors():
            return await self._deletion.forget_unused(now, keep)

    # Reading.

    async def read(self, journal: str, after: int = 0) -> list[JournalEntry]:
        with mapping_errors():
            found: dict[int, JournalEntry] = {}
            for message in await self._messages.after(journal, 0, self._known.sequence(journal)):
                head = JournalHead.read(message)
                if head.is_deleted:
                    return []
                if head.first and head.last > after:
                    # A later message may amend an event.
                    entries = await self._messages.entries(message)
                    found.update((entry.sequence, entry) for entry in entries if entry.sequence > after)
            return [found[sequence] for sequence in sorted(found)]

    async def follow(self, journal: str, after: int = 0) -> AsyncGenerator[JournalEntry, None]:
        news = asyncio.Event()
        heard = seen = 0

        async def hear(received: Received) -> None:
            nonlocal heard
            heard = max(heard, int(received.headers.get("Nats-Sequence", 0)))
            news.set()

        with mapping_errors():
            stop = await self._connection.subscribe(f"{NEWS}.{journal_token(journal)}", hear)
        try:
            while True:
                news.clear()
                entries: list[JournalEntry] = []
                with mapping_errors():
                    for message in await self._messages.after(journal, seen, heard):
                        seen = message.sequence
                        entries += await self._messages.entries(message)
                for entry in entries:
                    if entry.sequence > after:
                        after = entry.sequence
                        yield entry
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), _LOOK_SECONDS)
        finally:
            await stop()

    async def state(self, journal: str) -> tuple[ConversationState, int] | None:
        return await self._patient(lambda: self._folds.state(journal, self._known.sequence(journal)))

    async def find(self, journal: str) -> JournalInfo | None:
        with mapping_errors():
            return await self._find(journal)

    async def _find(self, journal: str) -> JournalInfo | None:
        known = await self._known.load(journal)
        if known is None or known.head.is_deleted:
            return None
        return known.head.shown(known.head.node if await self._known.lives(known.head) else "")

    async def heads(self, model: str, seen: int | None) -> tuple[int, dict[str, int]] | None:
        """Only of conversations that this node has appended to, or was told to consider."""
        version = self._known.version
        return None if seen == version else (version, self._known.lasts(model))

    async def journals(self, *kinds: JournalKind) -> list[JournalInfo]:
        with mapping_errors():
            heads = [known.head for known in await self._messages.all_heads()]
            incarnations = await live_incarnations(self._connection)
        found = [
            head.shown(head.node if head.lives_in(incarnations) else "")
            for head in heads
            if not head.is_deleted and head.info.kind in kinds
        ]
        return sorted(found, key=lambda info: info.used_at, reverse=True)

    async def version_seen(self) -> int:
        with mapping_errors(), naming_errors("the journals could not be looked at in time"):
            return (await self._connection.js.stream_info(JOURNALS)).state.last_seq

    async def permissions(
        self, since: float, *, is_elsewhere: bool = False
    ) -> list[tuple[str, JournalEntry]]:
        with mapping_errors():
            heads = {known.head.info.id: known.head for known in await self._messages.all_heads()}
            copied = await self._audit.since(since)
            found: dict[tuple[str, int], list[JournalEntry]] = {}
            for each in copied:
                found.setdefault((each.journal, each.entry.sequence), []).append(each.entry)
            # As the journals have them, with their content, where those are still there.
            messages = await self._audit.messages(sorted({each.message for each in copied}))
            for id_, head in heads.items():
                if head.unaudited:
                    messages += await self._messages.after(id_, 0)
            for message in messages:
                for id_, entry in await self._decisions(message):
                    if entry.at >= since:
                        found[id_, entry.sequence] = [entry]
        ours = ("", self._lease.incarnation)
        entries = [
            (id_, entry)
            for (id_, _), same in found.items()
            for entry in same
            if not is_elsewhere or (id_ in heads and heads[id_].incarnation not in ours)
        ]
        return sorted(entries, key=lambda each: (each[1].at, each[0], each[1].sequence))

    async def _decisions(self, message: StoredMessage) -> list[tuple[str, JournalEntry]]:
        try:
            id_ = JournalHead.read(message).info.id
            entries = await self._messages.entries(message)
        except UnreadableJournal as error:
            _log.warning("a decision cannot be read: %s", error)
            return []
        if message.subject != journal_subject(id_):
            # It is in the name of another journal.
            return []
        return [(id_, entry) for entry in entries if is_decision(entry.event)]

    # Placement.

    async def consider(self, ids: Iterable[str]) -> None:
        """Load the heads of these conversations, so that `heads` has them."""
        wanted = list(dict.fromkeys(ids))
        found = await self._patient(lambda: self._messages.heads(wanted))
        for id_ in wanted:
            if id_ in found:
                self._known.note(found[id_], is_news=True)

    async def hinted(self, keys: Sequence[str]) -> list[str]:
        """The ids of conversations that the index has under these keys, those of earlier keys first."""
        index = StoredStream(self._connection, INDEX)
        with mapping_errors():
            found = await asyncio.gather(
                *(index.first(f"{INDEX_SUBJECTS}.{key}.*", _MOST_HINTED) for key in keys)
            )
        subjects = (message.subject for messages in found for message in reversed(messages))
        return list(dict.fromkeys(subject.rpartition(".")[2] for subject in subjects))

    async def place_of(self, journal: str) -> Place | None:
        """Which node has a journal. None: there is no such journal, or it cannot be read."""
        try:
            info = await self._patient(lambda: self._find(journal))
        except UnreadableJournal as error:
            _log.warning("%s has no place: %s", journal, error)
            return None
        return None if info is None else Place(info.owner, info.last_node)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _never_settled(journal: str) -> JournalStoreError:
    return JournalStoreError(f"Others write to {journal} all the time, or NATS does not answer. Try again.")
