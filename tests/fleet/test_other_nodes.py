"""The conversations of other nodes at a gateway's console: seen, stopped, parked and deleted there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from console.asking import session_of
from dragoman.backends.remote.other_nodes import FleetNodes
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.subjects import operations_subject
from dragoman.frontends.console.conversation_list import ConversationFilter, Conversations
from dragoman.frontends.console.other_processes import OtherProcessQuestions
from dragoman.frontends.console.sessions import ConsoleScope
from dragoman.frontends.console.wire import ConsoleError
from dragoman.frontends.worker.conversation_service import served_conversations
from dragoman.journal.agent_events import TextSaid
from dragoman.journal.event import JournalKind, JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalInfo
from dragoman.lm import JsonObject
from dragoman.other_nodes import NodeSilent
from dragoman.permissions.action import Action
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import Inbox, InboxDecision, InboxQuestion
from dragoman.store import Database
from http_server.kit import Json
from nats_servers import nats_server

_ACTION = Action(
    agent="m", agent_name="M", risk="execute", kind="execute", title="x", command="x", folder="/w"
)


@dataclass
class _Live:
    """A conversation in a worker's process."""

    id: str = "c1"
    model: str = "m"
    folder: str = "/w"
    connection: str = "http:a"
    program: str = "curl"
    stage: Literal["answering", "asking", "waiting", "idle", "stored"] = "answering"
    done: list[str] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        return self.stage != "idle"

    def stop_turn(self) -> None:
        self.done.append("stopped")
        self.stage = "idle"

    def park(self) -> None:
        self.done.append("parked")

    def forget(self) -> None:
        self.done.append("forgotten")


