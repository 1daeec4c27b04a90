"""A NATS server says "nobody listens" by what it knows itself. That is no proof that no worker is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dragoman.backends.remote import known_workers, model as model_module, worker_streams
from dragoman.backends.remote.fleet import Fleet
from dragoman.config import Config, FleetModel
from dragoman.fleet.connection import FleetConnection, NoAnswer, NobodyThere
from dragoman.fleet.joining import joined
from dragoman.fleet.lease import NodeLease
from dragoman.fleet.messages import BATCH_FORM, Batch, StreamEnd
from dragoman.fleet.subjects import LEASES, bids_subject, requests_subject, streams_subject
from dragoman.lm import LanguageModelError, TextPart, user
from dragoman.models import Models
from fake_agent.steps import open_gate, prompt
from fleet.lossy import losing
from fleet.machines import DEADLINE_SECONDS, Machines, fake, machines, script, soon, until
from fleet.strange_worker import StrangeWorker
from fleet_faults.cluster import NatsCluster, NatsServer
from fleet_faults.proxy import Proxy

# A request that waits for so long fails its test.
_FOR_EVER = 10 * DEADLINE_SECONDS


def _check_silent(error: LanguageModelError) -> None:
    """It says what is known: there is a worker, and it does not answer."""
    assert error.kind == "unavailable"
    assert "do not answer now: w1." in error.message
    assert "No worker" not in error.sentence
    assert "Try again" in error.sentence
    assert error.public is not None
    assert "w1" not in error.public


class _Counted:
    """How often a gateway has sent something to a subject."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.count = 0

    def wrapped(self, connection: FleetConnection) -> FleetConnection:
        return losing(self._note)(connection)

    def _note(self, subject: str, _data: bytes) -> bool:
        self.count += subject == self._subject
        return False


# A cluster whose servers are cut off from each other.


@dataclass
class _Sides:
    # With a worker, at the server that leads the leases.
    there: Machines
    # For gateways, at another server.
    here: Machines
    # Between that server and the others.
    routes: list[Proxy]


@asynccontextmanager
async def _sides(folder: Path) -> AsyncIterator[_Sides]:
    cluster = NatsCluster(folder, has_roles=False)
    try:
        await cluster.start()
        await cluster.prepare()
        async with AsyncExitStack() as stack:
            leader = await _leader_of_leases(cluster)
            other = next(server for server in cluster.servers if server is not leader)
            there, here = (
                Machines(f"nats://127.0.0.1:{server.port}", folder, stack) for server in (leader, other)
            )
            await there.worker("w1", story=script(folder, {"do": [{"say": "hi"}]}))
            yield _Sides(there, here, other.routes)
    finally:
        await cluster.close()


async def _leader_of_leases(cluster: NatsCluster) -> NatsServer:
    async with joined(cluster.config("admin", "admin"), "admin") as connection:
        info = (await connection.js.stream_info(LEASES)).cluster
    assert info is not None
    return cluster.named(info.leader or "")


@asynccontextmanager
async def _split_off(sides: _Sides) -> AsyncIterator[None]:
    """Cut the gateways' server off, and wait until it says that nobody listens. Heal it at the end of the block."""
    looker = await sides.here.connection("looker")
    for way in sides.routes:
        await way.drop()
    await soon(_until_nobody_listens(looker))
    try:
        yield
    finally:
        for way in sides.routes:
            way.heal()


async def _until_nobody_listens(connection: FleetConnection) -> None:
    while True:
        try:
            await connection.request(requests_subject("w1"), b"", 0.1)
        except NobodyThere:
            return
        except NoAnswer:
            continue


