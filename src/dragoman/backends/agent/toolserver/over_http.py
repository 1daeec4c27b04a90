"""MCP over streamable HTTP: one listener on the loopback interface for every conversation.

Every other program on the machine can connect, and so can a web page whose name was made to resolve here. So each request
must name us as its host, come from no foreign origin, know the path of a conversation and carry its token; what does not
is answered with a status and nothing else. A conversation has its own session manager, so a session is known nowhere but
under the path and the token it was opened with.

The server runs in our event loop, without signal handlers, log of accesses, or a task that ticks.
"""

from __future__ import annotations

import asyncio
import hmac
import socket

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from dragoman.backends.agent.toolserver.service import SCOPE_KEY, Service
from dragoman.backends.agent.toolserver.wire import MAX_CONNECTIONS, MAX_MESSAGE_BYTES, Arrival, mended

__all__ = ["MAX_REQUESTS", "SESSION_IDLE_SECONDS", "HttpListener"]

_HOST = "127.0.0.1"
# A session without an open stream is given up after so long. A person who comes back the next morning should find it:
# not every agent initialises again. One that waits for an answer is never idle.
SESSION_IDLE_SECONDS = 24 * 3600.0
# Of one conversation at once: its calls, and the streams it listens on.
MAX_REQUESTS = 256
# Room for a thousand conversations with several connections each; whoever comes without a token counts too.
_MAX_CONNECTIONS_IN_ALL = 8_192
# Longer than any client keeps an idle connection, so that none is closed while the client begins to use it again.
_KEEP_ALIVE_SECONDS = 3600
# How long responses that are complete may take to leave us when an endpoint closes.
_CLOSE_SECONDS = 1.0
_SESSION_HEADER = b"mcp-session-id"
_OK = 200
_UNAUTHORIZED = 401


class HttpListener:
    def __init__(self, session_idle_seconds: float | None = None) -> None:
        self._session_idle_seconds = session_idle_seconds or SESSION_IDLE_SECONDS
        self._served: dict[str, _Served] = {}
        self._authority = b""
        self._uvicorn: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        return f"http://{self._authority.decode()}"

    async def start(self) -> None:
        listening = socket.create_server((_HOST, 0))
        self._authority = f"{_HOST}:{listening.getsockname()[1]}".encode()
        config = uvicorn.Config(
            self,
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            limit_concurrency=_MAX_CONNECTIONS_IN_ALL,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        try:
            await server.startup(sockets=[listening])
        except BaseException:
            listening.close()
            raise
        self._uvicorn = server

    def add(self, service: Service) -> None:
        self._served[service.endpoint.path] = _Served(service, self._session_idle_seconds)

    async def remove(self, service: Service) -> None:
        served = self._served.pop(service.endpoint.path, None)
        if served is not None:
            await served.close()

    async def close(self) -> None:
        """Stop listening, and close what is left open. The services are removed before."""
        server, self._uvicorn = self._uvicorn, None
        if server is None:
            return
        for listening in server.servers:
            listening.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        tasks = list(server.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(server.server_state.connections):
            # Somebody who does not read what we have still to say.
            connection.transport.abort()
        for listening in server.servers:
            await listening.wait_closed()
        _end_watch()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        admitted = self._admit(scope)
        if isinstance(admitted, int):
            await _refuse(send, admitted)
        else:
            await admitted.handle(scope, receive, send)

    def _admit(self, scope: Scope) -> _Served | int:
        """Who serves this request, or the status to refuse it with."""
        if _values(scope, b"host") != [self._authority]:
            return 403
        # Only browsers send an origin, and no page of ours exists.
        if any(origin != b"http://" + self._authority for origin in _values(scope, b"origin")):
            return 403
        served = self._served.get(scope["path"])
        if served is None:
            return 404
        credentials = _values(scope, b"authorization")
        expected = f"Bearer {served.service.endpoint.token}".encode()
        if len(credentials) != 1 or not hmac.compare_digest(credentials[0], expected):
            return _UNAUTHORIZED
        return 503 if len(served.requests) >= MAX_REQUESTS else served


class _Served:
    """One conversation over HTTP."""

    def __init__(self, service: Service, session_idle_seconds: float) -> None:
        self.service = service
        # Those under way, and their method.
        self.requests: dict[asyncio.Task[object], str] = {}
        self._manager = StreamableHTTPSessionManager(
            service.server,
            max_request_body_size=MAX_MESSAGE_BYTES,
            max_sessions=MAX_CONNECTIONS,
            session_idle_timeout=session_idle_seconds,
        )
        # The manager must be entered and left in the same task. It begins with the first request.
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._closing = asyncio.Event()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        task: asyncio.Task[object] | None = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is handled in a task")
        self.requests[task] = scope["method"]
        try:
            await self._handle(scope, receive, send)
        finally:
            del self.requests[task]

    async def close(self) -> None:
        # The calls have ended, and their responses are about to leave. A GET only listens; it ends with the manager.
        await _finish([request for request, method in self.requests.items() if method != "GET"])
        self._closing.set()
        if self._running is not None:
            await self._running
        left = list(self.requests)
        await _finish(left)
        for request in left:
            request.cancel()
        await _finish(left)

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._closing.wait()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        session = next(iter(_values(scope, _SESSION_HEADER)), None)
        arrival = scope[SCOPE_KEY] = Arrival(session)
        unread: list[Message] = []
        if method == "POST":
            body = await _body(receive)
            if body is None:
                await _refuse(send, 413)
                return
            unread.append({"type": "http.request", "body": mended(body), "more_body": False})

        async def received() -> Message:
            if unread:
                return unread.pop()
            message = await receive()
            if message["type"] == "http.disconnect" and not arrival.gone.done():
                # Older revisions do not take this for a withdrawal, because a client could come back for the response.
                # It cannot: we keep no events to resume from.
                arrival.gone.set_result(None)
            return message

        async def sent(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start" and message["status"] == _OK:
                if method == "GET":
                    self.service.remind(session)
                elif method == "DELETE":
                    self.service.forget(session)

        if self._running is None:
            self._running = asyncio.create_task(self._run())
        await self._ready.wait()
        await self._manager.handle_request(scope, received, sent)


async def _finish(requests: list[asyncio.Task[object]]) -> None:
    if requests:
        await asyncio.wait(requests, timeout=_CLOSE_SECONDS)


def _end_watch() -> None:
    """End the task in which the library's event streams look for a signal twice a second, for ever. It can start anew."""
    for task in asyncio.all_tasks():
        coroutine = task.get_coro()
        if getattr(coroutine, "__qualname__", "") == "_shutdown_watcher":
            task.cancel()


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


async def _body(receive: Receive) -> bytes | None:
    """The whole body of a request; None if it is larger than a message may be."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_MESSAGE_BYTES:
            return None
        if message["type"] != "http.request" or not message.get("more_body", False):
            return bytes(body)


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0")]
    if status == _UNAUTHORIZED:
        # "The server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110).
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
