"""A store that fails: a disk that is full, a file that is locked or cannot be written, two processes, a clock that is set.

The conversation goes on, events wait, and are stored when the store works again; none is lost or doubled. A store that
fails gives no claim.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.journal import snapshots
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested, SessionChanged
from dragoman.journal.events import AnyEvent
from dragoman.journal.fold import ConversationFold, ConversationState
from dragoman.journal.sqlite import journals
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.writer import Journals, JournalWriter
from dragoman.process import ProcessIdentity
from dragoman.store import Database, StoreError
from journal.turns import STARTED, appends_of

_TESTS = Path(__file__).parents[1]

Fault = Callable[[Database], AbstractContextManager[None]]


@contextmanager
def _locked(database: Database) -> Iterator[None]:
    """Another process writes, and does not come to an end."""
    other = sqlite3.connect(database.path, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        other.close()


@contextmanager
def _full(database: Database) -> Iterator[None]:
    """To SQLite, a file that may not grow is a disk that is full."""
    [(pages,)] = database.rows(tuple[int], "PRAGMA page_count")
    database.rows(tuple[int], f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        database.rows(tuple[int], "PRAGMA max_page_count = 1000000")


@contextmanager
def _read_only(database: Database) -> Iterator[None]:
    database.rows(tuple[int], "PRAGMA query_only = ON")
    try:
        yield
    finally:
        database.rows(tuple[int], "PRAGMA query_only = OFF")


_FAULTS: dict[str, Fault] = {"locked": _locked, "full": _full, "read only": _read_only}
_every_fault = pytest.mark.parametrize("fault", _FAULTS.values(), ids=_FAULTS.keys())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.store.database.BUSY_SECONDS", 0.02)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> SqliteJournals:
    return SqliteJournals(database)


async def _written(writer: JournalWriter, first: int, last: int) -> list[AnyEvent]:
    """The turns from the first to the last, each append flushed. Returns their events."""
    made: list[AnyEvent] = []
    for number in range(first, last + 1):
        for events in appends_of(number):
            writer.add(*events)
            made += events
            await writer.flush()
    return made


async def _stored(store: SqliteJournals, journal: str = "one") -> list[AnyEvent]:
    entries = await store.read(journal)
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    return [entry.event for entry in entries]


# A store that fails.


@_every_fault
async def test_j1_events_wait_for_a_store_that_fails_and_none_is_lost_or_doubled(
    database: Database, store: SqliteJournals, fault: Fault
) -> None:
    lost: list[bool] = []
    writer = JournalWriter(Journals(store), "one", on_lost=lambda: lost.append(True))
    writer.hold(holds=True)
    made = await _written(writer, 1, 3)
    # Long enough that a full file has no room for it in its last pages.
    for first in (4, 12):
        with fault(database):
            made += await _written(writer, first, first + 6)
            assert writer.has_news
            assert writer.is_ours, "the lease lasts, whatever the store says"
            stored = await _stored(store)
            assert stored == made[: len(stored)]
            if fault is not _full:
                # A claim takes no room.
                with pytest.raises(StoreError):
                    await store.claim("one", writer.sequence)
        made += await _written(writer, first + 7, first + 7)
        assert await _stored(store) == made
        assert not writer.has_news
    found = await store.state("one")
    assert found == (ConversationFold("one").apply_all(made).state, len(made))
    assert lost == []


async def test_j1_a_snapshot_that_cannot_be_stored_is_made_later(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events before it are stored, and the writer has to know."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES", 1_000)
    real = snapshots.encode_snapshot
    locks: list[sqlite3.Connection] = []

    def locked(state: ConversationState) -> bytes:
        """Another process begins to write, just then."""
        locks.append(sqlite3.connect(database.path, isolation_level=None))
        locks[-1].execute("BEGIN EXCLUSIVE")
        return real(state)

    lost: list[bool] = []
    writer = JournalWriter(Journals(store), "one", on_lost=lambda: lost.append(True))
    writer.hold(holds=True)
    monkeypatch.setattr(journals, "encode_snapshot", locked)
    made, number = await _written(writer, 1, 1), 1
    while not locks:
        number += 1
        made += await _written(writer, number, number)
    assert not writer.has_news, "they are stored, without a snapshot"
    locks[0].close()
    monkeypatch.setattr(journals, "encode_snapshot", real)
    made += await _written(writer, number + 1, number + 30)
    assert (lost, await _stored(store)) == ([], made)
    [(made_of_it,)] = database.rows(tuple[int], "SELECT count(*) FROM journal_snapshots")
    assert made_of_it == 1
    found = await store.state("one")
    assert found == (ConversationFold("one").apply_all(made).state, len(made))


async def test_j1_what_is_flushed_by_a_task_that_is_cancelled_is_stored_later(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.store.database.BUSY_SECONDS", 30.0)
    writer = JournalWriter(Journals(store), "one")
    made = await _written(writer, 1, 1)
    with _locked(database):
        writer.add(SessionChanged("s"))
        waiting = asyncio.create_task(writer.flush())
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
    writer.add(SessionChanged("t"))
    await writer.flush()
    assert await _stored(store) == [*made, SessionChanged("s"), SessionChanged("t")]


# Two processes.


class _Racer:
    """Another process that appends and claims when it is told to."""

    def __init__(self, folder: Path, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "journal.appender", str(folder), "one", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_TESTS)},
            text=True,
        )

    def tell(self, what: str, expected: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {expected}\n")
        self._process.stdin.flush()

    def heard(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture
def racers(tmp_path: Path, database: Database) -> Iterator[list[_Racer]]:
    del database
    both = [_Racer(tmp_path / "state", name) for name in ("a", "b")]
    assert [racer.heard() for racer in both] == ["ready", "ready"]
    yield both
    for racer in both:
        racer.close()


def _at_once(racers: list[_Racer], what: str, expected: int) -> list[str]:
    for racer in racers:
        racer.tell(what, expected)
    return [racer.heard() for racer in racers]


async def test_of_two_processes_that_append_after_the_same_event_one_does(
    store: SqliteJournals, racers: list[_Racer]
) -> None:
    rounds = 200
    sequence = await store.append("one", 0, [(1.0, STARTED)], holds=False)
    won = []
    for each in range(rounds):
        # Each in its turn is told first.
        answers = _at_once(racers[:: 1 if each % 2 else -1], "append", sequence)
        assert sorted(answers) == ["conflict", "stored"], each
        sequence += 1
        stored = (await store.read("one", sequence - 1))[-1]
        assert stored.sequence == sequence
        won.append(stored.event)
    assert await _stored(store) == [STARTED, *won]
    names = [event.session for event in won if isinstance(event, SessionChanged)]
    assert [str(name).split()[1] for name in names] == [str(number) for number in range(1, rounds + 1)]
    assert {str(name)[0] for name in names} == {"a", "b"}, "no race: one of them always wins"


async def test_of_two_processes_that_claim_at_once_one_owns_the_journal(
    store: SqliteJournals, racers: list[_Racer]
) -> None:
    sequence = await store.append("one", 0, [(1.0, STARTED)], holds=False)
    for each in range(100):
        assert sorted(_at_once(racers[:: 1 if each % 2 else -1], "claim", sequence)) == ["held", "ours"]
        assert await store.claim("one", sequence) == "held"
        assert _at_once(racers, "release", 0) == ["released", "released"]


# A clock that is set.


def _other_process() -> str:
    """The name of another process that lives."""
    identity = ProcessIdentity.of(os.getppid())
    assert identity is not None
    return f"{identity.pid} {identity.started}"


_YEAR = 365 * 86_400.0


def _now() -> float:
    """By the clock as it is set when it is called."""
    return time.time()


async def test_j1_a_clock_that_jumps_by_years_changes_no_order_and_no_lease(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, other = time.time, SqliteJournals(database, _other_process())
    writer = JournalWriter(Journals(store), "one", now=_now)
    writer.hold(holds=True)
    made: list[AnyEvent] = []
    for number, years in enumerate((0, -20, 30, -50, 0, 10, -1, 0), 1):
        monkeypatch.setattr(time, "time", lambda years=years: real() + years * _YEAR)
        made += await _written(writer, number, number)
        assert writer.is_ours
        assert await other.claim("one", writer.sequence) == "held"
    assert await _stored(store) == made
    assert await store.state("one") == (ConversationFold("one").apply_all(made).state, len(made))
    # Requests and decisions are listed by time, each as it was then; none is missing.
    decided = [event for event in made if isinstance(event, PermissionRequested | PermissionDecided)]
    assert len(await store.permissions(-1e12)) == len(decided)


async def test_a_clock_that_was_wrong_while_a_conversation_was_used_does_not_delete_it(
    store: SqliteJournals,
) -> None:
    """Set back for a while, and then right again: what was written meanwhile is as new as the rest."""
    keep, now = timedelta(days=30), datetime.now(UTC)
    wrong = now.timestamp() - 20 * _YEAR
    assert await store.forget_unused(now, keep) == 0
    sequence = await store.append("before", 0, [(now.timestamp(), STARTED)], holds=False)
    await store.append("before", sequence, [(wrong, SessionChanged("s"))], holds=False)
    await store.append("meanwhile", 0, [(wrong, STARTED)], holds=False)
    for days in (1, 2, 29):
        assert await store.forget_unused(now + timedelta(days=days), keep) == 0
    assert {info.id for info in await store.journals("agent")} == {"before", "meanwhile"}
    # It is not kept for ever either.
    assert await store.forget_unused(now + timedelta(days=31), keep) == 2
