"""The writer of a journal: what was added together is one append, and a store that fails loses nothing."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dragoman.journal import writer as writing
from dragoman.journal.agent_events import SessionChanged, TextSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JOURNAL_LEASE_SECONDS, JournalStore
from dragoman.journal.writer import Journals, JournalWriter
from dragoman.store import Database, StoreError

_STARTED = JournalStarted("agent", "m", ("/folder",), title="a title")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> SqliteJournals:
    return SqliteJournals(database)


def _is_ours(writer: JournalWriter) -> bool:
    return writer.is_ours


async def _events(store: JournalStore) -> list[AnyEvent]:
    return [entry.event for entry in await store.read("one")]


async def test_what_is_added_together_is_stored_together(store: SqliteJournals) -> None:
    now = iter([10.0, 20.0])
    writer = JournalWriter(Journals(store), "one", now=lambda: next(now))
    writer.add(_STARTED)
    writer.add(SessionChanged("s"), SessionChanged("t"))
    assert await _events(store) == []
    assert (writer.sequence, writer.has_news) == (0, True)
    await writer.flush()
    assert [(entry.at, entry.event) for entry in await store.read("one")] == [
        (10.0, _STARTED),
        (20.0, SessionChanged("s")),
        (20.0, SessionChanged("t")),
    ]
    assert (writer.sequence, writer.has_news) == (3, False)
    await writer.flush()


async def test_what_is_to_be_stored_soon_is(store: SqliteJournals) -> None:
    writer = JournalWriter(Journals(store), "one")
    writer.add(_STARTED)
    writer.flush_soon()
    writer.flush_soon()
    writer.add(SessionChanged("s"))
    await writer.flush()
    assert await _events(store) == [_STARTED, SessionChanged("s")]


async def test_a_journal_is_held_and_released_with_what_is_stored(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = JournalWriter(Journals(store), "one")
    writer.note_claimed()
    assert _is_ours(writer), "no other process knows it"
    writer.add(_STARTED)
    await writer.flush()
    assert _is_ours(writer)
    real = time.monotonic
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: real() + JOURNAL_LEASE_SECONDS)
        assert not _is_ours(writer), "whatever the store says"
        writer.note_renewed()
        assert _is_ours(writer)
    writer.hold(holds=False)
    assert _is_ours(writer), "until the release is stored"
    await writer.flush()
    assert not _is_ours(writer)
    [info] = await store.journals("agent")
    assert info.owner == ""


async def test_only_metadata_is_stored_where_the_settings_or_the_request_say_so(
    store: SqliteJournals,
) -> None:
    writer = JournalWriter(Journals(store, "metadata"), "one")
    writer.add(_STARTED, TextSaid(1, 0, 5, "hello"))
    await writer.flush()
    [started, said] = await _events(store)
    assert isinstance(started, JournalStarted)
    assert (started.title, said) == ("", TextSaid(1, 0, 5))
    writer = JournalWriter(Journals(store), "one", writer.sequence)
    writer.add(TextSaid(1, 5, 5, "hello"), with_content=False)
    writer.add(TextSaid(1, 10, 5, "hello"))
    await writer.flush()
    assert (await _events(store))[2:] == [TextSaid(1, 5, 5), TextSaid(1, 10, 5, "hello")]


async def test_nothing_is_stored_when_it_is_switched_off(store: SqliteJournals) -> None:
    for journals in (Journals(store, "off"), Journals()):
        writer = JournalWriter(journals, "one")
        writer.add(_STARTED)
        writer.flush_soon()
        await writer.flush()
        await journals.forget_unused()
        assert _is_ours(writer)
    assert await _events(store) == []


async def test_j1_while_the_store_fails_events_wait_and_are_then_stored_once(
    tmp_path: Path, database: Database, store: SqliteJournals, caplog: pytest.LogCaptureFixture
) -> None:
    writer = JournalWriter(Journals(store), "one")
    writer.add(_STARTED)
    await writer.flush()
    other = sqlite3.connect(tmp_path / "dragoman.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writer.add(SessionChanged("s"))
    with caplog.at_level(logging.WARNING):
        await writer.flush()
    assert "one is not stored yet, and will be when the store works again" in caplog.text
    assert writer.has_news
    writer.add(SessionChanged("t"))
    other.execute("COMMIT")
    other.close()
    await writer.flush()
    assert await _events(store) == [_STARTED, SessionChanged("s"), SessionChanged("t")]


async def test_what_waits_for_a_store_that_fails_has_a_limit(
    database: Database,
    store: SqliteJournals,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(writing, "_MOST_WAITING", 3)
    writer = JournalWriter(Journals(store), "one")
    database.close()
    writer.add(_STARTED, SessionChanged("s"))
    await writer.flush()
    writer.add(SessionChanged("t"), SessionChanged("u"))
    await writer.flush()
    assert "one is no longer stored" in caplog.text
    assert not writer.has_news
    assert not _is_ours(writer), "it cannot be known"


async def test_a_writer_that_another_process_has_overtaken_writes_nothing_more(
    store: SqliteJournals, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[str] = []
    writer = JournalWriter(Journals(store), "one", on_lost=lambda: lost.append("one"))
    writer.add(_STARTED)
    await writer.flush()
    await store.append("one", 1, [(1.0, SessionChanged("theirs"))])
    writer.add(SessionChanged("ours"))
    await writer.flush()
    assert lost == ["one"]
    writer.add(SessionChanged("again"))
    await writer.flush()
    assert await _events(store) == [_STARTED, SessionChanged("theirs")]


async def test_what_was_not_used_for_long_is_looked_for_once_a_day(
    database: Database,
    store: SqliteJournals,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await store.append("one", 0, [(1.0, _STARTED)], holds=False)
    journals = Journals(store, keep=timedelta(days=30))
    await journals.forget_unused()
    assert await store.find("one") is None
    await store.append("two", 0, [(1.0, _STARTED)], holds=False)
    await journals.forget_unused()
    assert await store.find("two") is not None
    real = time.monotonic
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: real() + 25 * 3600)
        await journals.forget_unused()
    assert await store.find("two") is None
    database.close()
    with pytest.raises(StoreError):
        await store.find("two")
    await Journals(store, keep=timedelta(days=30)).forget_unused()
    assert "could not be deleted" in caplog.text
