"""A worker in a process of its own, for tests that kill or suspend it: URL NAME FOLDER [usual]."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.config import Config
from dragoman.conversations.ids import KEY_BYTES
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.frontends.worker.worker import OpenedModels, Worker
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.models import Models

sys.path.insert(0, str(Path(__file__).parents[1]))
from fleet.machines import QUICK, fake, until


async def main(url: str, name: str, folder: str, times_are: str = "quick") -> None:
    async with FleetConnection.open((url,), name) as connection:
        config = Config(models={"fake": fake(Path(folder))})
        times = QUICK if times_are == "quick" else LeaseTimes()

        async def opened(lease: NodeLease) -> OpenedModels:
            store = JetStreamJournals(connection, lease)
            return OpenedModels(Models(config, store=store, key=b"k" * KEY_BYTES), store)

        worker = Worker(connection, lambda: NodeLease.held(connection, name, "worker", times=times), opened)
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.serving is not None and worker.serving.has_started)
        print("ready", flush=True)
        await running


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
