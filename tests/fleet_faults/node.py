"""A node of a fleet as a process: `python -m fleet_faults.node worker|gateway CONFIG PORT LEASE`.

It is what `dragoman worker` and `dragoman serve` are, with other times of the lease: tests do not wait for the usual ones.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from dragoman.backends.remote.fleet import Fleet
from dragoman.config import Config, load
from dragoman.fleet.cancelling import GatewayCancels
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.joining import joined
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.responses import JetStreamResponses
from dragoman.fleet.streams import signing_key
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.running import bound, serve
from dragoman.frontends.http.service import HttpService
from dragoman.frontends.worker.worker import OpenedModels, Worker
from dragoman.interruptible import fast_loop
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.logs import configure_logging
from dragoman.models import Models


async def _worker(config: Config, connection: FleetConnection, name: str, times: LeaseTimes) -> None:
    key = await signing_key(connection)

    async def opened(lease: NodeLease) -> OpenedModels:
        store = JetStreamJournals(connection, lease)
        return OpenedModels(Models(config, store=store, key=key), store)

    worker = Worker(connection, lambda: NodeLease.held(connection, name, "worker", times=times), opened)
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, worker.drain)
    await worker.run()


async def _gateway(
    config: Config, connection: FleetConnection, name: str, port: int, times: LeaseTimes
) -> None:
    async with NodeLease.held(connection, name, "gateway", times=times, lives_on=True) as lease:
        store = JetStreamJournals(connection, lease)
        fleet = Fleet.on(connection, name, store)
        models = Models(config, store=store, fleet=fleet)
        cancels = GatewayCancels(connection)
        try:
            await fleet.refresh()
            service = HttpService(
                models, config.serve, JetStreamResponses(connection), models.journals, gateways=cancels
            )
            async with cancels.taken(name, service.background.stop):
                listening = bound("127.0.0.1", port)
                print(f"serving at http://127.0.0.1:{port}", file=sys.stderr, flush=True)
                await serve(service, AccessCheck(()), listening)
        finally:
            await models.close()
            await fleet.close()


async def main(role: str, file: str, port: str, lease: str) -> None:
    config = load(Path(file))
    name = config.fleet.name
    assert name is not None
    seconds = int(lease)
    times = LeaseTimes(seconds, seconds / 5, seconds * 4 / 5)
    async with joined(config.fleet, name) as connection:
        if role == "worker":
            await _worker(config, connection, name, times)
        else:
            await _gateway(config, connection, name, int(port), times)


if __name__ == "__main__":
    configure_logging("info")
    with asyncio.Runner(loop_factory=fast_loop) as runner:
        runner.run(main(*sys.argv[1:]))
