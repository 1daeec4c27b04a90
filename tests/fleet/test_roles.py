"""What each role may say and hear, tried at a real server with its credentials."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import APIError

from dragoman.fleet import subjects
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NobodyThere, Received
from dragoman.fleet.credentials import ROLES, FleetKeys, FleetRole, permissions
from dragoman.fleet.draining import DRAIN_REQUEST_FORM, DrainRequest, DrainState, listen_for_drain
from dragoman.fleet.streams import check_streams, make_streams
from nats_servers import nats_server

_STREAMS = (
    subjects.JOURNALS,
    subjects.SNAPSHOTS,
    subjects.AUDIT,
    subjects.INDEX,
    subjects.LEASES,
    subjects.RESPONSES,
    subjects.SECRETS,
)
_NODE_SUBJECTS = [
    subjects.requests_subject("other"),
    subjects.streams_subject("other"),
    subjects.decisions_subject("other"),
    subjects.operations_subject("other"),
    subjects.drain_subject("other"),
]
_FORBIDDEN: dict[FleetRole, list[str]] = {
    "worker": [
        *_NODE_SUBJECTS,
        *(each.replace("other", "self") for each in _NODE_SUBJECTS),
        subjects.bids_subject("demo"),
        subjects.STATUS,
        subjects.GATEWAY_STATUS,
        subjects.PRESENCE,
        subjects.ALL_QUESTIONS,
        "dg.question.other.news",
        "dg.l.other",
        "dg.r.response",
        "_INBOX.other.guess",
        f"$JS.API.STREAM.DELETE.{subjects.JOURNALS}",
        f"{subjects.STORE_API}.STREAM.DELETE.{subjects.JOURNALS}",
        f"{subjects.STORE_API}.STREAM.INFO.{subjects.RESPONSES}",
        f"$JS.API.STREAM.UPDATE.{subjects.LEASES}",
        f"$JS.API.STREAM.PURGE.{subjects.AUDIT}",
        f"$JS.API.STREAM.MSG.DELETE.{subjects.AUDIT}",
        *(
            f"{api}.STREAM.{verb}.{subjects.SECRETS}"
            for api in ("$JS.API", subjects.STORE_API)
            for verb in ("DELETE", "PURGE", "MSG.DELETE", "UPDATE")
        ),
        "dg.k.other",
        "$JS.API.STREAM.CREATE.EVIL",
        f"$JS.API.CONSUMER.CREATE.{subjects.INDEX}.evil",
        f"$JS.API.CONSUMER.DURABLE.CREATE.{subjects.INDEX}.evil",
        f"$JS.API.DIRECT.GET.{subjects.RESPONSES}",
        "$SYS.REQ.SERVER.PING",
    ],
    "gateway": [
        subjects.parts_subject("other"),
        f"{subjects.parts_subject('self')}.cancel",
        "dg.question.other.news",
        subjects.drain_subject("other"),
        subjects.GATEWAY_STATUS,
        "dg.l.other",
        "dg.k.secret",
        "_INBOX.other.guess",
        f"$JS.API.DIRECT.GET.{subjects.SECRETS}",
        f"$JS.API.DIRECT.GET.{subjects.SECRETS}.dg.k.secret",
        f"$JS.API.STREAM.MSG.GET.{subjects.SECRETS}",
        f"{subjects.STORE_API}.STREAM.MSG.GET.{subjects.SECRETS}",
        f"$JS.API.CONSUMER.CREATE.{subjects.SECRETS}.evil",
        f"$JS.API.STREAM.DELETE.{subjects.SECRETS}",
        f"$JS.API.STREAM.PURGE.{subjects.AUDIT}",
        "$JS.API.STREAM.CREATE.EVIL",
        "$SYS.REQ.SERVER.PING",
    ],
    "admin": [
        subjects.requests_subject("other"),
        subjects.decisions_subject("other"),
        subjects.operations_subject("other"),
        subjects.PRESENCE,
        subjects.parts_subject("other"),
        f"{subjects.parts_subject('other')}.cancel",
        "dg.j.conversation",
        "dg.l.other",
        "$SYS.REQ.SERVER.PING",
    ],
}
_UNHEARD: dict[FleetRole, list[str]] = {
    "worker": [
        ">",
        "dg.>",
        "dg.node.other.>",
        "dg.node.*.decide",
        "dg.gate.*",
        "dg.question.>",
        "dg.j.>",
        "dg.k.>",
        "_INBOX.>",
        "$JS.API.>",
    ],
    "gateway": [
        ">",
        "dg.>",
        "dg.node.other.>",
        "dg.gate.other",
        "dg.gate.*",
        "dg.j.>",
        "dg.k.>",
        "_INBOX.>",
        subjects.STATUS,
    ],
    "admin": [">", "dg.node.>", "dg.gate.*", "dg.>", "$JS.API.>"],
}


@dataclass
class _RawClient:
    """A client that does what it likes with credentials, and the server's complaints about it."""

    client: Client
    complaints: list[str] = field(default_factory=list)

    async def violations(self) -> list[str]:
        """Those so far: the server complains at once, so before it answers the next request."""
        await self.client.request(f"$JS.API.DIRECT.GET.{subjects.JOURNALS}.dg.j.none", timeout=10)
        return [each for each in self.complaints if "permissions violation" in each]


