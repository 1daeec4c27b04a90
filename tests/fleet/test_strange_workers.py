"""A worker of another version, or one that is broken: what a gateway makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dragoman.backends.remote import known_workers
from dragoman.backends.remote.fleet import Fleet
from dragoman.backends.remote.stream import RemoteStream
from dragoman.fleet import connection as connection_module
from dragoman.fleet.connection import Received
from dragoman.fleet.messages import BATCH_FORM, BID_FORM, Batch, Bid, StreamEnd
from dragoman.fleet.placement import Place
from dragoman.fleet.subjects import STATUS
from dragoman.fleet.window import WINDOW_BYTES
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.lm import CancellationSource, LanguageModelError, Part, Request, TextPart, user
from fleet.machines import DEADLINE_SECONDS, Machines, fake, machines, script, soon, until
from fleet.strange_worker import StrangeWorker


class _Stuck:
    """A consumer that takes one part, and no more for now."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.said = ""

    def report(self, part: Part) -> None:
        self.said += part.value if isinstance(part, TextPart) else ""
        self.is_reached.set()

    async def drain(self) -> None:
        await self.goes_on.wait()


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


@pytest.mark.parametrize(
    "rest",
    [
        [[], [], {"error": {"kind": "a_new_kind", "message": "x"}}],
        [[{"type": "a_new_part"}]],
        [[], [], {"moved_to": "no name"}],
    ],
)
async def test_a_batch_that_cannot_be_read_fails_its_response_and_says_why(
    room: Machines, rest: list[object]
) -> None:
    def batches(stream: str) -> tuple[bytes, ...]:
        unknown = msgspec.msgpack.encode(["another", 1, *rest])
        return b"\xc1", unknown, msgspec.msgpack.encode([stream, 1, *rest])

    await StrangeWorker(await room.connection("w1"), batches=batches).start()
    chat = room.chat(await room.gateway(), "strange")
    with pytest.raises(LanguageModelError, match="w1 has sent something that cannot be read") as failed:
        await soon(chat.say("hello"))
    assert "same version" in failed.value.sentence
    assert failed.value.public is not None
    assert "w1" not in failed.value.public


@pytest.mark.parametrize(
    "bid",
    [
        b"\xc1",
        msgspec.msgpack.encode({"node": 1}),
        msgspec.msgpack.encode(
            {"node": "w 2", "incarnation": "i", "turns": 0, "agents": 0, "max_agents": 9, "holds": True}
        ),
    ],
)
async def test_a_bid_that_cannot_be_read_does_not_count_and_stops_no_other(
    room: Machines, bid: bytes
) -> None:
    await StrangeWorker(await room.connection("w2"), "w2", bid=bid).start()
    await room.worker("w1", strange=script(room.folder, {"do": [{"say": "hi"}]}))
    gateway = await room.gateway()
    assert (await soon(room.chat(gateway, "strange").say("hello"))).text == "hi"


async def test_a_worker_whose_answer_to_a_request_cannot_be_read_is_passed_over(room: Machines) -> None:
    # It says that it has the conversation, so it is asked first.
    bid = BID_FORM.encode(Bid("w2", "i1", 0, 0, 1, holds=True))
    strange = StrangeWorker(await room.connection("w2"), "w2", bid=bid, accepted=b"\xc1")
    await strange.start()
    await room.worker("w1", strange=script(room.folder, {"do": [{"say": "hi"}]}))
    gateway = await room.gateway()
    assert (await soon(room.chat(gateway, "strange").say("hello"))).text == "hi"
    assert strange.streams


async def test_a_status_with_a_name_that_no_node_can_have_is_ignored(room: Machines) -> None:
    connection = await room.connection("w1")

    async def status(received: Received) -> None:
        said = {"name": "w 1", "incarnation": "i", "role": "worker", "version": "1"}
        await connection.answer(received, msgspec.msgpack.encode(said))

    await connection.subscribe(STATUS, status)
    await connection.flush()
    fleet = Fleet.on(await room.connection("gate"), "gate")
    await fleet.workers.refresh()
    assert fleet.workers.nodes == []
    await fleet.close()


