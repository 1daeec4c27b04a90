"""A way between two programs that can be cut: nothing passes then, and nothing is closed, as in a network that fails."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["Proxy"]

_READ_BYTES = 64 * 1024


class Proxy:
    """Takes connections on loopback, and passes what comes on to another port there. Use `open` and `close`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        # Bytes that have passed.
        self.passed = 0

    async def open(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def is_cut(self) -> bool:
        return not self._passes.is_set()

    def cut(self) -> None:
        self._passes.clear()

    def heal(self) -> None:
        """What was on its way arrives late."""
        self._passes.set()

    async def drop(self) -> None:
        """Cut it, and close the connections, so that both ends know it at once."""
        self.cut()
        await self._close_connections()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._close_connections()

    async def _close_connections(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        other: asyncio.StreamWriter | None = None
        try:
            await self._passes.wait()
            their_reader, other = await asyncio.open_connection("127.0.0.1", self._target)
            ways = [
                asyncio.create_task(self._pass(reader, other)),
                asyncio.create_task(self._pass(their_reader, writer)),
            ]
            try:
                # A connection that one side has closed is closed on the other.
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await self._passes.wait()
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            # asyncio would report a handler that was cancelled. It is at its end anyway.
            pass
        finally:
            writer.close()
            if other is not None:
                other.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await self._passes.wait()
                writer.write(data)
                self.passed += len(data)
                await writer.drain()
