"""J3: a database of Dragoman 0.1 is migrated whole or not at all, and every conversation of it is what it was."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.bridge import crowded
from conversations.snapshot_0_1 import load_0_1, save_0_1
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.store import Database, StoreError
from dragoman.store.database import MIGRATIONS
from dragoman.store.journal_rows import insert_events
from journal.appender import Order
from journal.from_0_1 import VERSION_0_1, database_0_1, state_of
from journal.test_journal_kills import Appenders

_CONVERSATION = (Path(__file__).parent / "data" / "conversation-0.1.json").read_bytes()
_UNREADABLE = ("broken", b'{"version":1,"id":"broken"}')


def _conversations(count: int) -> dict[str, bytes]:
    """Conversations as 0.1 stored them: finished, pending and cut."""
    timelines = crowded(count).timelines
    return {
        id_: save_0_1(timeline._snapshot, f"session {number}" if number % 3 else None, number)
        for number, (id_, timeline) in enumerate(timelines.items())
    }


def _dump(path: Path) -> tuple[int, list[str]]:
    """The version and all rows. Its pages may be others: they are made smaller first."""
    with closing(sqlite3.connect(path)) as connection:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        return version, list(connection.iterdump())


async def _compare(folder: Path, expected: dict[str, bytes]) -> None:
    with Database.open(folder) as database:
        store = SqliteJournals(database)
        found = {info.id: info for info in await store.journals("agent")}
        # That of the state folder itself has a test of its own.
        assert found.keys() - expected.keys() == {"nrfisieeu7nywkzg"}
        assert len(await store.journals("agent")) == len(expected) + 1, "one of them is there twice"
        for id_, content in expected.items():
            state = await store.state(id_)
            assert state == (state_of(load_0_1(content)), 2), id_
            assert (found[id_].title, found[id_].owner) == ("a title", "")
            assert await store.claim(id_, 2) == "ours"
            await store.release(id_)
        tables = database.rows(tuple[str], "SELECT name FROM sqlite_master WHERE name LIKE 'conversation%'")
        assert tables == []
        # What is no conversation is as it was.
        assert database.rows(tuple[str], "SELECT key FROM approvals") == [("echo hello",)]
        assert database.rows(tuple[int], "SELECT count(*) FROM responses") == [(2,)]


async def test_j3_every_conversation_of_0_1_is_a_journal_with_the_same_state(tmp_path: Path) -> None:
    conversations = {**_conversations(400), "aaaaaaaaaaaaaaab": _CONVERSATION}
    assert len(conversations) > 400
    database_0_1(tmp_path / "state", conversations.items())
    # Twice: the second time there is nothing to do.
    for _ in range(2):
        await _compare(tmp_path / "state", conversations)


async def test_j3_the_conversation_of_the_state_folder_that_0_1_left(tmp_path: Path) -> None:
    path = database_0_1(tmp_path / "state")
    with closing(sqlite3.connect(path)) as connection:
        [(id_, title, content)] = connection.execute("SELECT id, title, content FROM conversations")
    with Database.open(tmp_path / "state") as database:
        store = SqliteJournals(database)
        assert await store.state(id_) == (state_of(load_0_1(content)), 2)
        [info] = await store.journals("agent")
        assert (info.title, info.workspace) == (title, "/work")


async def test_j3_what_cannot_be_read_is_kept_and_the_others_are_migrated(tmp_path: Path) -> None:
    conversations = _conversations(10)
    database_0_1(tmp_path / "state", [_UNREADABLE, *conversations.items()])
    await _compare(tmp_path / "state", conversations)
    with Database.open(tmp_path / "state") as database:
        kept = database.rows(tuple[str, bytes], "SELECT id, content FROM unreadable_conversations")
    assert kept == [_UNREADABLE]


@pytest.mark.parametrize("failing", [1, 7, 12])
async def test_j3_an_error_in_the_middle_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    conversations = _conversations(10)
    path = database_0_1(tmp_path / "state", conversations.items())
    before = _dump(path)
    assert before[0] == VERSION_0_1
    calls = 0

    def full(database: Database, *arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            [(pages,)] = database.rows(tuple[int], "PRAGMA page_count")
            database.rows(tuple[int], f"PRAGMA max_page_count = {pages}")
            database.execute("CREATE TABLE more AS SELECT zeroblob(1000000)")
        insert_events(database, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.store.from_0_1.insert_events", full)
        with pytest.raises(StoreError, match="The disk is full"):
            Database.open(tmp_path / "state")
    assert _dump(path) == before
    await _compare(tmp_path / "state", conversations)


@pytest.fixture(scope="module")
def appenders() -> Iterator[Appenders]:
    running = Appenders()
    yield running
    running.close()


async def _killed_at(appenders: Appenders, tmp_path: Path, step: int) -> int:
    """Kill a process that migrates before every n-th statement. Returns how many were killed."""
    conversations = _conversations(10)
    killed, statement = 0, 0
    while True:
        folder = tmp_path / f"{statement}"
        path = database_0_1(folder, conversations.items())
        before = _dump(path)
        _, status = appenders.run(Order(str(folder), "open", statement=statement))
        after = _dump(path)
        assert after == before if after[0] == VERSION_0_1 else after[0] == len(MIGRATIONS)
        await _compare(folder, conversations)
        if status == 0:
            return killed
        assert status == -signal.SIGKILL
        killed += after[0] == VERSION_0_1
        statement += step


async def test_j3_a_kill_in_the_middle_leaves_the_file_as_it_was(
    appenders: Appenders, tmp_path: Path
) -> None:
    assert await _killed_at(appenders, tmp_path, 17) > 5


@pytest.mark.long
async def test_j3_a_kill_before_any_statement_of_the_migration(appenders: Appenders, tmp_path: Path) -> None:
    assert await _killed_at(appenders, tmp_path, 1) > 100


_OPENS = """
import sys
from pathlib import Path
from dragoman.store import Database
sys.stdin.readline()
Database.open(Path(sys.argv[1])).close()
"""


def _opened_at_once(folder: Path, processes: int) -> list[int]:
    """How the processes ended."""
    command = [sys.executable, "-c", _OPENS, str(folder)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(processes)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
    return [process.returncode for process in running]


@pytest.mark.long
async def test_j3_processes_that_migrate_at_once_all_work_afterwards(tmp_path: Path) -> None:
    conversations = _conversations(50)
    for each in range(5):
        folder = tmp_path / f"{each}"
        database_0_1(folder, conversations.items())
        assert _opened_at_once(folder, 3) == [0, 0, 0]
        await _compare(folder, conversations)