async def test_an_owner_with_a_name_that_no_node_can_have_is_not_asked(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.worker("w1", fake=fake(room.folder / "agent"))
    gateway = await room.gateway()
    chat = room.chat(gateway, "fake")
    assert (await chat.do(["say", "One."])).text == "One."

    async def place_of(_self: object, _journal: str) -> Place:
        return Place("w 1", "w 1")

    monkeypatch.setattr(JetStreamJournals, "place_of", place_of)
    assert (await soon(chat.do(["say", "Two."]))).text == "Two."


async def test_a_silent_worker_delays_one_request_and_not_those_after_it(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = StrangeWorker(await room.connection("w1"))
    silent = StrangeWorker(await room.connection("w2"), "w2")
    for each in (strange, silent):
        await each.start()
    fleet = Fleet.on(await room.connection("gate"), "gate")
    await fleet.workers.refresh()
    assert {each.node for each in await fleet.workers.bids("strange", ())} == {"w1", "w2"}
    silent.is_silent = True
    assert [each.node for each in await fleet.workers.bids("strange", ())] == ["w1"]
    # Nobody waits for it now, however long that would be.
    monkeypatch.setattr(known_workers, "_BID_SECONDS", 10 * DEADLINE_SECONDS)
    assert [each.node for each in await soon(fleet.workers.bids("strange", ()))] == ["w1"]
    silent.is_silent = False
    await fleet.workers.refresh()
    assert {each.node for each in await soon(fleet.workers.bids("strange", ()))} == {"w1", "w2"}
    await fleet.close()


@pytest.mark.parametrize("why", ["is_draining", "is_full"])
async def test_a_worker_that_has_just_started_is_found_if_all_that_are_known_decline(
    room: Machines, why: str
) -> None:
    declined = msgspec.structs.replace(Bid("w1", "i1", 0, 0, 1), **{why: True})
    await StrangeWorker(await room.connection("w1"), bid=BID_FORM.encode(declined)).start()
    fleet = Fleet.on(await room.connection("gate"), "gate")
    await fleet.workers.refresh()
    await StrangeWorker(await room.connection("w2"), "w2", pause=0.1).start()
    assert {each.node for each in await fleet.workers.bids("strange", ())} == {"w1", "w2"}
    await fleet.close()


async def test_each_bid_is_read_once(room: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        name = f"w{number}"
        await StrangeWorker(await room.connection(name), name).start()
    fleet = Fleet.on(await room.connection("gate"), "gate")
    await fleet.workers.refresh()
    read: list[bytes] = []

    class Counted:
        def decode(self, data: bytes) -> Bid:
            read.append(data)
            return BID_FORM.decode(data)

    monkeypatch.setattr(known_workers, "BID_FORM", Counted())
    assert len(await fleet.workers.bids("strange", ())) == len(read) == 8
    await fleet.close()


async def test_a_worker_that_sends_more_than_the_window_allows_fails_its_response(room: Machines) -> None:
    def batches(stream: str) -> tuple[bytes, ...]:
        part = TextPart("x" * (WINDOW_BYTES // 2))
        return tuple(BATCH_FORM.encode(Batch(stream, number, (part,))) for number in range(1, 9))

    await StrangeWorker(await room.connection("w1"), batches=batches).start()
    gateway = await room.gateway()
    stuck = _Stuck()
    responding = asyncio.create_task(
        gateway.get("strange").respond(Request((user("hi"),)), stuck, CancellationSource().token)
    )
    await soon(stuck.is_reached.wait())
    fleet = gateway.get("strange")._model._fleet  # type: ignore[attr-defined]
    [stream] = fleet.streams._streams.values()
    await soon(until(lambda: stream._error is not None))
    assert stream.held_bytes == 0
    stuck.goes_on.set()
    await soon(responding)
    assert "w1 sends more than it may" in stuck.said


async def test_pieces_of_messages_that_never_end_take_bounded_memory(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_MOST_BYTES", 10_000)
    receiver, sender = await room.connection("gate"), await room.connection("w1")
    whole: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(received: Received) -> None:
        whole.put_nowait(received.data)

    for subject in ("dg.gate.one", "dg.gate.two"):
        await receiver.subscribe(subject, take)
    await receiver.flush()
    for number in range(20):
        for subject in ("dg.gate.one", "dg.gate.two"):
            await sender.publish(subject, b"x" * 1_000, headers={"Dg-Pieces": f"{number} 0 2"})
    for header in ("no pieces", "a b c", "7 1 2"):
        await sender.publish("dg.gate.one", b"x", headers={"Dg-Pieces": header})
    await sender.publish("dg.gate.one", b"end", headers={"Dg-Pieces": "19 1 2"})
    await sender.publish("dg.gate.two", b"end", headers={"Dg-Pieces": "19 1 2"})
    for _ in range(2):
        assert await soon(whole.get()) == b"x" * 1_000 + b"end"
    assert receiver._joiner.size <= 10_000


def test_a_stream_that_has_failed_takes_nothing_more() -> None:
    stream = RemoteStream("s", "w1", "g/1")
    stream.fail(LanguageModelError("unavailable", "gone"))
    assert not stream.take(Batch("s", 1, (TextPart("late"),)), 10)
    assert not stream.take(Batch("s", 9), 10)
    stream.fail(LanguageModelError("unavailable", "another"))
    with pytest.raises(LanguageModelError, match="gone"):
        asyncio.run(stream.next())


async def test_a_batch_of_another_life_of_the_worker_is_not_shown(room: Machines) -> None:
    def batches(stream: str) -> tuple[bytes, ...]:
        earlier = Batch(stream, 1, (TextPart("earlier"),), incarnation="i0")
        return (
            BATCH_FORM.encode(earlier),
            BATCH_FORM.encode(Batch(stream, 1, (TextPart("now"),), end=StreamEnd(), incarnation="i1")),
        )

    await StrangeWorker(await room.connection("w1"), batches=batches).start()
    chat = room.chat(await room.gateway(), "strange")
    assert (await soon(chat.say("hello"))).text == "now"


async def test_a_worker_whose_batches_can_never_be_read_fails_its_response(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that does not even name its stream is asked for again some times, and not for ever."""
    monkeypatch.setattr("dragoman.backends.remote.worker_streams.PING_SECONDS", 0.02)
    await StrangeWorker(await room.connection("w1"), batches=lambda _: (b"\x01",)).start()
    chat = room.chat(await room.gateway(), "strange")
    with pytest.raises(LanguageModelError, match="cannot be read here"):
        await soon(chat.say("hello"))
