"""Journals in SQLite.

The events of one append are one row. Its key is the journal's number and the sequence number of its last event, so that a
journal is stored together and in order, and an append writes two pages: that of the events and that of the head. A
*head* has what changes: the last sequence number, the owner, its lease, the time of the last use.

A snapshot has the fold of an agent's conversation up to an event, so that a long one is loaded without reading all of it. It is made
when the events since the last one take several times as much room, so that what is written for all snapshots together is
less than for the events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from dragoman.journal.content import decisions_in, is_decision
from dragoman.journal.event import ContentDeleted, JournalKind, JournalStarted
from dragoman.journal.events import (
    AnyEvent,
    JournalEntry,
    StampedEvent,
    UnreadableJournal,
    decode_events,
    encode_events,
)
from dragoman.journal.fold import ConversationFold, ConversationState
from dragoman.journal.snapshots import decode_snapshot, encode_snapshot, wait_after
from dragoman.journal.sqlite.owners import is_free, own_name, owner_lives
from dragoman.journal.store import (
    JOURNAL_LEASE_SECONDS,
    Claim,
    JournalConflict,
    JournalInfo,
    JournalStoreError,
    clock_is_plausible,
    last_use,
)
from dragoman.store import Database
from dragoman.store.journal_rows import SPACE, insert_events, insert_journal

__all__ = ["SqliteJournals"]

_log = logging.getLogger(__name__)

# How often `follow` looks for what other processes have appended.
_LOOK_SECONDS = 0.25
# A lease counts as ended so long before it does: what was begun in it must not go on after it.
_MARGIN_SECONDS = 10.0


class _Head(msgspec.Struct, frozen=True, array_like=True):
    number: int
    sequence: int
    owner: str
    leased_until: float


class _Row(msgspec.Struct, frozen=True, array_like=True):
    key: int
    content: bytes


class _SnapshotRow(msgspec.Struct, frozen=True, array_like=True):
    sequence: int
    content: bytes


_HEAD = (
    "SELECT h.number, h.sequence, h.owner, h.leased_until FROM journal_heads h JOIN journals j USING (number) "
    "WHERE j.id = ? AND NOT j.deleted"
)
_INFO = (
    "SELECT j.id, j.kind, j.model, j.workspace, j.connection, j.title, j.parent, j.started_at, h.used_at, h.sequence, "
    "h.owner, j.program FROM journals j JOIN journal_heads h USING (number) WHERE NOT j.deleted"
)
_LATEST_FIRST = "ORDER BY h.used_at DESC, j.number DESC"


class SqliteJournals:
    """The journals of one database. `owner` is the name of this process."""

    is_shared = False

    def __init__(self, database: Database, owner: str | None = None) -> None:
        self._database = database
        self._owner = own_name() if owner is None else owner
        # Set when something was appended here, and replaced by another.
        self._news = asyncio.Event()
        # How many bytes of events there may be until the next snapshot, for the journals that this process appends to.
        self._until_snapshot: dict[str, int] = {}

    async def append(
        self, journal: str, expected: int, events: Sequence[StampedEvent], *, holds: bool = True
    ) -> int:
        content = encode_events(events) if events else b""
        decisions = [place for place, (_, event) in enumerate(events, expected + 1) if is_decision(event)]
        written_at = events[-1][0] if events else 0.0
        used_at = last_use(events)
        until = time.monotonic() + JOURNAL_LEASE_SECONDS if holds else 0.0

        def write(database: Database) -> int:
            if expected == 0 and events and isinstance(events[0][1], JournalStarted):
                if database.rows(tuple[int], "SELECT 1 FROM journals WHERE id = ?", journal):
                    raise JournalConflict(journal)
                number = _insert(database, journal, events[0][1], events[0][0])
            else:
                head = self._head(journal)
                if head is None or head.sequence != expected or not self._may_write(head):
                    raise JournalConflict(journal)
                number = head.number
            last = expected + len(events)
            if events:
                insert_events(database, number, last, content, decisions, written_at)
            database.execute(
                # A clock that was set back makes nothing older.
                "UPDATE journal_heads SET sequence = ?, owner = ?, leased_until = ?, used_at = max(used_at, ?) WHERE number = ?",
                last,
                self._owner if holds else "",
                until,
                used_at,
                number,
            )
            return last

        last = await self._database.write(write)
        if events:
            self._news.set()
            self._news = asyncio.Event()
            await self._make_snapshot(journal, len(content))
        return last

    async def read(self, journal: str, after: int = 0) -> list[JournalEntry]:
        head = self._head(journal)
        return [] if head is None else list(self._entries(head.number, after))

    async def follow(self, journal: str, after: int = 0) -> AsyncGenerator[JournalEntry, None]:
        while True:
            news = self._news
            for entry in await self.read(journal, after):
                after = entry.sequence
                yield entry
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await news.wait()
            except TimeoutError:
                pass

    async def claim(self, journal: str, expected: int) -> Claim:
        def write(database: Database) -> Claim:
            head = self._head(journal)
            if head is None:
                return "gone"
            if head.sequence != expected:
                return "changed"
            if not self._may_write(head):
                return "held"
            database.execute(
                "UPDATE journal_heads SET owner = ?, leased_until = ? WHERE number = ?",
                self._owner,
                time.monotonic() + JOURNAL_LEASE_SECONDS,
                head.number,
            )
            return "ours"

        return await self._database.write(write)

    async def release(self, journal: str) -> None:
        await self._database.write(
            lambda database: database.execute(
                "UPDATE journal_heads SET owner = '', leased_until = 0 "
                "WHERE owner = ? AND number = (SELECT number FROM journals WHERE id = ?)",
                self._owner,
                journal,
            )
        )

    def is_leased(self, since: float) -> bool:
        return time.monotonic() < since + JOURNAL_LEASE_SECONDS - _MARGIN_SECONDS

    async def renew(self) -> frozenset[str]:
        until = time.monotonic() + JOURNAL_LEASE_SECONDS

        def write(database: Database) -> frozenset[str]:
            database.execute("UPDATE journal_heads SET leased_until = ? WHERE owner = ?", until, self._owner)
            found = database.rows(
                tuple[str],
                "SELECT j.id FROM journals j JOIN journal_heads h USING (number) WHERE h.owner = ?",
                self._owner,
            )
            return frozenset(id_ for (id_,) in found)

        return await self._database.write(write)

    async def state(self, journal: str) -> tuple[ConversationState, int] | None:
        head = self._head(journal)
        return None if head is None else (self._folded(journal, head).state, head.sequence)

    async def heads(self, model: str, seen: int | None) -> tuple[int, dict[str, int]] | None:
        version = self._database.version_seen()
        if version == seen:
            return None
        found = self._database.rows(
            tuple[str, int],
            "SELECT j.id, h.sequence FROM journals j JOIN journal_heads h USING (number) "
            "WHERE j.kind = 'agent' AND j.model = ? AND NOT j.deleted",
            model,
        )
        return version, dict(found)

    async def find(self, journal: str) -> JournalInfo | None:
        found = self._database.rows(JournalInfo, f"{_INFO} AND j.id = ?", journal)
        return _shown(found[0]) if found else None

    async def journals(self, *kinds: JournalKind) -> list[JournalInfo]:
        wanted = ", ".join("?" for _ in kinds)
        found = self._database.rows(JournalInfo, f"{_INFO} AND j.kind IN ({wanted}) {_LATEST_FIRST}", *kinds)
        return [_shown(each) for each in found]

    async def permissions(
        self, since: float, *, is_elsewhere: bool = False
    ) -> list[tuple[str, JournalEntry]]:
        found = self._database.rows(
            tuple[str, int, int],
            "SELECT j.id, p.number, p.sequence FROM journal_permissions p JOIN journals j USING (number) "
            "JOIN journal_heads h USING (number) WHERE p.at >= ? AND (NOT ? OR h.owner NOT IN ('', ?)) "
            "ORDER BY p.at, p.number, p.sequence",
            since,
            is_elsewhere,
            self._owner,
        )
        entries: list[tuple[str, JournalEntry]] = []
        for id_, number, sequence in found:
            try:
                entries.append((id_, self._entry(number, sequence)))
            except UnreadableJournal as error:
                _log.warning("a decision in %s cannot be read: %s", id_, error)
        return entries

    async def version_seen(self) -> int:
        return self._database.version_seen()

    async def delete(self, journal: str) -> bool:
        def write(database: Database) -> bool:
            if self._head(journal) is None:
                return False
            heads = database.rows(
                _Head,
                "SELECT h.number, h.sequence, h.owner, h.leased_until FROM journal_heads h JOIN journals j USING (number) "
                "WHERE (j.id = ? OR j.parent = ? OR j.id IN (SELECT id FROM responses WHERE conversation = ?)) "
                "AND NOT j.deleted",
                journal,
                journal,
                journal,
            )
            if not all(is_free(each.owner, each.leased_until) for each in heads):
                return False
            for each in heads:
                self._delete_content(each.number)
            database.execute("DELETE FROM responses WHERE conversation = ?", journal)
            return True

        deleted = await self._database.write(write)
        if deleted:
            await self._database.scrub()
        return deleted

    async def amend(self, journal: str, sequence: int, change: Callable[[AnyEvent], AnyEvent]) -> None:
        def write(database: Database) -> None:
            head = self._head(journal)
            row = None if head is None else self._row(head.number, sequence)
            if row is None:
                return
            events = [
                (entry.at, change(entry.event) if entry.sequence == sequence else entry.event)
                for entry in _entries_of(row)
            ]
            database.execute(
                "UPDATE journal_entries SET content = ? WHERE key = ?", encode_events(events), row.key
            )

        await self._database.write(write)
        await self._database.scrub()

    async def forget_unused(self, now: datetime, keep: timedelta) -> int:
        limit, present = (now - keep).timestamp(), now.timestamp()

        def write(database: Database) -> int:
            # What was used in the future, by a clock that was wrong, counts as used now: it must not stay for ever.
            database.execute("UPDATE journal_heads SET used_at = ? WHERE used_at > ?", present, present)
            database.execute("UPDATE journals SET started_at = ? WHERE started_at > ?", present, present)
            database.execute(
                "UPDATE responses SET used_at = ? WHERE used_at > ?", now.isoformat(), now.isoformat()
            )
            [(seen,)] = database.rows(tuple[float], "SELECT seen_at FROM journal_clock")
            database.execute("UPDATE journal_clock SET seen_at = ?", present)
            if not clock_is_plausible(present, seen, keep.total_seconds()):
                return 0
            old = database.rows(
                _Head,
                # A journal is not older than those that were there before it, whatever the clock said then.
                "SELECT number, sequence, owner, leased_until FROM (SELECT h.*, j.deleted, "
                "max(j.started_at) OVER (ORDER BY number) AS begun FROM journal_heads h JOIN journals j USING (number)) "
                "WHERE max(used_at, begun) < ? AND NOT deleted",
                limit,
            )
            numbers = [head.number for head in old if is_free(head.owner, head.leased_until)]
            for number in numbers:
                self._delete_content(number)
            # What a client stored goes by its own use.
            responses = database.execute("DELETE FROM responses WHERE used_at < ?", (now - keep).isoformat())
            unreadable = database.execute("DELETE FROM unreadable_conversations WHERE at < ?", limit)
            return len(numbers) + responses + unreadable

        deleted = await self._database.write(write)
        if deleted:
            await self._database.scrub()
        return deleted

    # Inside.

    def _head(self, journal: str) -> _Head | None:
        found = self._database.rows(_Head, _HEAD, journal)
        return found[0] if found else None

    def _may_write(self, head: _Head) -> bool:
        return head.owner == self._owner or is_free(head.owner, head.leased_until)

    def _entries(self, number: int, after: int) -> Iterator[JournalEntry]:
        rows = self._database.rows(
            _Row,
            "SELECT key, content FROM journal_entries WHERE key > ? AND key < ? ORDER BY key",
            number * SPACE + after,
            (number + 1) * SPACE,
        )
        for row in rows:
            for entry in _entries_of(row):
                if entry.sequence > after:
                    yield entry

    def _row(self, number: int, sequence: int) -> _Row | None:
        """The row that has this event."""
        found = self._database.rows(
            _Row,
            "SELECT key, content FROM journal_entries WHERE key >= ? AND key < ? ORDER BY key LIMIT 1",
            number * SPACE + sequence,
            (number + 1) * SPACE,
        )
        return found[0] if found else None

    def _entry(self, number: int, sequence: int) -> JournalEntry:
        row = self._row(number, sequence)
        if row is None:
            raise UnreadableJournal(f"there is no event {sequence}")
        return next(entry for entry in _entries_of(row) if entry.sequence == sequence)

    def _folded(self, journal: str, head: _Head) -> ConversationFold:
        found = self._database.rows(
            _SnapshotRow, "SELECT sequence, content FROM journal_snapshots WHERE number = ?", head.number
        )
        state = decode_snapshot(journal, found[0].content) if found else None
        after = found[0].sequence if state is not None else 0
        fold = ConversationFold(journal, state)
        return fold.apply_all(entry.event for entry in self._entries(head.number, after))

    async def _make_snapshot(self, journal: str, size: int) -> None:
        """Make a snapshot if enough was appended. The events are stored in any case, so its failure is only logged."""
        left = self._until_snapshot.get(journal)
        left = self._until_next_snapshot(journal) if left is None else left - size
        if left <= 0:
            try:
                taken = await self._replace_snapshot(journal)
            except (JournalStoreError, UnreadableJournal) as error:
                taken = 0
                _log.warning("%s has no new snapshot, and takes longer to load: %s", journal, error)
            left = wait_after(taken)
        self._until_snapshot[journal] = left

    def _until_next_snapshot(self, journal: str) -> int:
        """The same by what is stored: processes that append little would never make one."""
        [(size, since)] = self._database.rows(
            tuple[int, int],
            "SELECT ifnull(length(s.content), 0), (SELECT ifnull(sum(length(e.content)), 0) FROM journal_entries e "
            "WHERE e.key > j.number * ?1 + ifnull(s.sequence, 0) AND e.key < (j.number + 1) * ?1) "
            "FROM journals j LEFT JOIN journal_snapshots s USING (number) WHERE j.id = ?2",
            SPACE,
            journal,
        )
        return wait_after(size) - since

    async def _replace_snapshot(self, journal: str) -> int:
        """Make a snapshot of an agent's conversation. Returns how many bytes it has."""
        head = self._head(journal)
        if head is None or self._kind(head.number) != "agent":
            return 0
        content = encode_snapshot(self._folded(journal, head).state)
        # Only if nothing was appended or deleted since.
        await self._database.write(
            lambda database: database.execute(
                "INSERT OR REPLACE INTO journal_snapshots (number, sequence, content) "
                "SELECT h.number, h.sequence, ? FROM journal_heads h JOIN journals j USING (number) "
                "WHERE h.number = ? AND h.sequence = ? AND NOT j.deleted",
                content,
                head.number,
                head.sequence,
            )
        )
        return len(content)

    def _kind(self, number: int) -> str:
        [(kind,)] = self._database.rows(tuple[str], "SELECT kind FROM journals WHERE number = ?", number)
        return kind

    def _delete_content(self, number: int) -> None:
        database = self._database
        left: list[StampedEvent] = []
        try:
            left.extend((entry.at, entry.event) for entry in decisions_in(self._entries(number, 0)))
        except UnreadableJournal as error:
            _log.warning("decisions of a journal that cannot be read are lost: %s", error)
        left.append((time.time(), ContentDeleted()))
        database.execute(
            "DELETE FROM journal_entries WHERE key > ? AND key < ?", number * SPACE, (number + 1) * SPACE
        )
        database.execute("DELETE FROM journal_snapshots WHERE number = ?", number)
        database.execute("DELETE FROM journal_permissions WHERE number = ?", number)
        database.execute(
            "UPDATE journals SET deleted = 1, title = '', workspace = '', connection = '', program = '', "
            "parent = NULL WHERE number = ?",
            number,
        )
        for place, (at, event) in enumerate(left, 1):
            decisions = [place] if is_decision(event) else []
            insert_events(database, number, place, encode_events([(at, event)]), decisions, at)
        database.execute(
            "UPDATE journal_heads SET sequence = ?, owner = '', leased_until = 0 WHERE number = ?",
            len(left),
            number,
        )


def _insert(database: Database, journal: str, started: JournalStarted, at: float) -> int:
    number = insert_journal(
        database,
        journal,
        started.kind,
        started.model,
        started.workspace[0] if started.workspace else "",
        started.connection,
        started.title,
        started.parent,
        at,
    )
    if started.program:
        database.execute("UPDATE journals SET program = ? WHERE number = ?", started.program, number)
    return number


def _entries_of(row: _Row) -> Iterator[JournalEntry]:
    events = decode_events(row.content)
    first = row.key % SPACE - len(events) + 1
    for sequence, (at, event) in enumerate(events, first):
        yield JournalEntry(sequence, at, event)


def _shown(info: JournalInfo) -> JournalInfo:
    """With the owner as people know it: its process id, if it lives."""
    pid = info.owner.partition(" ")[0] if info.owner and owner_lives(info.owner) else ""
    return msgspec.structs.replace(info, owner=pid)
