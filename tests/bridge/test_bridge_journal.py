"""What a conversation with a real agent process leaves in its journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bridge.consumer import Bridge, Chat, result
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import Timing
from dragoman.journal.agent_events import (
    AgentLaunched,
    AgentStopped,
    PermissionDecided,
    PermissionRequested,
    ReplyEnded,
    RequestReceived,
    TextSaid,
)
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalStoreError
from dragoman.lm import Consumer, LanguageModelError, Request, RequestOptions, Response, user
from dragoman.lm.cancellation import CancellationToken
from dragoman.lm.request import STORE_OPTION
from dragoman.store import Database

pytestmark = pytest.mark.long

_SECRET = "heron-and-plover"
_BOTH = ["allow_once", "reject_once"]


@pytest_asyncio.fixture
async def database(tmp_path: Path, bridge: Bridge) -> AsyncIterator[Database]:
    with Database.open(tmp_path / "state") as opened:
        yield opened
        await bridge.close()


async def _events(store: SqliteJournals) -> list[AnyEvent]:
    [info] = await store.journals("agent")
    return [entry.event for entry in await store.read(info.id)]


def _of(events: list[AnyEvent], *kinds: type) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


async def _is_what_runs(bridge: Bridge, store: SqliteJournals) -> None:
    """The fold of the journal is the record of the running process."""
    assert bridge.model is not None
    model = bridge.model._model
    assert isinstance(model, AgentModel)
    for conversation in model._registry._here.values():
        found = await store.state(conversation.id)
        assert found is not None
        assert found[0] == conversation.journal.state


def _found(folder: Path, word: str) -> list[str]:
    return [path.name for path in (folder / "state").iterdir() if word.encode() in path.read_bytes()]


async def test_a_turn_with_a_call_is_recorded_from_the_request_to_the_end(
    bridge: Bridge, database: Database
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat()
    [call] = (
        await chat.do(["say", "let me see"], ["call", "look", {"where": "here"}], ["say", "done"])
    ).calls
    await _is_what_runs(bridge, store)
    await chat.give(result(call, "a heron"))
    await _is_what_runs(bridge, store)
    events = await _events(store)
    [started] = _of(events, JournalStarted)
    assert (started.kind, started.model, started.connection) == ("agent", "fake", "test")
    first, second = _of(events, RequestReceived)
    assert (first.number, first.kind, first.evidence, first.reason) == (
        1,
        "fresh",
        "none",
        "nothing in it is known",
    )
    assert "let me see" in first.items[0].text
    assert (second.number, second.turn, second.kind, second.evidence) == (2, 1, "results", "marker")
    [received] = second.results
    assert (received.call_id, received.text, received.is_error) == (call.call_id, "a heron", False)
    # Only what is new is stored again.
    assert (second.keeps, len(second.keys)) == (2, 1)
    said = _of(events, TextSaid)
    assert [(each.number, each.offset) for each in said] == [(1, 0), (2, 0)]
    assert said[0].text == "let me see"
    assert said[1].text.endswith("done")
    asked, ended = _of(events, ReplyEnded)
    [(call_id, name, arguments)] = asked.calls
    assert (call_id, name, arguments) == (call.call_id, "look", '{"where":"here"}')
    assert (asked.pending, ended.pending, ended.status) == ((call.call_id,), (), "complete")
    [launched] = _of(events, AgentLaunched)
    assert (launched.name, launched.pid, launched.is_new) == ("Fake", *bridge.pids, True)
    await bridge.close()
    assert _of(await _events(store), AgentStopped) == [AgentStopped()]
    [info] = await store.journals("agent")
    assert info.owner == ""


def _ask(title: str, **call: object) -> list[object]:
    return [
        "ask",
        {"toolCallId": "p", "title": title, "kind": "execute", "rawInput": {"command": title}, **call},
        _BOTH,
    ]


async def test_every_permission_is_recorded_with_the_whole_action_and_who_decided(
    bridge: Bridge, database: Database
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat()
    asked = await chat.do(_ask(f"rm {_SECRET}"), _ask("ls"), ["say", "well"])
    one = await chat.give(bridge.approve(asked.calls[0]))
    await chat.give(result(one.calls[0], "Tool use rejected with user message: not now"))
    events = await _events(store)
    requests, decisions = _of(events, PermissionRequested), _of(events, PermissionDecided)
    assert [each.action.command for each in requests] == [f"rm {_SECRET}", "ls"]
    assert [(each.agent, each.risk) for each in requests] == [("fake", "execute"), ("fake", "execute")]
    assert [each.id for each in requests] == [each.id for each in decisions]
    assert [(each.is_allowed, each.by, each.where, each.why) for each in decisions] == [
        (True, "person", "vscode", None),
        (False, "person", "vscode", "not now"),
    ]
    assert all(each.seconds >= 0 for each in decisions)
    found = await store.permissions(0)
    assert [entry.event for _, entry in found] == [
        event for event in events if isinstance(event, PermissionRequested | PermissionDecided)
    ]


@pytest.mark.parametrize(("setting", "is_allowed"), [("deny", False), ("allow", True)])
async def test_what_a_setting_decided_is_recorded_as_such(
    bridge: Bridge,
    database: Database,
    setting: Any,
    is_allowed: bool,  # noqa: FBT001 - a parameter
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat(tools=(), permission=setting)
    await chat.do(_ask("ls"))
    [decided] = _of(await _events(store), PermissionDecided)
    assert (decided.is_allowed, decided.by, decided.why) == (is_allowed, "setting", f"permission = {setting}")


async def test_silence_until_the_deadline_is_recorded_as_a_time_out(
    bridge: Bridge, database: Database
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat(timing=Timing(human=0.2))
    await chat.do(_ask("ls"))
    await bridge.until_pending(0)
    await bridge.close()
    [decided] = _of(await _events(store), PermissionDecided)
    assert (decided.is_allowed, decided.by, decided.why) == (False, "timeout", None)


@pytest.mark.parametrize("content", ["full", "metadata"])
async def test_h21_another_process_takes_the_conversation_up_with_or_without_content(
    bridge: Bridge, database: Database, tmp_path: Path, content: Any
) -> None:
    store = bridge.store_in(database, content=content)
    chat = bridge.chat(resume=True)
    await chat.do(["say", f"I say {_SECRET}"])
    [before] = await store.journals("agent")
    await bridge.close()
    assert bool(_found(tmp_path, _SECRET)) == (content == "full")
    # The next process has nothing but the store.
    bridge.model = None
    bridge.store_in(database, content=content)
    again = bridge.chat(resume=True)
    again.history = chat.history
    assert await again.echo() == ["still there?"]
    assert len(bridge.noted("session/resume")) == 1
    assert [info.id for info in await store.journals("agent")] == [before.id]


async def test_switched_off_nothing_is_stored(bridge: Bridge, database: Database, tmp_path: Path) -> None:
    store = bridge.store_in(database, content="off")
    chat = bridge.chat()
    await chat.do(["say", _SECRET])
    assert await chat.echo() == ["still there?"]
    assert await store.journals("agent") == []
    assert _found(tmp_path, _SECRET) == []


async def test_a_request_that_may_not_be_stored_leaves_only_metadata(
    bridge: Bridge, database: Database, tmp_path: Path
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat()
    request = Request(
        (user(f"hello {_SECRET}"),),
        RequestOptions(model_options={STORE_OPTION: False}),
        Consumer("http", "key", (str(chat.folder),)),
    )
    answer = Response()
    await chat.model.respond(request, answer, CancellationToken())
    assert _SECRET in answer.text
    assert _found(tmp_path, _SECRET) == []
    [request_event] = _of(await _events(store), RequestReceived)
    assert len(request_event.keys) == 1


async def test_secrets_are_masked(bridge: Bridge, database: Database, tmp_path: Path) -> None:
    bridge.store_in(database)
    token = "sk-" + "a1" * 20
    await bridge.chat().do(["say", f"the key is {token}"])
    assert _found(tmp_path, token) == []
    assert _found(tmp_path, "the key is [redacted]")


async def test_j1_a_conversation_whose_lease_has_ended_is_not_continued_while_the_store_fails(
    bridge: Bridge, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bridge.store_in(database)
    chat: Chat = bridge.chat()
    await chat.do(["say", "a word"])
    [info] = await store.journals("agent")

    async def broken(*_arguments: object) -> str:
        raise JournalStoreError("The disk is full.")

    monkeypatch.setattr(store, "claim", broken)
    heard = await chat.echo()
    assert len(heard) > 1, "a fork gets what was said before"
    assert len(bridge.pids) == 2
    assert {each.id for each in await store.journals("agent")} > {info.id}


async def test_j1_a_call_of_a_process_that_died_does_not_wait_for_ever(
    bridge: Bridge, database: Database
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat()
    [call] = (await chat.do(["call", "look", {}])).calls
    [info] = await store.journals("agent")
    died, bridge.model = bridge.model, None
    again = bridge.chat()
    again.history = chat.history
    await again.say("never mind")
    found = await store.state(info.id)
    assert found is not None
    assert len(found[0].record.replies) == 2, "it is the same conversation"
    assert found[0].record.pending == frozenset()
    assert call.call_id
    assert died is not None
    await died.close()


async def test_the_reason_of_a_fork_says_that_the_store_failed(
    bridge: Bridge, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bridge.store_in(database)
    chat = bridge.chat()
    await chat.do(["say", "a word"])

    async def broken(*_arguments: object) -> str:
        raise JournalStoreError("The disk is full.")

    monkeypatch.setattr(store, "claim", broken)
    await chat.echo()
    [latest, _] = await store.journals("agent")
    [request] = _of([entry.event for entry in await store.read(latest.id)], RequestReceived)
    assert (request.kind, request.reason) == ("fork", "the history goes on, but it cannot be claimed now")


@pytest.mark.parametrize("what", ["claim", "heads", "state"])
async def test_n1_a_conversation_that_other_machines_may_have_is_never_forked(
    bridge: Bridge, database: Database, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    store = bridge.store_in(database)
    monkeypatch.setattr(type(store), "is_shared", True)
    chat = bridge.chat()
    await chat.do(["say", "a word"])
    died, bridge.model = bridge.model, None
    again = bridge.chat()
    again.history = list(chat.history)

    async def broken(*_arguments: object) -> str:
        raise JournalStoreError("There is no leader.")

    with monkeypatch.context() as fault:
        fault.setattr(store, what, broken)
        with pytest.raises(LanguageModelError, match="cannot be continued now") as caught:
            await again.echo()
    assert caught.value.kind == "unavailable"
    assert len(await store.journals("agent")) == 1
    again.history = list(chat.history)
    await again.echo()
    assert len(await store.journals("agent")) == 1, "it goes on when the store is back"
    assert died is not None
    await died.close()
