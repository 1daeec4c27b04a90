"""The two servers, ready for whatever is sent to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

from dragoman.backends.agent.toolserver import PendingCall, ToolAnswer, ToolServer
from dragoman.clock import SystemClock
from dragoman.config import Serve
from dragoman.lm import TextPart, ToolDefinition
from http_server.kit import Held, scripted, site_of

__all__ = ["serving", "tool_serving"]

Ask: TypeAlias = Callable[[bytes], Coroutine[object, object, None]]

_DEADLINE = 10.0
_METHODS = ("POST", "GET", "DELETE", "OPTIONS", "PUT")
_SERVER_ERRORS = range(500, 600)
_HANDSHAKE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}'


@contextmanager
def serving() -> Iterator[Ask]:
    """The HTTP front end with a model that says one word. Whatever it is asked, it answers by rule."""
    for site in site_of(Held(m=scripted("Yes.")), serve=Serve(max_responses=4)):

        async def ask(data: bytes, app: Callable[..., Awaitable[None]] = site.app) -> None:
            head, _, body = data.partition(b"\n\n")
            first, *lines = head.split(b"\n")
            method, _, path = first.partition(b" ")
            headers = [
                (name.strip().lower(), value.strip())
                for name, _, value in (line.partition(b":") for line in lines)
            ]
            statuses: list[int] = []
            incoming = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> dict[str, object]:
                return incoming.pop() if incoming else {"type": "http.disconnect"}

            async def send(message: dict[str, object]) -> None:
                if message["type"] == "http.response.start":
                    assert isinstance(message["status"], int)
                    statuses.append(message["status"])

            text = path.decode("latin-1")
            scope = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": method.decode("latin-1") if method.decode("latin-1") in _METHODS else "POST",
                "path": text.partition("?")[0] or "/",
                "raw_path": path,
                "query_string": path.partition(b"?")[2],
                "root_path": "",
                "scheme": "http",
                "server": ("127.0.0.1", 8427),
                "client": ("127.0.0.1", 50_000),
                "headers": headers,
            }
            async with asyncio.timeout(_DEADLINE):
                await app(scope, receive, send)
            # None at all for a client that has gone.
            assert len(statuses) <= 1
            assert not any(status in _SERVER_ERRORS for status in statuses), statuses

        yield ask


@asynccontextmanager
async def tool_serving() -> AsyncIterator[Ask]:
    """The tool server over HTTP, with one tool that answers at once."""
    server = ToolServer(SystemClock())
    await server.start()
    try:

        def answer(call: PendingCall) -> None:
            endpoint.answer(call.key, ToolAnswer((TextPart("Done."),)))

        endpoint = server.endpoint(
            "conversation",
            name="dragoman",
            limit_seconds=None,
            on_call=answer,
            on_withdrawn=lambda _key: None,
            on_listed=lambda: None,
        )

        endpoint.set_tools((ToolDefinition("look", "Looks.", None),))
        url, headers = endpoint.http()
        authority, _, path = url.removeprefix("http://").partition("/")
        host, _, port = authority.partition(":")
        named = {
            "host": authority,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
            "connection": "close",
            **headers,
        }
        head = f"POST /{path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in named.items())

        async def post(data: bytes, session: bytes = b"") -> bytes:
            """The head of the answer, in or without a session."""
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(head.encode() + session + f"content-length: {len(data)}\r\n\r\n".encode() + data)
                async with asyncio.timeout(_DEADLINE):
                    answer = await reader.readuntil(b"\r\n\r\n")
            finally:
                writer.close()
            assert not answer.startswith(b"HTTP/1.1 5"), answer
            assert answer.startswith(b"HTTP/1.1 "), answer
            return answer

        opened = await post(_HANDSHAKE)
        (session,) = [line for line in opened.splitlines(keepends=True) if line.startswith(b"mcp-session-id")]

        async def post_both(data: bytes) -> None:
            await post(data)
            await post(data, session)

        yield post_both
    finally:
        await server.close()