@dataclass
class _Fleet:
    url: str
    keys: FleetKeys

    @asynccontextmanager
    async def raw(self, role: FleetRole, name: str = "self") -> AsyncIterator[_RawClient]:
        jwt, sign = self.keys.credentials(role, name).callbacks
        raw = _RawClient(Client())

        async def complain(error: Exception) -> None:
            raw.complaints.append(str(error))

        await raw.client.connect(
            self.url,
            user_jwt_cb=jwt,
            signature_cb=sign,
            error_cb=complain,
            inbox_prefix=f"_INBOX.{name}".encode(),
        )
        try:
            yield raw
        finally:
            await raw.client.close()

    @asynccontextmanager
    async def node(self, role: FleetRole, name: str) -> AsyncIterator[FleetConnection]:
        async with FleetConnection.open((self.url,), name, self.keys.credentials(role, name)) as connection:
            yield connection


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[_Fleet]:
    keys = FleetKeys.new()
    async with nats_server(tmp_path, keys.server_config()) as url:
        fleet = _Fleet(url, keys)
        async with fleet.node("admin", "admin") as admin:
            await make_streams(admin, 1, None)
        yield fleet


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_cannot_publish_beyond_its_own(fleet: _Fleet, role: FleetRole) -> None:
    async with fleet.raw(role) as raw:
        for subject in _FORBIDDEN[role]:
            await raw.client.publish(subject, b"{}")
            violations = await raw.violations()
            assert f'"{subject.lower()}"' in "".join(violations), f"{role} may publish to {subject}"
            raw.complaints.clear()


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_cannot_listen_beyond_its_own(fleet: _Fleet, role: FleetRole) -> None:
    async with fleet.raw(role) as raw:
        for subject in _UNHEARD[role]:
            await raw.client.subscribe(subject)
            violations = await raw.violations()
            assert f'"{subject.lower()}"' in "".join(violations), f"{role} may listen at {subject}"
            raw.complaints.clear()


@pytest.mark.parametrize("role", ROLES)
def test_no_role_publishes_where_it_listens(role: FleetRole) -> None:
    """Else it would ask itself, with an answer that belongs wherever it likes, and NATS would let it answer."""
    allowed = permissions(role, "self")
    both = [
        (published, heard)
        for published in allowed.publish
        for heard in allowed.subscribe
        if _overlap(published.split("."), heard.split(".")) and heard not in allowed.publish_not
    ]
    assert both == []


def _overlap(one: list[str], other: list[str]) -> bool:
    if one[:1] == [">"] or other[:1] == [">"]:
        return bool(one and other)
    if not one or not other:
        return not one and not other
    return (one[0] == other[0] or "*" in (one[0], other[0])) and _overlap(one[1:], other[1:])


async def test_a_worker_answers_what_it_is_asked_and_nothing_else(fleet: _Fleet) -> None:
    async with fleet.node("gateway", "gate") as gateway, fleet.node("worker", "self") as worker:

        async def answer(received: Received) -> None:
            await worker.answer(received, b"yes")

        await worker.subscribe(subjects.requests_subject("self"), answer)
        await worker.flush()
        assert await gateway.request(subjects.requests_subject("self"), b"?", 10) == b"yes"


@pytest.mark.long
async def test_an_operator_asks_all_nodes_and_drains_one(fleet: _Fleet) -> None:
    async with (
        fleet.node("worker", "one") as one,
        fleet.node("worker", "two") as two,
        fleet.node("gateway", "gate") as gate,
        fleet.node("admin", "admin") as admin,
    ):
        for node, subject in (
            (one, subjects.STATUS),
            (two, subjects.STATUS),
            (gate, subjects.GATEWAY_STATUS),
            (two, subjects.drain_subject("two")),
        ):

            async def answer(received: Received, node: FleetConnection = node) -> None:
                await node.answer(received, node.name.encode())

            await node.subscribe(subject, answer)
            await node.flush()
        workers = await admin.collect(subjects.STATUS, b"", 10, lambda answers: len(answers) == 2)
        assert sorted(workers) == [b"one", b"two"]
        assert await admin.collect(subjects.GATEWAY_STATUS, b"", 10, bool) == [b"gate"]
        assert await admin.request(subjects.drain_subject("two"), b"", 10) == b"two"
        with pytest.raises(NobodyThere):
            await admin.request(subjects.drain_subject("one"), b"", 10)