@pytest.mark.long
@pytest.mark.parametrize("has_store", [True, False])
async def test_a_request_at_a_server_that_is_split_off_waits_and_goes_on(
    tmp_path: Path, *, has_store: bool
) -> None:
    async with _sides(tmp_path) as sides:
        bids = _Counted(bids_subject("story"))
        gateway = await sides.here.gateway(wrapped=bids.wrapped, has_store=has_store)
        chat = sides.here.chat(gateway, "story")
        assert (await soon(chat.say("hello"))).text == "hi"
        async with _split_off(sides):
            bids.count = 0
            going = sides.here.chat(gateway, "story").begin(user("again"))
            # It was told that nobody listens, and has asked again.
            await soon(until(lambda: bids.count >= 2 or going.task.done()))
        assert (await going.end()).text == "hi"


@pytest.mark.long
async def test_an_answer_goes_on_when_its_gateways_server_was_split_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody listens at the worker's subject is no proof that it has ended, if the leases cannot be read either."""
    monkeypatch.setattr(worker_streams, "_ABSENT_SECONDS", 0.0)
    folder = tmp_path / "agent"
    async with _sides(tmp_path) as sides:
        await sides.there.worker("w2", fake=fake(folder))
        pings = _Counted(streams_subject("w2"))
        gateway = await sides.here.gateway(wrapped=pings.wrapped)
        going = sides.here.chat(gateway, "fake").begin(
            user(prompt(["say", "One."], ["gate", "on"], ["say", " Two."]))
        )
        await going.until(lambda heard: "One." in heard.text)
        async with _split_off(sides):
            pings.count = 0
            await soon(until(lambda: pings.count >= 2 or going.task.done()))
        open_gate(folder, "on")
        assert (await going.end()).text == "One. Two."


@pytest.mark.long
async def test_a_request_at_a_server_that_stays_split_off_fails_with_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", 1.0)
    async with _sides(tmp_path) as sides:
        gateway = await sides.here.gateway(has_store=False)
        async with _split_off(sides):
            with pytest.raises(LanguageModelError) as failed:
                await soon(sides.here.chat(gateway, "story").say("hello"))
    _check_silent(failed.value)


# One server, and a worker whose connection to it is down for a while.


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


def _says_hi(stream: str) -> tuple[bytes, ...]:
    return (BATCH_FORM.encode(Batch(stream, 1, (TextPart("hi"),), end=StreamEnd())),)


async def _connected(room: Machines) -> Callable[[], Awaitable[object]]:
    """The worker connects. Returns a function that ends the connection."""
    stack = AsyncExitStack()
    connection = await stack.enter_async_context(FleetConnection.open((room.url,), "w1"))
    room.stack.push_async_callback(stack.aclose)
    await StrangeWorker(connection, batches=_says_hi).start()
    return stack.aclose


async def _lease(room: Machines) -> Callable[[], Awaitable[object]]:
    """A lease for the worker, which stays when its connection is down. Returns a function that gives it back."""
    stack = AsyncExitStack()
    await stack.enter_async_context(NodeLease.held(await room.connection("holder"), "w1", "worker"))
    room.stack.push_async_callback(stack.aclose)
    return stack.aclose


