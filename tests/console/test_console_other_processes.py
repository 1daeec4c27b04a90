"""Questions that wait in another process of the same state folder: a real one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dragoman.frontends.console.other_processes import OtherProcessQuestions
from dragoman.journal.event import JournalStarted
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import JsonObject
from dragoman.store import Database
from http_server.kit import soon
from permissions.actions import action

_HOLDER = Path(__file__).with_name("holder.py")


class Holder:
    """The other process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def line(self) -> bytes:
        assert self._process.stdout is not None
        return await soon(self._process.stdout.readline())

    async def decide(self, id_: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{id_}\n".encode())
        assert await self.line() == b"decided\n"

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await soon(self._process.wait())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteJournals]:
    with Database.open(tmp_path) as database:
        yield SqliteJournals(database)


@pytest.fixture
async def holder(tmp_path: Path, store: SqliteJournals) -> AsyncIterator[Holder]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_HOLDER),
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    holder = Holder(process)
    assert await holder.line() == b"ready\n"
    yield holder
    await holder.kill()


class Seen:
    def __init__(self) -> None:
        self.changes: list[list[JsonObject]] = []
        self.later = 0.0

    def questions(self, store: SqliteJournals, poll_seconds: float = 0.01) -> OtherProcessQuestions:
        return OtherProcessQuestions(
            store,
            self.changes.append,
            poll_seconds=poll_seconds,
            now=lambda: time.time() + self.later,
        )


async def test_they_are_shown_with_the_place_to_answer_them(store: SqliteJournals, holder: Holder) -> None:
    seen = Seen()
    polling = seen.questions(store)
    # What was asked this moment may be decided by a rule before a person could see it.
    seen.later = -10.0
    await polling.poll(store)
    assert seen.changes == []
    seen.later = 10.0
    await polling.poll(store)
    ((terminal, editor),) = seen.changes
    assert (terminal["title"], terminal["where"]) == (
        "Claude wants to run: make ␛[2J",
        f"terminal in /folder, process {holder.pid}",
    )
    assert (terminal["agent"], terminal["conversation"]) == ("claude", "chatchatchatchat")
    assert (editor["where"], editor["conversation"]) == (
        f"VS Code in /folder, process {holder.pid}",
        "editoreditoredit",
    )
    # The ids of calls stay with their clients.
    assert "dg_" not in str(seen.changes)


async def test_a_decision_there_removes_one(store: SqliteJournals, holder: Holder) -> None:
    seen = Seen()
    seen.later = 10.0
    polling = seen.questions(store)
    await polling.poll(store)
    await holder.decide("dg_3")
    await polling.poll(store)
    assert [len(each) for each in seen.changes] == [2, 1]
    await polling.poll(store)
    assert len(seen.changes) == 2


async def test_with_the_process_its_questions_are_gone(store: SqliteJournals, holder: Holder) -> None:
    seen = Seen()
    seen.later = 10.0
    polling = seen.questions(store)
    await polling.poll(store)
    # A process that is killed writes nothing.
    await holder.kill()
    await polling.poll(store)
    assert seen.changes[-1] == polling.questions == []


async def test_it_looks_while_streams_are_open(store: SqliteJournals, holder: Holder) -> None:
    seen = Seen()
    seen.later = 10.0
    polling = seen.questions(store)
    polling.watch(1)
    polling.watch(2)

    async def changed(times: int) -> None:
        while len(seen.changes) < times:  # noqa: ASYNC110 - it looks by the clock
            await asyncio.sleep(0.01)

    await soon(changed(1))
    await holder.decide("dg_1")
    await soon(changed(2))
    polling.watch(0)
    await holder.decide("dg_3")
    await asyncio.sleep(0.05)
    assert len(seen.changes) == 2
    polling.watch(1)
    await soon(changed(3))
    await polling.close()


async def test_its_own_questions_are_not_elsewhere(store: SqliteJournals) -> None:
    events = (
        JournalStarted("agent", "claude", ("/folder",), "http:"),
        permission_requested("dg_1", action(kind="execute", input={"command": "make"})),
    )
    await store.append("ownownownownowno", 0, [(time.time(), each) for each in events])
    seen = Seen()
    seen.later = 10.0
    await seen.questions(store).poll(store)
    assert seen.changes == []
