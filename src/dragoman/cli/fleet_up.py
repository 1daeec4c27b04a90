"""`dragoman fleet up`: a NATS server on this machine, ready for workers and gateways."""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import Namespace
from typing import Self

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
        with _Signals() as signals:
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
                return await signals.until_any(server)

    return INTERRUPTED if run_interruptible(work) else DONE


class _Signals:
    """SIGINT and SIGTERM, from before the server starts: whoever sees it ready can end it cleanly."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._any = asyncio.Event()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._take, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)

    def _take(self, number: int) -> None:
        self._seen.append(number)
        self._any.set()

    async def until_any(self, server: LocalServer) -> bool:
        """Wait for a signal. Whether it was SIGINT. Raises `CommandError` if the server ends by itself."""
        waiting = [asyncio.create_task(self._any.wait()), asyncio.create_task(_ended(server))]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        if not self._seen:
            last = server.process.stderr_tail.strip().splitlines()[-1:] or ["it says nothing"]
            raise CommandError(f"NATS has ended by itself: {last[0]}")
        return self._seen[0] == signal.SIGINT


async def _ended(server: LocalServer) -> bool:
    await server.process.wait()
    return True
