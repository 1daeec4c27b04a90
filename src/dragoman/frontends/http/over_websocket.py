"""Responses over a WebSocket: one after the other, each started by `response.create` and sent in the same events.

The socket remembers responses with `store: false` while it is open, so that the next turn can continue from them. A turn
that continues from such a response and fails discards it, as the specification requires. A disconnect cancels the
running response, unless it runs in the background. Then only the sending of its events ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.auth import WITHOUT_KEY
from dragoman.frontends.http.create_request import CreateRequest, object_of, read_create
from dragoman.frontends.http.errors import ApiError, bad_request, unexpected
from dragoman.frontends.http.histories import SocketHistory
from dragoman.frontends.http.middleware import client_of
from dragoman.frontends.http.preparing import Prepared
from dragoman.frontends.http.service import HttpService
from dragoman.lm import JsonObject
from dragoman.lm.json import encode_text

__all__ = ["Socket"]

_log = logging.getLogger(__name__)

# The specification's limit for one connection.
_LIMIT_SECONDS = 60 * 60.0
# Queued turns behind the running one. They run one by one; reading stops while the queue is full.
_AHEAD = 8
_GOING_AWAY = 1001
# The events with which a response ends.
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
# Open sockets for each running response: most sockets are idle between two turns.
_SOCKETS_A_RESPONSE = 8
# The share of all sockets that one key may open, so that others find room.
_SHARE_OF_A_KEY = 1 / 4


class Socket:
    """The WebSocket endpoint, for Starlette."""

    def __init__(self, service: HttpService) -> None:
        self._service = service
        # The number of open sockets of each key.
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        metrics = self._service.metrics
        most = _SOCKETS_A_RESPONSE * self._service.serve.max_responses
        if metrics.sockets >= most:
            raise ApiError(429, "too_many_requests", "There are too many WebSockets open.", retry_after=1)
        socket = WebSocket(scope, receive, send)
        key = client_of(socket).connection
        if key != WITHOUT_KEY and self._open[key] >= max(1, round(most * _SHARE_OF_A_KEY)):
            raise ApiError(
                429,
                "too_many_requests",
                f"This key has {self._open[key]} WebSockets open, which is as many as one may have. Close some.",
                retry_after=1,
            )
        metrics.sockets += 1
        self._open[key] += 1
        try:
            await socket.accept()
            await _Session(self._service, socket).run()
        finally:
            metrics.sockets -= 1
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


class _Session:
    def __init__(self, service: HttpService, socket: WebSocket) -> None:
        self._service = service
        self._socket = socket
        self._client = client_of(socket)
        self._local = SocketHistory()
        self._turns: asyncio.Queue[str | None] = asyncio.Queue(_AHEAD)
        self._answer: ResponseRun | None = None
        # Sends the events of a background response.
        self._following: asyncio.Task[object] | None = None
        self._preparing: asyncio.Task[Prepared] | None = None
        self._has_left = False
        self._deadline = asyncio.get_running_loop().time() + _LIMIT_SECONDS

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            while (turn := await self._next()) is not None:
                await self._serve(turn)
        except (WebSocketDisconnect, OSError, RuntimeError):
            # The client disconnected during a write. Starlette raises one of three exceptions for it.
            _log.debug("a WebSocket client has disconnected")
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _next(self) -> str | None:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._turns.get()
        except TimeoutError:
            error = bad_request(
                "This connection has been open for an hour. Open another one.",
                code="websocket_connection_limit_reached",
            )
            await self._refuse(error)
            await self._socket.close(_GOING_AWAY)
            return None

    async def _read(self) -> None:
        """Queue the client's turns, and cancel the running response when the client disconnects."""
        try:
            while True:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                await self._turns.put(
                    message.get("text") or (message.get("bytes") or b"").decode("utf-8", "replace")
                )
        finally:
            self._has_left = True
            if self._answer is not None:
                self._answer.cancel()
            for task in (self._preparing, self._following):
                if task is not None:
                    task.cancel()
            while self._turns.full():
                self._turns.get_nowait()
            self._turns.put_nowait(None)

    async def _serve(self, turn: str) -> None:
        previous: str | None = None
        try:
            value = _turn(turn)
            named = value.get("previous_response_id")
            previous = named if isinstance(named, str) else None
            create = read_create(value, self._socket.headers, over_websocket=True)
            prepared = await self._prepared(create)
            failed = prepared is not None and await self._respond(prepared, create)
        except ApiError as error:
            failed = True
            await self._refuse(error)
        except Exception as error:
            if isinstance(error, WebSocketDisconnect | OSError | RuntimeError):
                raise
            _log.exception("a turn of a WebSocket failed")
            failed = True
            await self._refuse(unexpected())
        if failed and previous is not None:
            self._local.pop(previous, None)

    async def _prepared(self, create: CreateRequest) -> Prepared | None:
        """Prepare a turn. None if the client has disconnected."""
        self._preparing = preparing = asyncio.create_task(
            self._service.prepare(create, self._client, self._local)
        )
        try:
            if self._has_left:
                preparing.cancel()
            await asyncio.wait({preparing})
        finally:
            preparing.cancel()
            self._preparing = None
        return None if preparing.cancelled() else preparing.result()

    async def _respond(self, prepared: Prepared, create: CreateRequest) -> bool:
        """Run one response. Return whether it failed after its start; an earlier failure raises `ApiError`."""
        if not create.generates:
            async for event in self._service.without_answer(prepared, self._local):
                await self._send(event)
            return False
        if create.is_background:
            return await self._follow(prepared)
        kind: object = None
        async with self._service.answering(prepared) as answer:
            self._answer = answer
            try:
                await answer.begun()
                async for event in self._service.events(prepared, answer, self._local):
                    kind = None
                    await self._send(event)
                    kind = event["type"]
            finally:
                self._answer = None
                answer.delivered(whole=kind in _LAST and not answer.was_cancelled)
        return kind == "response.failed"

    async def _follow(self, prepared: Prepared) -> bool:
        """Start a background response and send its events. Return whether it failed."""
        background = self._service.background
        started = await self._service.start(prepared)
        events = await background.events(started.id, started.entry, -1)

        async def send() -> object:
            kind: object = None
            async for event in events:
                await self._send(event)
                kind = event["type"]
            return kind

        self._following = following = asyncio.create_task(send())
        try:
            if self._has_left:
                following.cancel()
            await asyncio.wait({following})
        finally:
            following.cancel()
            self._following = None
        return not following.cancelled() and following.result() == "response.failed"

    async def _refuse(self, error: ApiError) -> None:
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._send({"type": "error", "status": error.status, "error": error.payload})

    async def _send(self, event: JsonObject) -> None:
        """Send one event as one message."""
        await self._socket.send_text(encode_text(event))


def _turn(text: str) -> JsonObject:
    value = object_of(text)
    if value.get("type") != "response.create":
        raise bad_request("A turn begins with `response.create`.", param="type")
    return value
