"""Responses of server-sent events.

Each event is one write: some readers, the compliance suite's among them, take a piece of the stream for a whole event. Only
when many events are buffered do several leave in one write. A disconnect is noticed during a write and while waiting, and
ends the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["EventStream", "WriteEvent", "until_disconnected", "while_connected"]

_T = TypeVar("_T")

_BEAT = b": still working\n\n"
# The approximate limit, in bytes, of events in one write.
_TOGETHER_BYTES = 64 * 1024


class WriteEvent(Protocol):
    def __call__(self, event: bytes, *, more: bool = False) -> Awaitable[None]:
        """Write one event. With `more`, many others follow at once, and one write may contain several."""


@asynccontextmanager
async def while_connected(receive: Receive, leave: Callable[[], object]) -> AsyncIterator[None]:
    """Call `leave` as soon as the client disconnects."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        leave()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def until_disconnected(receive: Receive, work: Coroutine[None, None, _T]) -> _T | None:
    """Do `work`, and end it when the client disconnects. Its result is then None."""
    working = asyncio.ensure_future(work)
    try:
        async with while_connected(receive, working.cancel):
            await asyncio.wait({working})
    finally:
        working.cancel()
        await asyncio.wait({working})
    return None if working.cancelled() else working.result()


class EventStream(Response):
    """A response of server-sent events. It sends a comment when `write` sends no event for `beat_seconds`."""

    beat_seconds = 15.0

    def __init__(
        self,
        write: Callable[[WriteEvent], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-store", **headers})
        # The length of a stream is unknown.
        del self.headers["content-length"]
        self._write = write

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        loop = asyncio.get_running_loop()
        written = loop.time()
        held = bytearray()

        async def put(event: bytes, *, more: bool = False) -> None:
            nonlocal written
            held.extend(event)
            if more and len(held) < _TOGETHER_BYTES:
                return
            piece = bytes(held)
            held.clear()
            written = loop.time()
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        async def beat() -> None:
            """Send comments: an agent may send nothing for minutes, and readers time out after two."""
            while True:
                silent = loop.time() - written
                if silent >= self.beat_seconds:
                    await put(_BEAT)
                else:
                    await asyncio.sleep(self.beat_seconds - silent)

        beating = asyncio.create_task(beat())
        try:
            await self._write(put)
        except (OSError, ClientDisconnect):
            # The client disconnected during a write.
            return
        finally:
            beating.cancel()
            await asyncio.wait({beating})
        await send({"type": "http.response.body", "body": bytes(held), "more_body": False})