@pytest.mark.parametrize("role", ["worker", "gateway"])
async def test_a_node_uses_the_store_that_is_in_another_account(fleet: _Fleet, role: FleetRole) -> None:
    async with fleet.node(role, "self") as node:
        stored = await node.js.publish(
            "dg.j.id", b"one", headers={"Nats-Expected-Last-Subject-Sequence": "0"}
        )
        with pytest.raises(APIError, match="wrong last sequence"):
            await node.js.publish("dg.j.id", b"two", headers={"Nats-Expected-Last-Subject-Sequence": "0"})
        assert (await node.js.stream_info(subjects.JOURNALS)).state.messages == 1
        for is_direct in (False, True):
            found = await node.js.get_last_msg(subjects.JOURNALS, "dg.j.id", direct=is_direct)
            assert (found.data, found.seq) == (b"one", stored.seq)
        assert await node.js.delete_msg(subjects.JOURNALS, stored.seq)
        assert await node.js.purge_stream(subjects.INDEX, subject="dg.i.*.id")


async def test_a_node_reads_many_messages_with_one_request(fleet: _Fleet) -> None:
    async with fleet.raw("gateway") as raw:
        for number in range(3):
            await raw.client.jetstream().publish(f"dg.j.{number}", str(number).encode())
        found: asyncio.Queue[Msg] = asyncio.Queue()
        await raw.client.subscribe("_INBOX.self.batch", cb=found.put)
        request = b'{"multi_last": ["dg.j.*"], "batch": 10}'
        await raw.client.publish(
            f"$JS.API.DIRECT.GET.{subjects.JOURNALS}", request, reply="_INBOX.self.batch"
        )
        assert [(await found.get()).data for _ in range(4)] == [b"0", b"1", b"2", b""]


async def test_an_answer_that_jetstream_sends_for_a_worker_is_no_decision(fleet: _Fleet) -> None:
    """A worker stores a decision, and reads it with another worker's subject as the place for the answer."""
    async with fleet.node("worker", "other") as victim, fleet.raw("worker") as thief:
        heard: list[bytes] = []
        genuine = asyncio.Event()

        async def take(received: Received) -> None:
            heard.append(received.data)
            if received.data == b"from a gateway":
                genuine.set()

        await victim.subscribe(subjects.decisions_subject("other"), take)
        await victim.flush()
        await thief.client.jetstream().publish("dg.i.key.evil", b"forged")
        for request, body in (
            (f"$JS.API.DIRECT.GET.{subjects.INDEX}.dg.i.key.evil", b""),
            (f"$JS.API.DIRECT.GET.{subjects.INDEX}", b'{"last_by_subj": "dg.i.key.evil"}'),
        ):
            await thief.client.publish(request, body, reply=subjects.decisions_subject("other"))
        # A read with an answer of its own is served after those.
        await thief.client.request(f"$JS.API.DIRECT.GET.{subjects.INDEX}.dg.i.key.evil", timeout=10)
        async with fleet.node("gateway", "gate") as gateway:
            await gateway.publish(subjects.decisions_subject("other"), b"from a gateway")
            await genuine.wait()
    assert heard == [b"from a gateway"]


async def test_an_answer_of_jetstream_drains_no_worker_and_asks_for_no_questions(fleet: _Fleet) -> None:
    """Acknowledgements and answers about streams have no headers. Who ignores the body would take them for a request."""
    async with (
        fleet.node("worker", "other") as victim,
        fleet.raw("worker") as thief,
        fleet.node("gateway", "gate") as gateway,
        fleet.node("admin", "admin") as admin,
    ):
        begun: list[str] = []
        asked: asyncio.Queue[bytes] = asyncio.Queue()

        async def publish_all(received: Received) -> None:
            await asked.put(received.data)

        await listen_for_drain(victim, "other", lambda: begun.append("drain"), DrainState)
        await victim.subscribe(subjects.ALL_QUESTIONS, publish_all)
        await victim.flush()
        api = f"{subjects.STORE_API}.STREAM"
        for target in (subjects.drain_subject("other"), subjects.ALL_QUESTIONS):
            for subject in (
                "dg.s.evil",
                f"{api}.INFO.{subjects.SNAPSHOTS}",
                f"{api}.MSG.GET.{subjects.SNAPSHOTS}",
            ):
                await thief.client.publish(subject, b'{"last_by_subj": "dg.s.evil"}', reply=target)
        # What is served in order is served by now, and what is not is by the second round.
        for _ in range(2):
            await thief.client.jetstream().publish("dg.s.last", b"{}")
            await thief.client.request(f"{api}.INFO.{subjects.SNAPSHOTS}", timeout=10)
        await gateway.publish(subjects.ALL_QUESTIONS, b"")
        assert await asked.get() == b""
        # Not even an operator drains it by another name, or without one.
        for body in (b"", DRAIN_REQUEST_FORM.encode(DrainRequest("self"))):
            await admin.publish(subjects.drain_subject("other"), body)
        await admin.flush()
        request = DRAIN_REQUEST_FORM.encode(DrainRequest("other"))
        assert begun == []
        await admin.request(subjects.drain_subject("other"), request, 10)
        assert begun == ["drain"]
        assert asked.empty()


