"""Reading bodies and writing events.

A body is read up to a limit and for a limited time. Each event is one write: there are readers, the compliance suite's
among them, that take a piece of the stream for a whole event. Only when many wait already, faster than any model speaks, do
they leave together. Clients that go away are noticed while we write and while we wait, and what was done for them stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
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
    "while_connected",
]


_log = logging.getLogger(__name__)


class WriteEvent(Protocol):
    def __call__(self, event: bytes, *, more: bool = False) -> Awaitable[None]:
        """Write one event; with `more`, many others wait behind it, and it may leave with them."""


DONE = b"data: [DONE]\n\n"
_BEAT = b": still working\n\n"
# Events that leave together are at most about so many bytes.
_TOGETHER_BYTES = 64 * 1024
# A client on the same machine takes milliseconds; one that takes longer than this holds a place for nothing.
_BODY_SECONDS = 60.0


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return encode(content)


def error_response(error: ApiError) -> JsonResponse:
    return JsonResponse(error.body, error.status, error.headers)


def framed(event: JsonObject) -> bytes:
    """As a server-sent event. JSON has no line breaks of its own."""
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), encode(event))


async def read_body(request: Request, limit: int) -> bytes:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # A page may send other types across sites without asking first.
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
async def while_connected(receive: Receive, leave: Callable[[], None]) -> AsyncIterator[None]:
    """Call `leave` as soon as the client has gone."""

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


class EventStream(Response):
    """A stream of events that `write` makes, and comments where it is silent for long."""

    beat_seconds = 15.0

    def __init__(
        self,
        write: Callable[[WriteEvent], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-store", **headers})
        # Its length is not known.
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
            """An agent may work for minutes without a word, and readers give up on a stream that is silent for two."""
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
            # Gone in the middle of a write.
            return
        finally:
            beating.cancel()
            await asyncio.wait({beating})
        await send({"type": "http.response.body", "body": bytes(held), "more_body": False})
