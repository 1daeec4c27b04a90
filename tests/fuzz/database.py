"""Checks of what is in the database: rows and events that a disk or another program has spoilt."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

from conversations.snapshot_0_1 import SavedError, load_0_1
from dragoman.conversations.history import NormalPrompt, item_key
from dragoman.journal.agent_events import ReplyEnded, RequestReceived, SessionChanged
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import StampedEvent, UnreadableJournal, decode_events, encode_events
from dragoman.journal.fold import ConversationFold
from dragoman.journal.snapshots import decode_snapshot, encode_snapshot
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.store import ApprovalStore, Database, SqliteResponses, StoreError
from dragoman.store.from_0_1 import import_conversations
from dragoman.store.journal_rows import SPACE
from fuzz.check import Check
from journal.from_0_1 import state_of

__all__ = ["stored_conversations", "stored_events", "stored_journals", "stored_rows"]


def stored_events(data: bytes) -> None:
    """Events are read and folded, or refused. What was read is written as it was, and a snapshot of it is the same."""
    try:
        events = decode_events(data)
    except UnreadableJournal as error:
        str(error)
        return
    again = decode_events(encode_events(events))
    assert [event for _, event in again] == [event for _, event in events]
    fold = ConversationFold("c")
    try:
        state = fold.apply_all(event for _, event in events).state
    except UnreadableJournal as error:
        str(error)
        return
    assert decode_snapshot("c", encode_snapshot(state)) == state
    # What follows is folded, too, whatever was before.
    size = len(state.record.keys)
    fold.apply_all((RequestReceived(2**31, 1, "prompt", "none", "", "", size), ReplyEnded(2**31, "complete")))
    assert fold.state.record.keys == state.record.keys


_JOURNAL: list[StampedEvent] = [
    (1.0, JournalStarted("agent", "demo", ("/w",), "stdio", title="title")),
    (2.0, RequestReceived(1, 1, "fresh", "none", "", "", 0, (item_key(NormalPrompt("hello")),))),
    (3.0, ReplyEnded(1, "complete")),
]


@contextmanager
def stored_journals() -> Iterator[Check]:
    """Spoilt rows of one journal: it is read or refused, it can be deleted, and the other one is unharmed.

    The first byte says which rows: events, a snapshot, or both.
    """
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder,
        Database.open(Path(folder) / "state") as database,
        asyncio.Runner() as runner,
    ):
        store = SqliteJournals(database)
        run = runner.run
        run(store.append("other", 0, _JOURNAL, holds=False))
        made = 0

        def check(data: bytes) -> None:
            nonlocal made
            made += 1
            with database.writing():
                # What a check that failed has left.
                database.execute("DELETE FROM journals WHERE id != 'other'")
            id_, which = f"spoilt {made}", data[0] % 3 if data else 0
            run(store.append(id_, 0, _JOURNAL, holds=False))
            [(number,)] = database.rows(tuple[int], "SELECT number FROM journals WHERE id = ?", id_)
            with database.writing():
                if which != 1:
                    last = number * SPACE + len(_JOURNAL)
                    database.execute("UPDATE journal_entries SET content = ? WHERE key = ?", data[1:], last)
                if which != 0:
                    database.execute(
                        "INSERT INTO journal_snapshots (number, sequence, content) VALUES (?, ?, ?)",
                        number,
                        len(_JOURNAL) - 1,
                        data[1:],
                    )
            for read in (store.read(id_), store.state(id_)):
                _refused_or_read(run, read)
            _refused_or_read(run, store.append(id_, len(_JOURNAL), [(4.0, SessionChanged("s"))], holds=False))
            found = run(store.state("other"))
            assert found is not None
            assert len(found[0].record.keys) == 1
            assert {"other", id_} == {info.id for info in run(store.journals("agent"))}
            assert run(store.delete(id_))
            run(store.permissions(0))
            assert run(store.find(id_)) is None

        yield check


def _refused_or_read(
    run: Callable[[Coroutine[object, object, object]], object], reading: Coroutine[object, object, object]
) -> None:
    try:
        run(reading)
    except UnreadableJournal as error:
        str(error)


_CONVERSATIONS_0_1 = (
    (
        "CREATE TABLE conversations (id TEXT PRIMARY KEY, model TEXT NOT NULL, title TEXT NOT NULL, workspace TEXT NOT NULL, "
        "owner TEXT NOT NULL, used_at TEXT NOT NULL, content BLOB NOT NULL, leased_until REAL NOT NULL DEFAULT 0, "
        "revision INTEGER NOT NULL DEFAULT 0)"
    ),
    "CREATE TABLE conversation_revisions (count INTEGER NOT NULL)",
)


# Those of the corpus, which are right.
_TITLE_AND_TIME = b"title 2026-01-01T00:00:00+00:00"


@contextmanager
def stored_conversations() -> Iterator[Check]:
    """A conversation of Dragoman 0.1: what 0.1 could read becomes a journal with the same state, and the rest is kept.

    The first line is its title and the time of its last use, with a space between them.
    """
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder,
        Database.open(Path(folder) / "state") as database,
        asyncio.Runner() as runner,
    ):
        store = SqliteJournals(database)

        def check(data: bytes) -> None:
            first, _, content = data.partition(b"\n")
            title, _, used_at = first.partition(b" ")
            with database.writing():
                for table in ("journals", "journal_heads", "journal_entries"):
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
                database.execute("DELETE FROM unreadable_conversations")
                for sql in _CONVERSATIONS_0_1:
                    database.execute(sql)
                database.execute(
                    "INSERT INTO conversations (id, model, title, workspace, owner, used_at, content) "
                    "VALUES ('c', 'demo', CAST(? AS TEXT), '/w', '', CAST(? AS TEXT), ?)",
                    title,
                    used_at,
                    content,
                )
                import_conversations(database)
            found = runner.run(store.state("c"))
            if found is None:
                [(kept,)] = database.rows(tuple[bytes], "SELECT content FROM unreadable_conversations")
                assert kept == content
                assert first != _TITLE_AND_TIME or not _could_be_read(content)
                return
            assert found[0] == state_of(load_0_1(content), "c")

        yield check


def _could_be_read(content: bytes) -> bool:
    try:
        load_0_1(content)
    except SavedError:
        return False
    return True


_TABLES = (
    ("approvals", ("tool", "key", "workspace", "granted_at")),
    (
        "journals",
        ("number", "id", "kind", "model", "workspace", "connection", "title", "parent", "started_at"),
    ),
    ("responses", ("id", "connection", "previous", "used_at", "content", "size")),
    ("journal_heads", ("number", "sequence", "owner", "leased_until", "used_at")),
)


@contextmanager
def stored_rows() -> Iterator[Check]:
    """Rows that another program wrote: text that is none, numbers where there should be text."""
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder,
        Database.open(Path(folder) / "state") as database,
        asyncio.Runner() as runner,
    ):
        journals = SqliteJournals(database)

        def check(data: bytes) -> None:
            table, columns = _TABLES[data[0] % len(_TABLES)] if data else _TABLES[0]
            values = (data[1:].split(b"\n") + [b""] * len(columns))[: len(columns)]
            places = ", ".join("CAST(? AS TEXT)" if value[:1] != b"#" else "?" for value in values)
            try:
                with database.writing():
                    for each, _ in _TABLES:
                        database.execute(f"DELETE FROM {each}")  # noqa: S608 - names of our own
                    if table == "journal_heads":
                        database.execute(
                            "INSERT INTO journals (number, id, kind, model, workspace, connection, title, started_at) "
                            "VALUES (1, 'c', 'agent', 'demo', '', '', '', 0)"
                        )
                    database.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *values)  # noqa: S608
                    if table == "journals":
                        database.execute("INSERT INTO journal_heads (number, used_at) VALUES (1, 0)")
            except StoreError:
                return
            for read in (
                ApprovalStore(database).list,
                lambda: runner.run(SqliteResponses(database).find("a", "b")),
                lambda: runner.run(journals.journals("agent")),
                lambda: runner.run(journals.heads("demo", None)),
                lambda: runner.run(journals.find("c")),
                lambda: runner.run(journals.claim("c", 0)),
                lambda: runner.run(journals.state("c")),
            ):
                try:
                    read()
                except StoreError as error:
                    str(error)

        yield check