async def test_an_answer_of_jetstream_deletes_no_stream_and_forges_no_lease(fleet: _Fleet) -> None:
    """A worker stores what would be a request of an operator, and has JetStream send it where such requests go."""
    targets = [
        *(f"$JS.API.STREAM.DELETE.{name}" for name in _STREAMS),
        # A worker may purge the index: what it loses costs a replay.
        *(f"$JS.API.STREAM.PURGE.{name}" for name in _STREAMS if name != subjects.INDEX),
        *(f"{subjects.STORE_API}.STREAM.PURGE.{name}" for name in _STREAMS if name != subjects.INDEX),
        "dg.l.other",
        "dg.k.signing",
        "dg.r.response",
    ]
    async with fleet.raw("worker") as thief, fleet.node("admin", "admin") as admin:
        js = thief.client.jetstream()
        for subject in ("dg.i.key.evil", "dg.j.conversation", "dg.a.decision", "dg.k.signing"):
            await js.publish(subject, b"{}")
        before = {name: await admin.js.stream_info(name) for name in _STREAMS}
        for target in targets:
            for read in (
                f"$JS.API.DIRECT.GET.{subjects.INDEX}.dg.i.key.evil",
                f"{subjects.STORE_API}.STREAM.INFO.{subjects.INDEX}",
            ):
                await thief.client.publish(read, b"", reply=target)
            await thief.client.publish("dg.s.conversation", b"{}", reply=target)
        # What is served in order is served by now, and what is not is by the second round.
        for _ in range(2):
            for name in _STREAMS:
                await admin.js.stream_info(name)
            await thief.client.request(f"{subjects.STORE_API}.STREAM.INFO.{subjects.JOURNALS}", timeout=10)
        after = {name: await admin.js.stream_info(name) for name in _STREAMS}
    changed = {name for name in _STREAMS if before[name].state.messages != after[name].state.messages}
    assert changed == {subjects.SNAPSHOTS}


async def test_a_node_sees_at_its_start_whether_its_streams_are_there(fleet: _Fleet) -> None:
    async with (
        fleet.node("worker", "one") as worker,
        fleet.node("gateway", "gate") as gateway,
        fleet.node("admin", "admin") as admin,
    ):
        await check_streams(worker, "worker")
        await check_streams(gateway, "gateway")
        await admin.js.delete_stream(subjects.RESPONSES)
        await check_streams(worker, "worker")
        with pytest.raises(
            FleetUnavailable, match=rf"no stream {subjects.RESPONSES}\. Run `dragoman fleet init`"
        ):
            await check_streams(gateway, "gateway")
        await admin.js.delete_stream(subjects.INDEX)
        with pytest.raises(
            FleetUnavailable, match=rf"no stream {subjects.INDEX}\. Run `dragoman fleet init`"
        ):
            await check_streams(worker, "worker")


async def test_credentials_of_another_fleet_are_refused(fleet: _Fleet) -> None:
    stranger = _Fleet(fleet.url, FleetKeys.new())
    with pytest.raises(FleetUnavailable, match="refuses the credentials of self"):
        async with stranger.node("worker", "self"):
            pass


async def test_a_worker_reads_secrets_and_a_gateway_does_not(fleet: _Fleet) -> None:
    read = f"$JS.API.DIRECT.GET.{subjects.SECRETS}.dg.k.signing"
    async with fleet.raw("worker") as worker, fleet.raw("gateway", "gate") as gateway:
        await worker.client.jetstream().publish("dg.k.signing", b"secret")
        assert (await worker.client.request(read, timeout=10)).data == b"secret"
        heard: asyncio.Queue[Msg] = asyncio.Queue()
        await gateway.client.subscribe("_INBOX.gate.answer", cb=heard.put)
        await gateway.client.publish(read, reply="_INBOX.gate.answer")
        assert len(await gateway.violations()) == 1
        assert heard.empty()
