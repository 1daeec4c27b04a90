"""A server of a cluster dies, and a stream elects another leader: conversations go on as if nothing had happened."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import nats.errors
import pytest

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import JOURNALS
from fleet.machines import Machines, fake, soon, until
from journal.store_kits import node
from nats_servers import ClusterServer, nats_cluster

pytestmark = pytest.mark.long

_CHATS = 4


async def _prepared(connection: FleetConnection, servers: dict[str, ClusterServer]) -> str:
    """Make the streams. Returns the server that leads the journals."""
    while True:
        try:
            await make_streams(connection, len(servers), None)
            cluster = (await connection.js.stream_info(JOURNALS)).cluster
        except (FleetUnavailable, NoAnswer, nats.errors.Error):
            # Servers that have just started do not know each other for a moment.
            await asyncio.sleep(0.1)
        else:
            assert cluster is not None
            if cluster.leader:
                return cluster.leader


@pytest.mark.parametrize("has_store", [True, False])
async def test_n1_conversations_go_on_when_the_leader_of_the_journals_dies(
    tmp_path: Path, *, has_store: bool
) -> None:
    """Whether the gateway looks for the owner, or the worker alone finds the conversation."""
    async with nats_cluster(tmp_path) as servers, AsyncExitStack() as stack:
        async with FleetConnection.open((servers["n0"].url,), "operator") as operator:
            leader = await soon(_prepared(operator, servers))
        rest = next(each for each in servers.values() if each.name != leader)
        room = Machines(rest.url, tmp_path, stack)
        worker = await room.worker("w1", fake=fake(tmp_path / "agent"))
        gateway = await room.gateway(has_store=has_store)
        chats = [room.chat(gateway, "fake") for _ in range(_CHATS)]
        for chat in chats:
            await soon(chat.do(["say", "Hello."]))
        before = {each.id for each in worker.models.conversations()}
        async with node(rest.url, "looker") as looker:
            # Nobody owns an idle conversation: each has to be claimed again.
            while any(each.owner for each in await looker.journals("agent")):  # noqa: ASYNC110 - a release tells nobody
                await asyncio.sleep(0.01)

        servers[leader].kill()
        answers = await soon(asyncio.gather(*(chat.do(["say", "Here."]) for chat in chats)))

        assert [answer.text for answer in answers] == ["Here."] * _CHATS
        assert {each.id for each in worker.models.conversations()} == before
        assert (tmp_path / "agent" / "journal").read_text().count('"started"') == _CHATS
        await soon(until(lambda: worker.streams == 0))