class _FleetJournals(SqliteJournals):
    """A store that says which node owns a journal."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.owners: dict[str, str] = {}

    async def find(self, journal: str) -> JournalInfo | None:
        found = await super().find(journal)
        return None if found is None else self._owned(found)

    async def journals(self, *kinds: JournalKind) -> list[JournalInfo]:
        return [self._owned(each) for each in await super().journals(*kinds)]

    def _owned(self, info: JournalInfo) -> JournalInfo:
        return msgspec.structs.replace(info, owner=self.owners.get(info.id, info.owner))

    async def delete(self, journal: str) -> bool:
        return journal not in self.owners and await super().delete(journal)

    async def permissions(
        self, since: float, *, is_elsewhere: bool = False
    ) -> list[tuple[str, JournalEntry]]:
        found = await super().permissions(since)
        return [each for each in found if not is_elsewhere or each[0] in self.owners]

    async def add(self, id_: str, owner: str, *events: AnyEvent) -> None:
        started = JournalStarted("agent", "m", ("/w",), "http:a", title=id_)
        said = events or (TextSaid(1, 0, 1, "x"),)
        await self.append(id_, 0, [(5.0, started), *((5.0, each) for each in said)], holds=False)
        if owner:
            self.owners[id_] = owner


@dataclass
class _Site:
    store: _FleetJournals
    console: Conversations
    nodes: FleetNodes
    worker: FleetConnection
    live: list[_Live]

    async def shown(self, id_: str = "c1") -> Json:
        page: Json = await self.console.page(session_of(), ConversationFilter())
        return next(each for each in page["conversations"] if each["id"] == id_)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[_Site]:
    live: list[_Live] = [_Live()]
    with Database.open(tmp_path / "state") as database:
        store = _FleetJournals(database)

        async def release(journal: str) -> None:
            del store.owners[journal]

        async with (
            nats_server(tmp_path) as url,
            FleetConnection.open((url,), "w1") as worker,
            FleetConnection.open((url,), "g1") as gateway,
            served_conversations(worker, "w1", lambda: live, release),
        ):
            nodes = FleetNodes(gateway, "g1")
            console = Conversations(store, lambda: (), Inbox(), {}, other_nodes=nodes)
            yield _Site(store, console, nodes, worker, live)


async def test_a_conversation_of_a_worker_is_shown_with_its_node_and_its_stage(site: _Site) -> None:
    await site.store.add("c1", "w1")
    await site.store.add("own", "g1")
    await site.store.add("free", "")
    await site.store.add("lost", "gone")
    shown = await site.shown()
    assert (shown["node"], shown["state"], shown["owner"], shown["client"]) == (
        "w1",
        "answering",
        "w1",
        "curl",
    )
    for id_, node, state in (
        ("own", None, "stored"),
        ("free", None, "stored"),
        ("lost", "gone", "elsewhere"),
    ):
        each = await site.shown(id_)
        assert (each["node"], each["state"]) == (node, state)
    one: Json = await site.console.entries(session_of(), "c1", 0)
    assert (one["conversation"]["node"], one["conversation"]["state"]) == ("w1", "answering")
    # Who does not see the connection sees nothing of it.
    with pytest.raises(ConsoleError) as error:
        await site.console.stop(session_of(ConsoleScope("bob", "http:b")), "c1")
    assert error.value.status == 404
    assert site.live[0].done == []


async def test_a_turn_is_stopped_and_an_agent_parked_from_a_gateway(site: _Site) -> None:
    await site.store.add("c1", "w1")
    with pytest.raises(ConsoleError) as busy:
        await site.console.park(session_of(), "c1")
    assert busy.value.code == "busy"
    await site.console.stop(session_of(), "c1")
    await site.console.park(session_of(), "c1")
    assert site.live[0].done == ["stopped", "parked"]
    assert (await site.shown())["state"] == "idle"


async def test_a_conversation_is_deleted_from_a_gateway(site: _Site) -> None:
    await site.store.add("c1", "w1")
    with pytest.raises(ConsoleError) as busy:
        await site.console.delete(session_of(), "c1")
    assert busy.value.code == "busy"
    site.live[0].stage = "idle"
    await site.console.delete(session_of(), "c1")
    assert site.live[0].done == ["forgotten"]
    assert await site.store.find("c1") is None


async def test_a_node_that_is_gone_is_said_to_be_silent(site: _Site) -> None:
    await site.store.add("c1", "gone")
    with pytest.raises(ConsoleError) as error:
        await site.console.stop(session_of(), "c1")
    assert (error.value.status, error.value.code) == (504, "node_silent")
    assert "gone" in error.value.message
    with pytest.raises(NodeSilent):
        await site.nodes.operate("a.b", "c1", "stop")


async def test_what_a_node_does_not_have_is_absent_and_other_messages_are_not_answered(site: _Site) -> None:
    assert await site.nodes.operate("w1", "unknown", "park") == "absent"
    await site.worker.publish(operations_subject("w1"), b"\x81\xa5drain\xc3")
    assert await site.nodes.operate("w1", "unknown", "stop") == "absent"
    assert set(await site.nodes.conversations(["w1", "gone", "a.b"])) == {"c1"}


async def test_a_question_that_is_in_the_inbox_is_not_shown_a_second_time(site: _Site) -> None:
    await site.store.add("c1", "w1", permission_requested("p1", _ACTION))
    shown: list[list[JsonObject]] = []
    inbox = Inbox()
    others = OtherProcessQuestions(site.store, shown.append, inbox=inbox, now=lambda: 50.0)

    async def apply(_decision: InboxDecision) -> None:
        raise AssertionError("nobody decides")

    copy = InboxQuestion("w1.q", _ACTION, Ask(), "c1", "http:a", "", "", (), 0.0, 0.0, 0.0, node="w1")
    inbox.mirror(copy, apply)
    await others.poll(site.store)
    assert shown == []
    inbox.close(copy.id, "ended")
    await others.poll(site.store)
    [[question]] = shown
    assert question["conversation"] == "c1"
    assert str(question["where"]).endswith("process w1")
