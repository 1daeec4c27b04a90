"""What a gateway's pings say."""

from __future__ import annotations

from typing import cast

import pytest

from dragoman.backends.remote.fleet import Fleet
from dragoman.backends.remote.stream import RemoteStream
from dragoman.backends.remote.validity import Validity
from dragoman.backends.remote.worker_streams import WorkerLost, WorkerPeer
from dragoman.fleet.connection import FleetConnection, NoAnswer
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
    ("has_lease", "words"),
    [
        (None, "w1, on which this conversation runs, cannot be reached: NATS is away"),
        (True, "w1, on which this conversation runs, no longer answers"),
        (False, "w1, on which this conversation runs, no longer answers"),
    ],
)
async def test_a_worker_is_blamed_only_if_leases_can_be_read(*, has_lease: bool | None, words: str) -> None:
    class Silent:
        async def request(self, _subject: str, _data: bytes, _seconds: float) -> bytes:
            raise NoAnswer

    async def looked(_node: str, _seconds: float) -> bool | None:
        return has_lease

    fleet = Fleet.on(cast("FleetConnection", Silent()), "gate")
    fleet.link._connection = cast("FleetConnection", Silent())
    fleet.link.has_lease = looked  # type: ignore[assignment, method-assign]
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
    assert ("another machine" in lost.value.public) == (has_lease is not None)
    assert fleet.streams.lost_workers == (has_lease is not None)


async def test_a_worker_that_began_again_is_counted_once_however_long_its_streams_are_read() -> None:
    worker = _Worker()
    fleet = Fleet.on(cast("FleetConnection", worker), "gate")
    fleet.link._connection = cast("FleetConnection", worker)
    stream, former = RemoteStream("old", "w1", "g/1"), WorkerPeer("w1", "first", Validity(1e9))
    fleet.streams._peers = {("w1", "first"): former}
    former.streams[stream.id] = fleet.streams._streams[stream.id] = stream
    for _ in range(3):
        await fleet.streams._compare(former, 0.0, 1.0)
    assert fleet.streams.lost_workers == 1
    with pytest.raises(
        WorkerLost, match="w1, on which this conversation runs, was restarted, or could not reach NATS"
    ) as lost:
        await stream.next()
    assert lost.value.public is not None
    assert "NATS" not in lost.value.public
