"""Journals in SQLite: appended by one owner, read by all, deleted without a trace."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.conversations.history import NormalAnswer, NormalPrompt, item_key
from dragoman.journal import snapshots
from dragoman.journal.agent_events import (
    AgentStopped,
    PermissionDecided,
    PermissionRequested,
    ReplyEnded,
    RequestReceived,
    SessionChanged,
    TextSaid,
)
from dragoman.journal.chat_events import MessagesAdded
from dragoman.journal.event import JournalKind, JournalStarted
from dragoman.journal.events import AnyEvent, StampedEvent, UnreadableJournal, decode_events
from dragoman.journal.fold import ConversationFold, ConversationState
from dragoman.journal.sqlite import journals
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.sqlite.owners import is_free, own_name
from dragoman.journal.store import LEASE_SECONDS, JournalConflict
from dragoman.lm import user
from dragoman.process import ProcessIdentity
from dragoman.store import Database, SqliteResponses, StoredResponse, StoreError

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


def _at(*events: AnyEvent, at: float = 1_000.0) -> list[StampedEvent]:
    return [(at, event) for event in events]


def _started(kind: JournalKind = "agent", model: str = "m", parent: str | None = None) -> JournalStarted:
    return JournalStarted(kind, model, ("/folder",), "editor", None, parent, "a title")


def _turn(number: int, text: str = "hello") -> list[AnyEvent]:
    """A prompt and its answer, after `number - 1` turns of the same."""
    prompt, answer = NormalPrompt(f"{text} {number}"), NormalAnswer(f"{text} back {number}")
    return [
        RequestReceived(
            number,
            number,
            "prompt",
            "marker",
            "the history goes on",
            "",
            2 * (number - 1),
            (item_key(prompt),),
            items=(prompt,),
        ),
        TextSaid(number, 0, len(answer.text), answer.text),
        ReplyEnded(number, "complete", item_key(answer)),
    ]


async def test_events_are_read_in_order_and_from_any_place(store: SqliteJournals) -> None:
    assert await store.append("one", 0, _at(_started())) == 1
    assert await store.append("one", 1, _at(*_turn(1))) == 4
    assert await store.append("one", 4, _at(SessionChanged("s")), holds=False) == 5
    entries = await store.read("one")
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry.event for entry in entries] == [_started(), *_turn(1), SessionChanged("s")]
    # Also from the middle of what was appended together.
    assert [entry.sequence for entry in await store.read("one", 2)] == [3, 4, 5]
    assert await store.read("one", 5) == []
    assert await store.read("two") == []
    found = await store.state("one")
    assert found is not None
    assert (found[0].session, len(found[0].record.keys), found[1]) == ("s", 2, 5)
    assert await store.state("two") is None


async def test_an_append_after_another_event_than_the_last_writes_nothing(store: SqliteJournals) -> None:
    await store.append("one", 0, _at(_started()))
    for expected in (0, 2, 7):
        with pytest.raises(JournalConflict):
            await store.append("one", expected, _at(_started(), SessionChanged("x")))
    with pytest.raises(JournalConflict):
        await store.append("unknown", 3, _at(SessionChanged("x")))
    assert [entry.event for entry in await store.read("one")] == [_started()]


async def test_only_the_owner_appends_until_it_releases(database: Database, store: SqliteJournals) -> None:
    other = SqliteJournals(database, _other_process())
    await store.append("one", 0, _at(_started()))
    assert await other.claim("one", 1) == "held"
    with pytest.raises(JournalConflict):
        await other.append("one", 1, _at(SessionChanged("theirs")))
    await other.release("one")
    assert await other.claim("one", 1) == "held", "it is not theirs to release"
    await store.append("one", 1, (), holds=False)
    assert await other.claim("one", 0) == "changed"
    assert await other.claim("one", 1) == "ours"
    assert await store.claim("one", 1) == "held"
    with pytest.raises(JournalConflict):
        await store.append("one", 1, _at(SessionChanged("ours")))
    assert await other.claim("gone", 1) == "gone"
    [info] = await store.journals("agent")
    assert info.owner == str(os.getppid())


async def test_a_lease_that_was_not_renewed_ends(
    database: Database, store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SqliteJournals(database, _other_process())
    await store.append("one", 0, _at(_started()))
    await store.append("two", 0, _at(_started()))
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + LEASE_SECONDS - 1)
    await store.renew()
    monkeypatch.setattr(time, "monotonic", lambda: real() + 2 * LEASE_SECONDS - 2)
    assert await other.claim("one", 1) == "held"
    monkeypatch.setattr(time, "monotonic", lambda: real() + 2 * LEASE_SECONDS)
    assert await other.claim("one", 1) == "ours"


def _shifted(seconds: float) -> Callable[[], float]:
    real = time.time
    return lambda: real() + seconds


@pytest.mark.parametrize("days", [-4_000, -1, 1, 4_000])
def test_setting_the_clock_ends_no_lease_and_extends_none(
    monkeypatch: pytest.MonkeyPatch, days: float
) -> None:
    until = time.monotonic() + LEASE_SECONDS
    monkeypatch.setattr(time, "time", _shifted(days * 86_400))
    assert not is_free(own_name(), until)
    assert is_free(own_name(), until - 2 * LEASE_SECONDS)


@pytest.mark.parametrize("owner", [_DEAD, "no process at all", ""])
async def test_what_a_dead_process_held_is_free_whatever_its_lease_says(
    database: Database, owner: str
) -> None:
    """After a restart of the machine the clock of leases is behind those that were given before."""
    assert is_free(owner, time.monotonic() + 10_000_000)
    await SqliteJournals(database, owner).append("one", 0, _at(_started()))
    assert await SqliteJournals(database).claim("one", 1) == "ours"


async def test_what_is_appended_is_followed_here_and_in_another_process(
    tmp_path: Path, database: Database
) -> None:
    store = SqliteJournals(database)
    await store.append("one", 0, _at(_started()))
    with Database.open(tmp_path) as second:
        for reader in (store, SqliteJournals(second)):
            async with aclosing(reader.follow("one", 0)) as entries:
                assert (await anext(entries)).event == _started()
                head = len(await store.read("one"))
                for entry in (await store.read("one"))[1:]:
                    assert await anext(entries) == entry
                waiting = asyncio.ensure_future(anext(entries))
                await store.append("one", head, _at(SessionChanged("s")))
                async with asyncio.timeout(30):
                    assert (await waiting).sequence == head + 1


async def test_the_heads_are_given_when_another_process_has_written(
    tmp_path: Path, database: Database
) -> None:
    store = SqliteJournals(database)
    await store.append("one", 0, _at(_started()))
    await store.append("chat", 0, _at(_started("chat")))
    await store.append("other", 0, _at(_started(model="n")))
    first = await store.heads("m", None)
    assert first is not None
    seen, heads = first
    assert heads == {"one": 1}
    await store.append("one", 1, _at(SessionChanged("s")))
    assert await store.heads("m", seen) is None, "what this process wrote is no news to it"
    with Database.open(tmp_path) as second:
        await SqliteJournals(second).append("two", 0, _at(_started()))
    again = await store.heads("m", seen)
    assert again is not None
    assert again[1] == {"one": 2, "two": 1}


async def test_a_list_has_the_kinds_that_are_wanted_the_latest_first(store: SqliteJournals) -> None:
    await store.append("old", 0, _at(_started(), at=10.0), holds=False)
    await store.append("new", 0, _at(_started("chat"), at=20.0), holds=False)
    await store.append("part", 0, _at(_started(parent="new"), at=15.0), holds=False)
    assert [info.id for info in await store.journals("agent", "chat")] == ["new", "part", "old"]
    assert [info.id for info in await store.journals("response")] == []
    found = await store.find("part")
    assert found is not None
    assert (found.kind, found.model, found.workspace, found.connection, found.title, found.parent) == (
        "agent",
        "m",
        "/folder",
        "editor",
        "a title",
        "new",
    )
    assert (found.started_at, found.used_at, found.sequence, found.owner) == (15.0, 15.0, 1, "")
    assert await store.find("nothing") is None


# Deleting.


def _files_with(secret: str, folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if secret.encode() in path.read_bytes()]


def _asked(id_: str) -> PermissionRequested:
    return PermissionRequested(id_, "claude", "execute", "dragoman-agent-action-execute", f"digest {id_}")


@pytest.mark.parametrize("times", [1, 2_000])
async def test_j6_nothing_of_what_was_said_is_left_but_decisions_are(tmp_path: Path, times: int) -> None:
    decided = PermissionDecided("q", is_allowed=False, by="person", where="vscode", seconds=2.0, why=_SECRET)
    with Database.open(tmp_path) as database, Database.open(tmp_path) as other:
        store = SqliteJournals(database)
        responses = SqliteResponses(database)
        await store.append(
            "chat", 0, _at(_started("chat"), MessagesAdded((user(_SECRET * times),))), holds=False
        )
        await store.append("one", 0, _at(_started(parent="chat"), *_turn(1, _SECRET * times)))
        await store.append("one", 4, _at(_asked("q"), decided), holds=False)
        await responses.save(StoredResponse("r1", "http:", None, _NOW, _SECRET.encode(), "one"))
        assert _files_with(_SECRET, tmp_path)
        # Others have the file open, as another process would.
        assert len(await SqliteJournals(other).read("one")) == 6
        assert await store.delete("one")
        assert await store.delete("chat")
        assert _files_with(_SECRET, tmp_path) == []
        assert _files_with("a title", tmp_path) == []
        assert await responses.find("r1", "http:") is None
        assert await store.journals("agent", "chat") == []
        assert (await store.find("one"), await store.read("one"), await store.state("one")) == (
            None,
            [],
            None,
        )
        assert not await store.delete("one"), "it is deleted already"
        left = await store.permissions(0)
    assert [(id_, entry.event) for id_, entry in left] == [
        ("one", _asked("q")),
        ("one", PermissionDecided("q", is_allowed=False, by="person", where="vscode", seconds=2.0)),
    ]


async def test_j6_no_copy_is_left_in_free_room_of_the_file(tmp_path: Path) -> None:
    """SQLite overwrites what is deleted, but not the copies that it made when it split a page."""
    with Database.open(tmp_path) as database:
        store = SqliteJournals(database)
        await store.append("one", 0, _at(_started(), *_turn(1)), holds=False)
        with closing(sqlite3.connect(tmp_path / "dragoman.db", isolation_level=None)) as careless:
            careless.execute("PRAGMA secure_delete = OFF")
            careless.execute("INSERT INTO keys (name, key) VALUES ('copy', ?)", [_SECRET.encode() * 10])
            careless.execute("DELETE FROM keys WHERE name = 'copy'")
            careless.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert _files_with(_SECRET, tmp_path)
        assert await store.delete("one")
        assert _files_with(_SECRET, tmp_path) == []


async def test_j6_with_a_chat_its_agents_conversations_are_deleted(tmp_path: Path) -> None:
    with Database.open(tmp_path) as database:
        store = SqliteJournals(database)
        await store.append("chat", 0, _at(_started("chat")), holds=False)
        await store.append("part", 0, _at(_started(parent="chat"), *_turn(1, _SECRET)), holds=False)
        assert await store.delete("chat")
        assert await store.journals("agent", "chat") == []
        assert _files_with(_SECRET, tmp_path) == []


async def test_what_is_held_is_not_deleted(database: Database, store: SqliteJournals) -> None:
    await store.append("one", 0, _at(_started()))
    assert not await SqliteJournals(database, _other_process()).delete("one")
    assert await store.find("one") is not None


async def test_an_id_is_never_used_again(store: SqliteJournals) -> None:
    """A process that lags behind would append to another conversation."""
    await store.append("one", 0, _at(_started()), holds=False)
    await store.delete("one")
    with pytest.raises(JournalConflict):
        await store.append("one", 0, _at(_started()))
    with pytest.raises(JournalConflict):
        await store.append("one", 1, _at(SessionChanged("s")))


# Time.


async def _used(store: SqliteJournals, id_: str, days: float, *, holds: bool = False) -> None:
    at = (_NOW - timedelta(days=days)).timestamp()
    await store.append(id_, 0, _at(_started(), at=at), holds=holds)


async def _looked(store: SqliteJournals, *, days: float = 0) -> int:
    return await store.forget_unused(_NOW + timedelta(days=days), timedelta(days=30))


async def test_what_was_not_used_for_long_is_deleted_unless_it_is_held(store: SqliteJournals) -> None:
    await _used(store, "old", 31)
    await _used(store, "held", 31, holds=True)
    await _used(store, "new", 29)
    await _looked(store, days=-1)
    assert await _looked(store) == 1
    assert {info.id for info in await store.journals("agent")} == {"held", "new"}


async def test_a_clock_that_jumps_forward_deletes_nothing(store: SqliteJournals) -> None:
    await _used(store, "one", 0)
    await _looked(store)
    assert await _looked(store, days=3_000) == 0
    # Set right again, it deletes nothing either.
    assert await _looked(store, days=1) == 0
    assert await _looked(store, days=2) == 0
    assert await store.find("one") is not None


async def test_after_a_long_pause_what_is_old_is_deleted_at_the_second_look(store: SqliteJournals) -> None:
    await _used(store, "one", 0)
    await _looked(store)
    assert [await _looked(store, days=40), await _looked(store, days=40.1)] == [0, 1]


async def test_what_was_used_in_the_future_is_neither_deleted_nor_kept_for_ever(
    store: SqliteJournals,
) -> None:
    await _used(store, "one", -1_000)
    await _looked(store)
    assert [await _looked(store, days=29), await _looked(store, days=31)] == [0, 1]


# Long conversations.


async def _long(store: SqliteJournals, turns: int, words: str = "word ") -> int:
    head = await store.append("long", 0, _at(_started()))
    for number in range(1, turns + 1):
        head = await store.append("long", head, _at(*_turn(number, words * 100)))
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
        head = await store.append("long", 0, _at(_started()))
        for number in range(1, 801):
            before = log.stat().st_size
            head = await store.append("long", head, _at(*_turn(number, "word " * 100)))
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
    head = await store.append("long", 0, _at(_started()))
    for number in range(1, 301):
        # The store of another process, which knows only what is stored.
        head = await SqliteJournals(database).append("long", head, _at(*_turn(number, "word " * 100)))
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


async def test_a_snapshot_in_the_middle_of_a_reply_changes_nothing(
    store: SqliteJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES", 0)
    answer = NormalAnswer("half of it")
    await store.append("one", 0, _at(_started(), _turn(1)[0]))
    await store.append("one", 2, _at(TextSaid(1, 0, 4, "half")))
    await store.append(
        "one", 3, _at(TextSaid(1, 4, 6, " of it"), ReplyEnded(1, "cut", item_key(answer), text=answer.text))
    )
    found = await store.state("one")
    assert found is not None
    [reply] = found[0].record.replies
    assert (reply.status, reply.starts, reply.ends) == ("cut", 1, 2)
    everything = ConversationFold("one").apply_all(entry.event for entry in await store.read("one"))
    assert found[0] == everything.state
    assert found[0].record.cut == answer


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
        await store.append("one", 0, _at(_started(), *_turn(1)))
        assert is_deleted
        assert store._database.rows(tuple[int], "SELECT count(*) FROM journal_snapshots") == [(0,)]


@pytest.mark.parametrize("damage", [b"", b"[[1.0", b'[[1.0,{"type":"of the future"}]]', b"\xff"])
async def test_damaged_events_are_an_error_that_says_so(
    database: Database, store: SqliteJournals, damage: bytes
) -> None:
    await store.append("one", 0, _at(_started()))
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
        await store.append("one", 0, _at(_started()))


async def test_the_end_of_an_agent_and_a_release_are_no_use(store: SqliteJournals) -> None:
    """At the end of a server all its agents end, and the order of the list stays."""
    await store.append("a", 0, _at(_started(), *_turn(1), at=1_000.0))
    await store.append("b", 0, _at(_started(), *_turn(1), at=2_000.0))
    head = (await store.journals("agent"))[-1]
    assert head.id == "a"
    sequence = await store.append("a", head.sequence, _at(AgentStopped(), at=3_000.0))
    await store.append("a", sequence, [], holds=False)
    assert [(info.id, info.used_at) for info in await store.journals("agent")] == [
        ("b", 2_000.0),
        ("a", 1_000.0),
    ]
