"""What a node says while it waits: for the lease of its former life, and for a NATS that is down."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.streams import make_streams
from fleet.machines import soon, until
from fleet.node_processes import fleet_processes
from nats_servers import free_port, nats_server

# Through agents and connections: each takes a second or more.
pytestmark = pytest.mark.long


@pytest.mark.long
async def test_a_worker_says_that_it_waits_and_then_that_it_offers(tmp_path: Path) -> None:
    async with fleet_processes(tmp_path) as fleet:
        first = await fleet.worker("w1")
        first.signal(signal.SIGKILL)
        await first.end()
        again = await fleet.process(*fleet.named("w1"), "worker", "--name", "w1")
        said = await again.until_said("w1 waits until the lease of its former life has ended")
        assert "to the fleet at" not in said
        await again.until_said("to the fleet at")


async def test_an_outage_costs_a_few_lines_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    # Fenced and without a lease during the outage; two of the servers are never there.
    times = LeaseTimes(lease=3, renew=0.2, fence=1.0)
    port = free_port()
    others = tuple(f"nats://127.0.0.1:{free_port()}" for _ in range(2))

    async with nats_server(tmp_path, port=port) as url:
        async with FleetConnection.open((url,), "admin") as admin:
            await make_streams(admin, 1, None)
        joining = FleetConnection.open((url, *others), "node")
        connection = await joining.__aenter__()
        holding = NodeLease.held(connection, "node", "gateway", times=times, lives_on=True)
        lease = await holding.__aenter__()
        caplog.clear()
    await soon(until(lease.fenced.is_set))
    await asyncio.sleep(2)
    async with nats_server(tmp_path, port=port):
        await soon(until(lambda: lease.seconds_left() > 0 and not lease.fenced.is_set()))
        said = [record.getMessage() for record in caplog.records]
        await holding.__aexit__(None, None, None)
        await joining.__aexit__(None, None, None)
    assert len(said) <= 10, said
    assert said.count("NATS: connected again") == 1
    assert said.count("node has a lease again") == 1
