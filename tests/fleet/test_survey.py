"""What an operator sees of a fleet, from a real server."""

from pathlib import Path

import pytest

from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.lease import NodeLease
from dragoman.fleet.messages import Form, NodeStatus
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import GATEWAY_STATUS, JOURNALS, LEASES, STATUS
from dragoman.fleet.survey import survey
from journal.store_kits import node
from journal.store_samples import stamped, started
from nats_servers import nats_server


async def test_nodes_that_answer_and_one_that_has_only_its_lease(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as url, FleetConnection.open((url,), "admin") as connection:
        await make_streams(connection, 1, None)
        for subject, name, role in ((STATUS, "one", "worker"), (GATEWAY_STATUS, "gate", "gateway")):
            status = Form(NodeStatus).encode(NodeStatus(name, "i", role, "1.0", turns=3))

            async def answer(received: Received, status: bytes = status) -> None:
                await connection.answer(received, status)

            await connection.subscribe(subject, answer)
        await connection.flush()
        for subject in ("dg.j.a", "dg.j.b", "dg.j.b", "dg.j.b.part"):
            await connection.js.publish(subject, b"{}")
        async with NodeLease.held(connection, "one", "worker"), NodeLease.held(connection, "hung", "worker"):
            async with NodeLease.held(connection, "gone", "worker"):
                pass
            found = await survey(connection)
    nodes = {node.name: node for node in found.nodes}
    assert nodes.keys() == {"gate", "hung", "one"}
    assert nodes["one"].status is not None
    assert nodes["one"].status.turns == 3
    assert nodes["one"].lease is not None
    assert nodes["one"].lease.role == "worker"
    assert nodes["hung"].status is None
    assert nodes["hung"].lease is not None
    assert nodes["hung"].lease.age_seconds < 20
    assert nodes["gate"].lease is None
    journals = next(each for each in found.streams if each.name == JOURNALS)
    assert (journals.messages, journals.replicas, found.journals) == (4, 1, 2)
    assert found.missing == ()


async def test_all_leases_are_read_with_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = FleetConnection.publish

    async def publish(self: FleetConnection, subject: str, data: bytes, reply: str = "") -> None:
        asked.append(subject)
        await real(self, subject, data, reply)

    async with nats_server(tmp_path) as url, FleetConnection.open((url,), "admin") as connection:
        await make_streams(connection, 1, None)
        for number in range(20):
            await connection.js.publish(f"dg.l.n{number}", b'{"incarnation": "i", "role": "other"}')
        await connection.js.publish("dg.l.damaged", b"[]")
        monkeypatch.setattr(FleetConnection, "publish", publish)
        found = await survey(connection)
    assert len(found.nodes) == 20
    assert asked.count(f"$JS.API.DIRECT.GET.{LEASES}") == 1


async def test_a_deleted_journal_counts_among_those_that_were_ever_stored(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as url, FleetConnection.open((url,), "admin") as connection:
        await make_streams(connection, 1, None)
        async with node(url, "w1") as store:
            for journal in ("kept", "deleted"):
                await store.append(journal, 0, stamped(started()), holds=False)
            assert await store.delete("deleted")
        found = await survey(connection)
    assert found.journals == 2


async def test_a_nats_without_streams(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as url, FleetConnection.open((url,), "admin") as connection:
        found = await survey(connection)
    assert (found.nodes, found.streams, found.journals) == ((), (), 0)
    assert JOURNALS in found.missing
