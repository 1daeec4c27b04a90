"""Reads request bodies and writes server-sent events.

A body has a size limit and a time limit. Each event is one write: some readers, the compliance suite's among them, take
a piece of the stream for a whole event. Only when many events are buffered do several leave in one write. A disconnect is
noticed during a write and while waiting, and cancels the response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dragoman.frontends.http.errors import ApiError
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = [
    "DONE",
    "EventStream",
    "JsonResponse",
    "WriteEvent",
    "error_response",
    "framed",
    "read_body",
    "until_disconnected",
    "while_connected",
]


_log = logging.getLogger(__name__)


class WriteEvent(Protocol):
    def __call__(self, event: bytes, *, more: bool = False) -> Awaitable[None]:
        """Write one event. With `more`, many others follow at once, and one write may contain several."""


DONE = b"data: [DONE]\n\n"
_BEAT = b": still working\n\n"
# The approximate limit, in bytes, of events in one write.
_TOGETHER_BYTES = 64 * 1024
# A client on the same machine takes milliseconds. A slower one would hold a connection for nothing.
_BODY_SECONDS = 60.0


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return encode(content)


def error_response(error: ApiError) -> JsonResponse:
    return JsonResponse(error.body, error.status, error.headers)


def framed(event: JsonObject) -> bytes:
    """Return an event as a server-sent event. Encoded JSON contains no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), encode(event))


async def read_body(request: Request, limit: int) -> bytes:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # A page may send other types across sites without a preflight request.
        raise ApiError(415, "invalid_request", "Send JSON: `Content-Type: application/json`.")
    too_large = ApiError(
        413, "invalid_request", f"The body has more than {limit:,} bytes.", code="body_too_large"
    )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        _log.warning("a body was not complete after %g seconds: the request is refused", _BODY_SECONDS)
        raise ApiError(408, "invalid_request", "The body took too long.") from None
    return bytes(body)


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


async def until_disconnected(receive: Receive, work: Coroutine[None, None, None]) -> None:
    """Do `work`, and end it when the client disconnects."""
    working = asyncio.ensure_future(work)
    try:
        async with while_connected(receive, working.cancel):
            await asyncio.wait({working})
    finally:
        working.cancel()
        await asyncio.wait({working})
    if not working.cancelled():
        working.result()


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
