"""F13, F14 and I7: a disk that keeps nothing, and our own end in every way there is."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from bridge.consumer import Bridge, Chat, result
from dragoman.config import AcpModel, Config
from dragoman.journal.agent_events import RequestReceived, TextSaid
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.models import Models
from dragoman.process import SupervisedProcess
from dragoman.store import ApprovalStore, Database, StoreError
from fake_agent.steps import COMMAND
from process.living import all_gone, line_from
from vscode.editor import Chat as EditorChat, editor_in, soon

pytestmark = pytest.mark.long

Broken = Callable[[Database], AbstractContextManager[None]]
# More than fits into the pages that a file has.
_LONG = "and much more " * 2_000


@contextmanager
def _locked(database: Database) -> Iterator[None]:
    """Another process writes, and does not come to an end."""
    # How long is waited for it is no matter here, so a moment is.
    database._connection.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(database.path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


@contextmanager
def _full(database: Database) -> Iterator[None]:
    """To SQLite a file that may not grow is a disk that is full."""
    [[pages]] = database._connection.execute("PRAGMA page_count").fetchall()
    database._connection.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        database._connection.execute("PRAGMA max_page_count = 1000000")


_BROKEN: dict[str, tuple[Broken, str]] = {
    "locked": (_locked, "Another process has been writing to it for too long."),
    "full": (_full, "The disk is full."),
}
_either = pytest.mark.parametrize(("broken", "cause"), _BROKEN.values(), ids=_BROKEN.keys())


def _keeping(bridge: Bridge, database: Database) -> Chat:
    """A chat whose conversations are kept there."""
    bridge.store_in(database)
    return bridge.chat()


@_either
async def test_f14_i6_requests_are_answered_and_what_cannot_be_kept_is_said_until_it_can_be(
    bridge: Bridge, tmp_path: Path, broken: Broken, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        chat = bridge.chat()
        with broken(database), caplog.at_level(logging.WARNING):
            [call] = (await chat.do(["call", "look", {}], ["say", _LONG])).calls
            assert _LONG in (await chat.give(result(call, "seen"))).text
            assert await chat.echo() == ["still there?"]
        assert "is not stored yet" in caplog.text
        assert cause in caplog.text
        assert await store.journals("agent") == []
        # When the disk is in order again, so is what is kept.
        assert await chat.echo() == ["still there?"]
        assert len(bridge.pids) == 1
        [stored] = await store.journals("agent")
        assert any(_LONG in str(entry.event) for entry in await store.read(stored.id))
        await bridge.close()


async def test_f14_a_writer_that_is_stuck_is_waited_for_once_and_not_by_every_request(tmp_path: Path) -> None:
    """A consumer waits for the end of its reply until that is stored, or cannot be."""
    with Database.open(tmp_path / "state") as database:
        store = SqliteJournals(database)
        with _locked(database):
            with pytest.raises(StoreError, match="Another process"):
                await store.release("x")
            tried = asyncio.create_task(store.release("x"))
            # Without a wait: it is done when its turn comes.
            await asyncio.sleep(0)
            assert isinstance(tried.exception(), StoreError)
        await store.release("x")


async def test_f14_with_a_state_folder_that_is_locked_from_the_start_every_model_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dragoman.store.database.BUSY_SECONDS", 0.01)
    agent = AcpModel(command=(*COMMAND, json.dumps({"folder": str(tmp_path)})), cwd=tmp_path)
    with Database.open(tmp_path / "state") as database, _locked(database):
        models = Models(Config(models={"one": agent, "two": agent}), tmp_path / "state")
        with caplog.at_level(logging.WARNING):
            assert {"one", "two"} <= {info.id for info in models.infos()}
            for name in ("one", "two"):
                answer = await Chat(models.get(name), tmp_path).say("hello")
                assert answer.text.endswith('"hello"]')
        await models.close()
    assert "conversations will not survive a restart" in caplog.text
    assert "Another process has been writing to it for too long." in caplog.text


_GRANTS = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from dragoman.store import ApprovalStore, Database
ApprovalStore(Database.open(Path(sys.argv[1]))).add("run", "make test", None, datetime.now(UTC))
print("granted", flush=True)
time.sleep(9999)
"""


