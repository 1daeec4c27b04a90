"""`dragoman fleet up`: a NATS server on this machine, ready for workers and gateways."""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import Namespace

from dragoman.cli.errors import DONE, INTERRUPTED, CommandError
from dragoman.cli.fleet_actions import fleet_table, operator
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import FleetConfig
from dragoman.fleet.folder import ADMIN, FleetFolder
from dragoman.fleet.local_server import LocalServer, local_server
from dragoman.fleet.servers import check_version
from dragoman.fleet.streams import make_streams
from dragoman.interruptible import run_interruptible

__all__ = ["up"]

_WORKER, _GATEWAY = "worker-1", "gateway-1"


def up(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    folder = FleetFolder(context.state_dir)

    async def work() -> bool:
        async with local_server(folder, arguments.port) as server:
            admin = folder.credentials("admin", ADMIN)
            folder.credentials("worker", _WORKER)
            folder.credentials("gateway", _GATEWAY)
            async with operator(FleetConfig(url=server.url, credentials=admin)) as connection:
                check_version(connection)
                await make_streams(connection, 1, config.keep)
            say(f"dragoman: NATS at {server.url}, its keys and data in {folder.path}", sys.stderr)
            if config.fleet.urls != (server.url,):
                say("In the configuration of workers and gateways on this machine:\n")
                print(fleet_table(server.url, folder.path))
            say(
                "Then, each in a terminal of its own:\n\n"
                f"  dragoman worker --name {_WORKER}\n"
                f"  dragoman serve --name {_GATEWAY}\n\n"
                "Another worker: dragoman fleet credentials worker worker-2. Ctrl-C ends NATS; keys and data stay."
            )
            sys.stdout.flush()
            return await _until_ended(server)

    return INTERRUPTED if run_interruptible(work) else DONE


async def _until_ended(server: LocalServer) -> bool:
    """Wait for a signal. Whether it was SIGINT. Raises `CommandError` if the server ends by itself."""
    loop = asyncio.get_running_loop()
    signals: list[int] = []
    signalled = asyncio.Event()

    def take(number: int) -> None:
        signals.append(number)
        signalled.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, take, number)
    waiting = [asyncio.create_task(signalled.wait()), asyncio.create_task(_ended(server))]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not signals:
            last = server.process.stderr_tail.strip().splitlines()[-1:] or ["it says nothing"]
            raise CommandError(f"NATS has ended by itself: {last[0]}")
        return signals[0] == signal.SIGINT
    finally:
        for task in waiting:
            task.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _ended(server: LocalServer) -> bool:
    await server.process.wait()
    return True
