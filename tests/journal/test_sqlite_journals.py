"""Journals in SQLite: appended by one owner, read by all, deleted without a trace."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman.journal import snapshots
from dragoman.journal.events import StampedEvent, UnreadableJournal, decode_events
from dragoman.journal.fold import ConversationState
from dragoman.journal.sqlite import journals
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.sqlite.owners import is_free, own_name
from dragoman.journal.store import JOURNAL_LEASE_SECONDS
from dragoman.process import ProcessIdentity
from dragoman.store import Database, SqliteResponses, StoredResponse, StoreError
from journal.store_samples import stamped, started, turn

_SECRET = "a word that may not be found again"
_NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
_DEAD = f"{2**22 + 17} long-ago"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> SqliteJournals:
    return SqliteJournals(database)


def _other_process() -> str:
    """The name of another process that lives."""
    identity = ProcessIdentity.of(os.getppid())
    assert identity is not None
    return f"{identity.pid} {identity.started}"


async def test_a_lease_that_was_not_renewed_ends(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SqliteJournals(database, _other_process())
    await store.append("one", 0, stamped(started()))
    await store.append("two", 0, stamped(started()))
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + JOURNAL_LEASE_SECONDS - 1)
    await store.renew()
    monkeypatch.setattr(time, "monotonic", lambda: real() + 2 * JOURNAL_LEASE_SECONDS - 2)
    assert await other.claim("one", 1) == "held"
    monkeypatch.setattr(time, "monotonic", lambda: real() + 2 * JOURNAL_LEASE_SECONDS)
    assert await other.claim("one", 1) == "ours"


def _shifted(seconds: float) -> Callable[[], float]:
    real = time.time
    return lambda: real() + seconds


@pytest.mark.parametrize("days", [-4_000, -1, 1, 4_000])
def test_setting_the_clock_ends_no_lease_and_extends_none(
    monkeypatch: pytest.MonkeyPatch, days: float
) -> None:
    until = time.monotonic() + JOURNAL_LEASE_SECONDS
    monkeypatch.setattr(time, "time", _shifted(days * 86_400))
    assert not is_free(own_name(), until)
    assert is_free(own_name(), until - 2 * JOURNAL_LEASE_SECONDS)


@pytest.mark.parametrize("owner", [_DEAD, "no process at all", ""])
async def test_what_a_dead_process_held_is_free_whatever_its_lease_says(
    database: Database, owner: str
) -> None:
    """After a restart of the machine the clock of leases is behind those that were given before."""
    assert is_free(owner, time.monotonic() + 10_000_000)
    await SqliteJournals(database, owner).append("one", 0, stamped(started()))
    assert await SqliteJournals(database).claim("one", 1) == "ours"


# Deleting.


def _files_with(secret: str, folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if secret.encode() in path.read_bytes()]


async def test_j6_stored_responses_are_deleted_with_their_conversation(tmp_path: Path) -> None:
    with Database.open(tmp_path) as database:
        store, responses = SqliteJournals(database), SqliteResponses(database)
        await store.append("one", 0, stamped(started(), *turn(1)), holds=False)
        await responses.save(StoredResponse("r1", "http:", None, _NOW, _SECRET.encode(), "one"))
        assert _files_with(_SECRET, tmp_path)
        assert await store.delete("one")
        assert await responses.find("r1", "http:") is None
        assert _files_with(_SECRET, tmp_path) == []


async def test_j6_no_copy_is_left_in_free_room_of_the_file(tmp_path: Path) -> None:
    """SQLite overwrites what is deleted, but not the copies that it made when it split a page."""
    with Database.open(tmp_path) as database:
        store = SqliteJournals(database)
        await store.append("one", 0, stamped(started(), *turn(1)), holds=False)
        with closing(sqlite3.connect(tmp_path / "dragoman.db", isolation_level=None)) as careless:
            careless.execute("PRAGMA secure_delete = OFF")
            careless.execute("INSERT INTO keys (name, key) VALUES ('copy', ?)", [_SECRET.encode() * 10])
            careless.execute("DELETE FROM keys WHERE name = 'copy'")
            careless.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert _files_with(_SECRET, tmp_path)
        assert await store.delete("one")
        assert _files_with(_SECRET, tmp_path) == []


# Time.


# Long conversations.


async def _long(store: SqliteJournals, turns: int, words: str = "word ") -> int:
    head = await store.append("long", 0, stamped(started()))
    for number in range(1, turns + 1):
        head = await store.append("long", head, stamped(*turn(number, words * 100)))
    return head


def _rows_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []

    def counted(data: bytes) -> list[StampedEvent]:
        counts.append(len(data))
        return decode_events(data)

    monkeypatch.setattr(journals, "decode_events", counted)
    return counts


async def test_j2_a_late_turn_writes_no_more_than_an_early_one(tmp_path: Path) -> None:
    """Snapshots count, too: over many turns they take less than the events."""
    log = tmp_path / "dragoman.db-wal"
    written: list[int] = []
    with Database.open(tmp_path) as database:
        store = SqliteJournals(database)
        database._connection.execute("PRAGMA wal_autocheckpoint = 0")
        head = await store.append("long", 0, stamped(started()))
        for number in range(1, 801):
            before = log.stat().st_size
            head = await store.append("long", head, stamped(*turn(number, "word " * 100)))
            written.append(log.stat().st_size - before)
    early, late = sum(written[:200]) / 200, sum(written[600:]) / 200
    text = len("word " * 100) * 2
    assert late < 1.5 * early
    assert late - text < 10_000


async def test_a_long_conversation_is_loaded_from_a_snapshot(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await _long(store, 300)
    all_of_it = await store.state("long")
    read = _rows_read(database, monkeypatch)
    found = await store.state("long")
    assert found is not None
    assert found == all_of_it
    assert found[1] == head
    assert len(found[0].record.keys) == 600
    assert len(read) < 150, "the rest is in the snapshot"
    # Without it, everything is read, with the same result.
    with database.writing():
        database.execute("DELETE FROM journal_snapshots")
    assert await store.state("long") == found


async def test_processes_that_append_little_make_snapshots_in_their_turn(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await store.append("long", 0, stamped(started()))
    for number in range(1, 301):
        # The store of another process, which knows only what is stored.
        head = await SqliteJournals(database).append("long", head, stamped(*turn(number, "word " * 100)))
    read = _rows_read(database, monkeypatch)
    found = await store.state("long")
    assert found is not None
    assert (found[1], len(found[0].record.keys)) == (head, 600)
    assert len(read) < 150


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x9b\x02"])
async def test_a_snapshot_that_cannot_be_read_is_ignored(
    database: Database, store: SqliteJournals, content: bytes
) -> None:
    await _long(store, 200)
    before = await store.state("long")
    with database.writing():
        assert database.execute("UPDATE journal_snapshots SET content = ?", content) == 1
    assert await store.state("long") == before


async def test_a_journal_that_was_deleted_gets_no_snapshot(
    store: SqliteJournals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another process may delete it just then."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES", 0)
    encode, is_deleted = snapshots.encode_snapshot, False
    with Database.open(tmp_path) as second:
        other = SqliteJournals(second)

        async def deleted() -> None:
            await other.release("one")
            assert await other.delete("one")

        real = store._database.write

        async def write(work: Callable[[Database], Any]) -> Any:
            nonlocal is_deleted
            if encoded and not is_deleted:
                is_deleted = True
                await deleted()
            return await real(work)

        encoded: list[bytes] = []

        def noted(state: ConversationState) -> bytes:
            encoded.append(encode(state))
            return encoded[-1]

        monkeypatch.setattr(journals, "encode_snapshot", noted)
        monkeypatch.setattr(store._database, "write", write)
        await store.append("one", 0, stamped(started(), *turn(1)))
        assert is_deleted
        assert store._database.rows(tuple[int], "SELECT count(*) FROM journal_snapshots") == [(0,)]


@pytest.mark.parametrize("damage", [b"", b"[[1.0", b'[[1.0,{"type":"of the future"}]]', b"\xff"])
async def test_damaged_events_are_an_error_that_says_so(
    database: Database, store: SqliteJournals, damage: bytes
) -> None:
    await store.append("one", 0, stamped(started()))
    with database.writing():
        database.execute("UPDATE journal_entries SET content = ?", damage)
    for reading in (store.read("one"), store.state("one")):
        with pytest.raises(UnreadableJournal):
            await reading
    # It can be deleted all the same.
    await store.release("one")
    assert await store.delete("one")


async def test_a_store_that_is_closed_raises_its_own_error(database: Database, store: SqliteJournals) -> None:
    database.close()
    with pytest.raises(StoreError):
        await store.append("one", 0, stamped(started()))