async def test_a_request_waits_for_a_worker_that_connects_again(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", _FOR_EVER)
    await _lease(room)
    disconnect = await _connected(room)
    bids = _Counted(bids_subject("strange"))
    gateway = await room.gateway(wrapped=bids.wrapped)
    await disconnect()
    going = room.chat(gateway, "strange").begin(user("hello"))
    await soon(until(lambda: bids.count >= 2 or going.task.done()))
    await _connected(room)
    assert (await going.end()).text == "hi"


async def test_a_request_for_bids_that_is_lost_is_sent_again(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs may end, and nobody says that nobody listens."""
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", _FOR_EVER)
    asked: list[str] = []

    def is_lost(subject: str, _data: bytes) -> bool:
        if subject == bids_subject("strange"):
            asked.append(subject)
            return len(asked) == 1
        return False

    await _connected(room)
    gateway = await room.gateway(wrapped=losing(is_lost))
    assert (await soon(room.chat(gateway, "strange").say("hello"))).text == "hi"
    assert len(asked) == 2


async def test_a_request_waits_for_a_worker_that_has_bid_and_does_not_get_it(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has just learnt of one subject of a worker may not know the other yet."""
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", _FOR_EVER)
    await _lease(room)
    connection = await room.connection("w1")
    strange = StrangeWorker(connection, batches=_says_hi)
    ends = await strange.start()
    requests = _Counted(requests_subject("w1"))
    gateway = await room.gateway(wrapped=requests.wrapped)
    await ends[requests_subject("w1")]()
    await connection.flush()
    going = room.chat(gateway, "strange").begin(user("hello"))
    await soon(until(lambda: requests.count >= 2 or going.task.done()))
    await strange.start()
    assert (await going.end()).text == "hi"


async def test_a_request_waits_for_a_worker_that_has_bid_and_then_hangs_for_a_while(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its NATS server hangs, for example: then nobody says that it does not listen."""
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", _FOR_EVER)
    monkeypatch.setattr(worker_streams, "_ACCEPT_SECONDS", 0.05)
    await _lease(room)
    strange = StrangeWorker(await room.connection("w1"), batches=_says_hi, takes_nothing=True)
    await strange.start()
    requests = _Counted(requests_subject("w1"))
    gateway = await room.gateway(wrapped=requests.wrapped)
    going = room.chat(gateway, "strange").begin(user("hello"))
    # Each request is sent twice, because a message may be lost.
    await soon(until(lambda: requests.count > 2 or going.task.done()))
    strange.takes_nothing = False
    assert (await going.end()).text == "hi"
    # It keeps no place for a request that it has got late.
    *given_up, taken = dict.fromkeys(strange.streams)
    assert given_up
    assert strange.cancelled == given_up
    assert taken not in strange.cancelled


async def test_a_worker_that_does_not_come_back_is_named_when_an_election_would_be_over(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed: its lease lives for a while."""
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", 1.0)
    await _lease(room)
    disconnect = await _connected(room)
    gateway = await room.gateway()
    await disconnect()
    with pytest.raises(LanguageModelError) as failed:
        await soon(room.chat(gateway, "strange").say("hello"))
    _check_silent(failed.value)


async def test_a_worker_that_has_given_its_lease_back_is_gone_at_once(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", _FOR_EVER)
    give_back = await _lease(room)
    disconnect = await _connected(room)
    bids = _Counted(bids_subject("strange"))
    gateway = await room.gateway(wrapped=bids.wrapped)
    await disconnect()
    await give_back()
    with pytest.raises(LanguageModelError, match="No worker with the model 'strange' takes requests now"):
        await soon(room.chat(gateway, "strange").say("hello"))
    assert bids.count == 1


async def test_a_model_that_no_worker_was_ever_heard_to_have_is_unavailable_at_once(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "ELECTION_SECONDS", _FOR_EVER)
    await _lease(room)
    await _connected(room)
    bids = _Counted(bids_subject("other"))
    fleet = Fleet.on(bids.wrapped(await room.connection("gate")), "gate")
    room.stack.push_async_callback(fleet.close)
    models = Models(Config(models={"other": FleetModel()}), fleet=fleet)
    room.stack.push_async_callback(models.close)
    await fleet.workers.refresh()
    with pytest.raises(LanguageModelError, match="No worker with the model 'other' takes requests now"):
        await soon(room.chat(models, "other").say("hello"))
    assert bids.count == 1


async def test_a_silent_worker_is_known_for_as_long_as_it_has_a_lease(room: Machines) -> None:
    give_back = await _lease(room)
    disconnect = await _connected(room)
    fleet = Fleet.on(await room.connection("gate"), "gate")
    room.stack.push_async_callback(fleet.close)
    await fleet.workers.refresh()
    await disconnect()
    now = fleet.link.clock()
    fleet.link.clock = lambda: now + known_workers._FORGET_SECONDS
    await fleet.workers.refresh()
    assert list(fleet.workers.offered) == ["strange"]
    await give_back()
    await fleet.workers.refresh()
    assert not fleet.workers.offered
