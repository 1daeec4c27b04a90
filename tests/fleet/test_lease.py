"""The lease of a node: who lives, who is fenced, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from nats.js.api import StreamConfig

from dragoman.fleet import lease as lease_module
from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.lease import (
    LeaseTerm,
    LeaseTimes,
    NameTaken,
    NodeLease,
    find_lease,
    live_incarnations,
)
from dragoman.fleet.streams import check_streams, make_streams, signing_key
from dragoman.fleet.subjects import LEASES
from dragoman.process.deadline import boot_seconds
from nats_servers import nats_server

_TIMES = LeaseTimes()
# JetStream counts whole seconds.
_QUICK = LeaseTimes(lease=2, renew=0.3, fence=1.5)


# The arithmetic.


def test_the_fence_counts_from_when_the_renewal_was_sent() -> None:
    term = LeaseTerm(_TIMES, 100.0)
    assert term.seconds_left(100.0) == 16.0
    assert term.seconds_to_renewal(101.0) == 3.0
    term.confirm(104.0, 109.0)
    assert term.seconds_left(109.0) == 11.0
    assert term.seconds_to_renewal(109.0) == 0.0
    # An answer to an earlier renewal takes nothing back.
    term.confirm(102.0, 110.0)
    assert term.seconds_left(110.0) == 10.0


def test_n3_a_confirmation_after_the_fence_changes_nothing() -> None:
    term = LeaseTerm(_TIMES, 100.0)
    term.confirm(115.0, 116.0)
    assert term.seconds_left(116.5) == 0.0
    term.confirm(116.5, 116.6)
    assert term.seconds_left(116.6) == 0.0


def test_a_lost_lease_is_over_at_once() -> None:
    term = LeaseTerm(_TIMES, 100.0)
    term.end()
    term.confirm(101.0, 102.0)
    assert term.seconds_left(102.0) == 0.0


_STEPS = st.lists(st.tuples(st.floats(0, 30), st.floats(0, 30), st.booleans()), max_size=30)


@given(_STEPS)
def test_n2_whoever_is_not_fenced_has_a_lease_at_the_server(steps: list[tuple[float, float, bool]]) -> None:
    """Renewals arrive at the server, or not, between their sending and their answer; machines sleep in between."""
    now, ends_at = 0.0, float(_TIMES.lease)
    term = LeaseTerm(_TIMES, now)
    was_fenced = False
    for way, back, arrives in steps:
        sent_at = now
        now += way
        # The server extends only what has not ended: the compare-and-set fails otherwise.
        is_stored = arrives and now < ends_at
        if is_stored:
            ends_at = now + _TIMES.lease
        left = term.seconds_left(now)
        assert left == 0 or now + left <= ends_at - (_TIMES.lease - _TIMES.fence)
        now += back
        if is_stored:
            term.confirm(sent_at, now)
        left = term.seconds_left(now)
        assert left == 0 or now + left <= ends_at - (_TIMES.lease - _TIMES.fence)
        assert not (was_fenced and left), "a fence is for ever"
        was_fenced = not left


# With a server.


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with nats_server(tmp_path) as address, FleetConnection.open((address,), "operator") as operator:
        await make_streams(operator, 1, None)
        yield address


@pytest.fixture
async def nats(url: str) -> AsyncIterator[FleetConnection]:
    async with FleetConnection.open((url,), "test") as connection:
        yield connection


async def test_a_lease_is_renewed_and_given_back(nats: FleetConnection) -> None:
    async with NodeLease.held(nats, "w1", "worker", times=_QUICK) as lease:
        before = await find_lease(nats, "w1")
        assert before is not None
        assert (before.incarnation, before.role) == (lease.incarnation, "worker")
        ended = boot_seconds() + _QUICK.lease + 0.5
        while boot_seconds() < ended:
            assert lease.seconds_left() > 0
            await asyncio.sleep(0.05)
        after = await find_lease(nats, "w1")
        assert after is not None
        assert after.renewals > before.renewals
        assert 0 < lease.renewal_seconds < 1
    assert lease.fenced.is_set()
    assert await find_lease(nats, "w1") is None
    # At once, and as another incarnation.
    async with NodeLease.held(nats, "w1", "worker", times=_QUICK) as next_:
        assert next_.incarnation != lease.incarnation


async def test_a_name_that_another_node_renews_is_taken(nats: FleetConnection) -> None:
    async with NodeLease.held(nats, "w1", "worker", times=_QUICK) as lease:
        with pytest.raises(NameTaken, match=r"named 'w1' runs on .* another name"):
            async with NodeLease.held(nats, "w1", "worker", times=_QUICK):
                pass
        assert lease.seconds_left() > 0


async def test_of_five_that_want_a_name_one_gets_it(nats: FleetConnection) -> None:
    async with AsyncExitStack() as stack:

        async def acquired() -> NodeLease | None:
            try:
                return await stack.enter_async_context(NodeLease.held(nats, "w1", "worker", times=_QUICK))
            except NameTaken:
                return None

        leases = [lease for lease in await asyncio.gather(*(acquired() for _ in range(5))) if lease]
        assert len(leases) == 1
        assert leases[0].seconds_left() > 0


async def test_n3_a_node_without_nats_is_fenced_before_its_lease_ends(url: str, tmp_path: Path) -> None:
    async with FleetConnection.open((url,), "observer") as observer, AsyncExitStack() as stack:
        cut_off = await stack.enter_async_context(FleetConnection.open((url,), "w1"))
        lease = await stack.enter_async_context(NodeLease.held(cut_off, "w1", "worker", times=_QUICK))
        await cut_off._client.close()
        await lease.fenced.wait()
        assert lease.seconds_left() == 0
        assert await find_lease(observer, "w1") is not None, "others wait for longer than it acts"
        # Another that gets the name waits for the end of the lease, and no longer.
        async with NodeLease.held(observer, "w1", "worker", times=_QUICK) as next_:
            assert next_.seconds_left() > 0


async def test_a_lease_whose_message_is_gone_is_lost(nats: FleetConnection) -> None:
    async with NodeLease.held(nats, "w1", "worker", times=_QUICK) as lease:
        await nats.js.purge_stream(LEASES)
        await lease.fenced.wait()
        assert lease.seconds_left() == 0


async def test_the_note_of_an_expiry_is_no_holder(nats: FleetConnection) -> None:
    """A server may be told to leave one: it would be in the way for as long as it stays."""
    await nats.js.update_stream(
        StreamConfig(
            name=LEASES,
            subjects=["dg.l.*"],
            max_msgs_per_subject=1,
            allow_msg_ttl=True,
            allow_direct=True,
            subject_delete_marker_ttl=60,
            allow_rollup_hdrs=True,
        )
    )
    expires = LeaseTimes(lease=1, renew=10, fence=10)
    async with NodeLease.held(nats, "w1", "worker", times=expires):
        await _expired(nats, "w1")
        assert (await nats.js.get_last_msg(LEASES, "dg.l.w1")).headers is not None
        async with NodeLease.held(nats, "w1", "worker", times=_QUICK) as lease:
            assert lease.seconds_left() > 0


async def _expired(nats: FleetConnection, node: str) -> None:
    for _ in range(1_000):
        if await find_lease(nats, node) is None:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(node)


# The streams.


async def test_all_nodes_are_seen_however_many_there_are(nats: FleetConnection) -> None:
    """One answer of the server has some 1,000."""
    names = {f"w{number}" for number in range(1_030)}
    await asyncio.gather(*(nats.js.publish(f"dg.l.{name}", b'{"incarnation":"i"}') for name in names))
    assert await live_incarnations(nats) == dict.fromkeys(names, "i")


async def test_a_lease_that_cannot_be_read_hides_no_other_node(nats: FleetConnection) -> None:
    async with NodeLease.held(nats, "w1", "worker") as lease:
        await nats.js.publish("dg.l.thief", b"garbage")
        assert await live_incarnations(nats) == {"w1": lease.incarnation}
        # Nobody takes from it what it owns: perhaps it is of a newer Dragoman.
        with pytest.raises(FleetUnavailable, match=r"dg\.l\.thief has no lease"):
            await find_lease(nats, "thief")


async def test_streams_can_be_made_again_and_are_missed_with_a_sentence(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as address, FleetConnection.open((address,), "test") as nats:
        with pytest.raises(FleetUnavailable, match="Run `dragoman fleet init`"):
            await check_streams(nats, "gateway")
        with pytest.raises(FleetUnavailable, match="Run `dragoman fleet init`"):
            await find_lease(nats, "w1")
        await make_streams(nats, 1, None)
        await make_streams(nats, 1, None)
        await check_streams(nats, "gateway")


async def test_all_workers_get_the_same_signing_key(nats: FleetConnection) -> None:
    keys = await asyncio.gather(*(signing_key(nats) for _ in range(5)))
    assert {len(key) for key in keys} == {32}
    assert len(set(keys)) == 1


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    """As one does whose answer comes with the cancellation, before Python 3.12."""
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost > 1:
                    raise

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await lease_module._end(task)
    assert task.cancelled()
    assert lost == 2
