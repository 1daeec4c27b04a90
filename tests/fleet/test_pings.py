"""What a gateway's pings say."""

from __future__ import annotations

from typing import cast

import pytest

from dragoman.backends.remote.fleet import Fleet
from dragoman.backends.remote.stream import RemoteStream
from dragoman.backends.remote.validity import Validity
from dragoman.backends.remote.worker_streams import WorkerLost, WorkerPeer
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.messages import PONG_FORM, STREAM_FORM, Ping, Pong


class _Worker:
    """A connection behind which the second life of a worker answers pings."""

    def __init__(self) -> None:
        self.pings: list[Ping] = []

    async def request(self, _subject: str, data: bytes, _seconds: float) -> bytes:
        ping = STREAM_FORM.decode(data)
        assert isinstance(ping, Ping)
        self.pings.append(ping)
        return PONG_FORM.encode(Pong("second", 16.0, {receipt.stream: 0 for receipt in ping.receipts}))


async def test_a_ping_to_a_workers_former_life_names_the_streams_of_its_present_one() -> None:
    """The worker gives up what a ping of its gateway does not name, and both lives take pings at one subject."""
    worker = _Worker()
    fleet = Fleet.on(cast("FleetConnection", worker), "gate")
    fleet.link._connection = cast("FleetConnection", worker)
    stream = RemoteStream("new", "w1", "g/1")
    former, present = (WorkerPeer("w1", life, Validity(1e9)) for life in ("first", "second"))
    present.streams[stream.id] = fleet.streams._streams[stream.id] = stream
    fleet.streams._peers = {("w1", peer.incarnation): peer for peer in (former, present)}
    await fleet.streams._compare(former, 0.0, 1.0)
    assert [receipt.stream for receipt in worker.pings[0].receipts] == ["new"]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            FleetUnavailable("There is no connection to NATS."),
            "w1, on which this conversation runs, cannot be reached: NATS",
        ),
        (NoAnswer(), "w1, on which this conversation runs, no longer answers"),
    ],
)
async def test_a_worker_is_not_blamed_while_nats_is_away(failure: Exception, words: str) -> None:
    class Gone:
        async def request(self, _subject: str, _data: bytes, _seconds: float) -> bytes:
            raise failure

    fleet = Fleet.on(cast("FleetConnection", Gone()), "gate")
    fleet.link._connection = cast("FleetConnection", Gone())
    stream, peer = (
        RemoteStream("s", "w1", "g/1"),
        WorkerPeer("w1", "life", Validity(fleet.link.clock() + 0.05)),
    )
    fleet.streams._peers = {("w1", "life"): peer}
    peer.streams[stream.id] = fleet.streams._streams[stream.id] = stream
    await fleet.streams._ping(peer)
    with pytest.raises(WorkerLost) as lost:
        await stream.next()
    assert words in lost.value.message
    assert lost.value.public is not None
    assert "w1" not in lost.value.public
    assert ("another machine" in lost.value.public) == isinstance(failure, NoAnswer)
    assert fleet.streams.lost_workers == 1