async def test_f13_an_approval_is_there_after_a_kill(tmp_path: Path) -> None:
    command = (sys.executable, "-c", _GRANTS, str(tmp_path / "state"))
    async with await SupervisedProcess.start(command) as process:
        assert await line_from(process.stdout) == "granted"
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    with Database.open(tmp_path / "state") as database:
        assert ApprovalStore(database).find("run", "make test", None) is not None


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
async def test_i7_whatever_ends_us_ends_our_agents(tmp_path: Path, how: signal.Signals) -> None:
    async with editor_in(tmp_path) as (editor, process):
        chat = EditorChat(editor, "fake")
        # One that would ignore being cancelled, and has something of its own open.
        answer = chat.begin(json.dumps([["say", "working"], ["deaf"]]))
        await answer.until(lambda answer: answer.text)
        journal = map(json.loads, (tmp_path / "journal").read_text().splitlines())
        agents = {entry["params"]["pid"] for entry in journal if entry["method"] == "started"}
        assert len(agents) == 1
        os.kill(process.pid, how)
        await soon(process.wait())
        await soon(all_gone(agents))


# A store that fails never says "ours".


async def _ids(store: SqliteJournals) -> set[str]:
    return {info.id for info in await store.journals("agent")}


_DISTRUSTED = ("locked", "read only")


@contextmanager
def _read_only(database: Database) -> Iterator[None]:
    database._connection.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        database._connection.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize("broken", [_locked, _read_only], ids=_DISTRUSTED)
async def test_f14_a_conversation_under_way_goes_on_while_its_lease_lasts_and_nothing_is_lost(
    bridge: Bridge, tmp_path: Path, broken: Broken
) -> None:
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        chat = bridge.chat()
        [call] = (await chat.do(["call", "look", {}], ["say", "with words"])).calls
        [id_] = await _ids(store)
        before = await store.read(id_)
        with broken(database):
            assert "with words" in (await chat.give(result(call, "seen"))).text
            assert await store.read(id_) == before, "nothing can be stored"
        assert await chat.echo() == ["still there?"]
        assert await _ids(store) == {id_}, "it is the same conversation"
        assert len(bridge.pids) == 1
        entries = await store.read(id_)
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        assert entries[: len(before)] == before
        said = "".join(entry.event.text for entry in entries if isinstance(entry.event, TextSaid))
        assert said.count("with words") == 1
        assert len([entry for entry in entries if isinstance(entry.event, RequestReceived)]) == 3
        await bridge.close()
        found = await store.state(id_)
        assert found is not None
        assert found[0].record.pending == frozenset()
        assert [reply.status for reply in found[0].record.replies] == ["complete"] * 3


@pytest.mark.parametrize("broken", [_locked, _read_only], ids=_DISTRUSTED)
async def test_f14_a_conversation_whose_lease_has_ended_is_forked_while_the_store_fails(
    bridge: Bridge, tmp_path: Path, broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have continued it: nobody can say."""
    monkeypatch.setattr("dragoman.store.database.BUSY_SECONDS", 0.01)
    with Database.open(tmp_path / "state") as database:
        store = bridge.store_in(database)
        chat = bridge.chat()
        assert await chat.echo() == ["still there?"]
        [id_] = await _ids(store)
        # Between two turns no process owns it.
        with broken(database):
            assert (await chat.say("and now?")).text.startswith("echo: ")
            assert await _ids(store) == {id_}
        # The fork is stored when the store works again, and says what it is a fork of.
        assert (await chat.say("and then?")).text.startswith("echo: ")
        [fork] = await _ids(store) - {id_}
        [request] = [
            entry.event for entry in await store.read(fork) if isinstance(entry.event, RequestReceived)
        ][:1]
        assert (request.kind, request.origin) == ("fork", id_)
        assert len([e for e in await store.read(id_) if isinstance(e.event, RequestReceived)]) == 1
        assert len(bridge.pids) == 2
        await bridge.close()
