"""MCP over HTTP: one listener on the loopback interface for every conversation.

Every other program on the machine can connect, and so can a web page whose name was made to resolve here. So each request
must name us as its host, come from no foreign origin, know the path of a conversation and carry its token. Any other
request gets an error status without a body. Sessions belong to one conversation, so a session is only found under the
path and with the token it was opened with.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import time

from dragoman.backends.agent.toolserver.exchange import Connection, Exchange
from dragoman.backends.agent.toolserver.service import ToolService
from dragoman.backends.agent.toolserver.streamable import StreamableHttp
from dragoman.backends.agent.toolserver.wire import MAX_MESSAGE_BYTES, WaitableSet

__all__ = ["MAX_REQUESTS", "SESSION_IDLE_SECONDS", "HttpListener"]

_HOST = "127.0.0.1"
# A session without an open stream is closed after so long. A person who comes back the next morning should find it:
# not every agent initialises again. One that waits for an answer is never idle.
SESSION_IDLE_SECONDS = 24 * 3600.0
# Of one conversation at once: its calls, and the streams it listens on.
MAX_REQUESTS = 256
# Room for a thousand conversations with several connections each; connections without a token count too.
_MAX_CONNECTIONS_IN_ALL = 8_192
# Longer than any client keeps an idle connection, so that none is closed while the client begins to use it again.
_KEEP_ALIVE_SECONDS = 3600.0
# A connection without a valid token by then is closed.
_STRANGER_SECONDS = 60.0
# Between two signs of life on a stream, and after which an answer in JSON is not soon enough.
_PING_SECONDS = 15.0
# How long the send buffers may take to drain when the listener closes.
_CLOSE_SECONDS = 1.0
_BACKLOG = 2_048


class HttpListener:
    def __init__(self, session_idle_seconds: float | None = None) -> None:
        self._session_idle_seconds = session_idle_seconds or SESSION_IDLE_SECONDS
        self._served: dict[str, StreamableHttp] = {}
        self._authority = b""
        self._listening: asyncio.Server | None = None
        self._connections: WaitableSet[Connection] = WaitableSet()
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def url(self) -> str:
        return f"http://{self._authority.decode()}"

    async def start(self) -> None:
        listening = socket.create_server((_HOST, 0), backlog=_BACKLOG)
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                lambda: Connection(self), sock=listening, backlog=_BACKLOG
            )
        except BaseException:
            listening.close()
            raise
        self._authority = f"{_HOST}:{listening.getsockname()[1]}".encode()

    def add(self, service: ToolService) -> None:
        self._served[service.endpoint.path] = StreamableHttp(service, self._session_idle_seconds)

    async def remove(self, service: ToolService) -> None:
        served = self._served.pop(service.endpoint.path, None)
        if served is not None:
            await served.close()

    async def close(self) -> None:
        """Stop listening, and close what is left open. The services are removed before."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        listening.close()
        for connection in self._connections:
            connection.close()
        await self._connections.until_empty(_CLOSE_SECONDS)
        for connection in self._connections:
            # The client does not read the rest.
            connection.abort()
        await self._connections.until_empty(_CLOSE_SECONDS)
        await listening.wait_closed()
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    # For the connections.

    @property
    def max_body_bytes(self) -> int:
        return MAX_MESSAGE_BYTES

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(_PING_SECONDS, self._tick)

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def admit(self, exchange: Exchange) -> int | None:
        if exchange.values(b"host") != [self._authority]:
            return 403
        # Only browsers send an origin, and no page of ours exists.
        if any(origin != b"http://" + self._authority for origin in exchange.values(b"origin")):
            return 403
        served = self._served.get(exchange.path)
        if served is None:
            return 404
        credentials = exchange.values(b"authorization")
        expected = f"Bearer {served.service.endpoint.token}".encode()
        if len(credentials) != 1 or not hmac.compare_digest(credentials[0], expected):
            return 401
        is_full = len(served.replies) >= MAX_REQUESTS or len(self._connections) > _MAX_CONNECTIONS_IN_ALL
        return 503 if is_full else None

    def serve(self, exchange: Exchange, body: bytes) -> None:
        served = self._served.get(exchange.path)
        if served is None:
            # Its endpoint was closed while the body came in.
            exchange.respond(404, [])
            return
        served.serve(exchange, body)

    def _tick(self) -> None:
        """Keep streams alive, and close unused connections. It runs while there are connections."""
        self._ticking = None
        for served in self._served.values():
            for reply in served.replies:
                reply.ping()
        now = time.monotonic()
        for connection in self._connections:
            patience = _KEEP_ALIVE_SECONDS if connection.is_known else _STRANGER_SECONDS
            if connection.is_idle and now - connection.since > patience:
                connection.abort()
        if self._connections:
            self._ticking = asyncio.get_running_loop().call_later(_PING_SECONDS, self._tick)
