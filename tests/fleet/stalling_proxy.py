"""A proxy before NATS that can stop passing anything on, as a network that loses everything does: nobody is told."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

__all__ = ["StallingProxy", "stalling_proxy"]

_PIECE_BYTES = 65_536


class StallingProxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._passes = asyncio.Event()
        self._passes.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def stall(self) -> None:
        """Pass nothing on, in neither direction, of old and of new connections."""
        self._passes.clear()

    def go_on(self) -> None:
        self._passes.set()

    async def take(self, reader: StreamReader, writer: StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        for task in (self._pass(reader, back), self._pass(there, writer)):
            running = asyncio.create_task(task)
            self._tasks.add(running)
            running.add_done_callback(self._tasks.discard)

    async def _pass(self, source: StreamReader, target: StreamWriter) -> None:
        try:
            with suppress(OSError):
                while piece := await source.read(_PIECE_BYTES):
                    await self._passes.wait()
                    target.write(piece)
                    await target.drain()
        finally:
            target.close()
            with suppress(OSError):
                await target.wait_closed()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def stalling_proxy(url: str) -> AsyncIterator[StallingProxy]:
    """Before the server at this address."""
    proxy = StallingProxy(urlsplit(url).port or 4222)
    server = await asyncio.start_server(proxy.take, "127.0.0.1", 0)
    async with server:
        proxy.url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield proxy
        finally:
            await proxy.close()
