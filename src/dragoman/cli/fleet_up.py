"""`dragoman fleet up`: a NATS server on this machine, ready for workers and gateways."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from argparse import Namespace

from dragoman.cli.errors import DONE, INTERRUPTED, CommandError
from dragoman.cli.fleet_actions import fleet_table, operator
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import FleetConfig
from dragoman.fleet.folder import ADMIN, FleetFolder
from dragoman.fleet.local_server import local_server
from dragoman.fleet.servers import check_version
from dragoman.fleet.streams import make_streams
from dragoman.interruptible import run_interruptible
from dragoman.process import SupervisedProcess

__all__ = ["up"]

_WORKER, _GATEWAY = "worker-1", "gateway-1"


def up(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    folder = FleetFolder(context.state_dir)

    async def work() -> bool:
        signals: asyncio.Queue[int] = asyncio.Queue()
        # From before the server starts: whoever sees it ready can end it cleanly.
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
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
            given = (
                "" if context.option is None else f" --config {shlex.quote(str(context.option.absolute()))}"
            )
            say(
                "Then, each in a terminal of its own:\n\n"
                f"  dragoman worker --name {_WORKER}{given}\n"
                f"  dragoman serve --name {_GATEWAY}{given}\n\n"
                "Another worker: dragoman fleet credentials worker worker-2. Ctrl-C ends NATS; keys and data stay."
            )
            sys.stdout.flush()
            return await _first(signals, server.process) == signal.SIGINT

    return INTERRUPTED if run_interruptible(work) else DONE


async def _first(signals: asyncio.Queue[int], process: SupervisedProcess) -> int:
    """Wait for a signal. Raises `CommandError` if the server ends by itself."""
    signalled, ended = asyncio.create_task(signals.get()), asyncio.create_task(process.wait())
    try:
        await asyncio.wait({signalled, ended}, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done():
            return signalled.result()
    finally:
        signalled.cancel()
        ended.cancel()
    last = process.stderr_tail.strip().splitlines()[-1:] or ["it says nothing"]
    raise CommandError(f"NATS has ended by itself: {last[0]}")
