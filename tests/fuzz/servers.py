"""Checks of the two servers, ready for whatever is sent to them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

from dragoman.backends.agent.toolserver import Endpoint, PendingCall, ToolServer
from dragoman.clock import SystemClock
from dragoman.config import Serve
from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.compaction import compacted, expanded
from dragoman.frontends.http.errors import ApiError
from dragoman.lm import TextPart, ToolDefinition
from dragoman.lm.parts import ToolResult
from fuzz.check import Check, json_of, pieces
from http_server.kit import Held, Json, scripted, site_of

__all__ = [
    "compactions",
    "http_requests",
    "tool_server_bodies",
    "tool_server_requests",
    "websocket_turns",
]

_Ask: TypeAlias = Callable[[bytes], Coroutine[object, object, None]]
_App: TypeAlias = Callable[..., Awaitable[None]]

_DEADLINE = 10.0
_METHODS = ("POST", "GET", "DELETE", "OPTIONS", "PUT")
_MOST_UNPACKED = 1_000_000
_SERVER_ERRORS = range(500, 600)


# --- The HTTP front end. ---------------------------------------------------------------------------------------------


@contextmanager
def http_requests() -> Iterator[Check]:
    """A method and a path, headers, an empty line, a body: as the server's own parser hands them over."""
    with asyncio.Runner() as runner, _app() as app:
        yield lambda data: runner.run(_ask(app, data))


@contextmanager
def _app() -> Iterator[_App]:
    """With a model that says one word."""
    for site in site_of(Held(m=scripted("Yes.")), serve=Serve(max_responses=4)):
        yield site.app


async def _ask(app: _App, data: bytes) -> None:
    """Whatever it is asked, it answers by rule: once, and in JSON that can be read."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, path = first.partition(b" ")
    headers = [
        (name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)
    ]
    starts: list[Json] = []
    written: list[bytes] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Json:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop()

    async def send(message: Json) -> None:
        if message["type"] == "http.response.start":
            starts.append(message)
        else:
            written.append(message.get("body", b""))

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
    [start] = starts
    assert start["status"] not in _SERVER_ERRORS, (start, written)
    kind = dict(start["headers"]).get(b"content-type", b"")
    answer = b"".join(written)
    if kind.startswith(b"application/json"):
        json.loads(answer)
    elif kind.startswith(b"text/event-stream"):
        assert answer.endswith(b"data: [DONE]\n\n"), answer[-200:]


_LAST = {"response.completed", "response.incomplete", "response.failed", "error"}
_TURN = '{"type":"response.create","model":"m","input":"Hello.","store":false}'


@contextmanager
def websocket_turns() -> Iterator[Check]:
    """A turn on each line. Each is told to its end, one after the other; and a good one behind them is answered."""
    with asyncio.Runner() as runner, _app() as app:
        yield lambda data: runner.run(_converse(app, data))


async def _converse(app: _App, data: bytes) -> None:
    turns = [*data.decode("utf-8", "replace").split("\n")[:6], _TURN]
    waiting: list[Json] = [{"type": "websocket.connect"}]
    waiting += [{"type": "websocket.receive", "text": turn} for turn in turns]
    events: list[Json] = []
    over = asyncio.Event()

    async def receive() -> Json:
        if not waiting:
            await over.wait()
            return {"type": "websocket.disconnect", "code": 1000}
        return waiting.pop(0)

    async def send(message: Json) -> None:
        if message["type"] == "websocket.send":
            events.append(json.loads(message["text"]))
            if sum(event["type"] in _LAST for event in events) == len(turns):
                over.set()

    scope = {
        "type": "websocket",
        "path": "/v1/responses",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "extensions": {},
    }
    async with asyncio.timeout(_DEADLINE):
        await app(scope, receive, send)
    assert sum(event["type"] in _LAST for event in events) == len(turns)
    assert events[-1]["type"] == "response.completed", events[-1]
    assert not any(event.get("status") in _SERVER_ERRORS for event in events), events


def compactions(data: bytes) -> None:
    """A history in one item: what was packed comes out, and nothing else can be unpacked."""
    try:
        expanded(data.decode("utf-8", "replace"), "input", Budget(_MOST_UNPACKED))
    except ApiError as error:
        str(error)
    items = json_of(data)
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        packed = compacted(items, Budget(_MOST_UNPACKED))
        if not any(item.get("type") == "compaction" for item in items):
            assert expanded(packed, "input", Budget(_MOST_UNPACKED)) == items


# --- The tool server. ------------------------------------------------------------------------------------------------

_HANDSHAKE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}'
_STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ", re.MULTILINE)


@contextmanager
def tool_server_bodies() -> Iterator[Check]:
    """Bodies from one who has the token: the worst that an agent can send."""
    with _running(_posting) as check:
        yield check


@contextmanager
def tool_server_requests() -> Iterator[Check]:
    """Whatever comes over a connection. AUTHORITY, PATH and TOKEN stand for what an agent is given."""
    with _running(_connecting) as check:
        yield check


@contextmanager
def _running(serving: Callable[[], Any]) -> Iterator[Check]:
    with asyncio.Runner() as runner:
        open_ = serving()
        ask = runner.run(open_.__aenter__())
        try:
            yield lambda data: runner.run(ask(data))
        finally:
            runner.run(open_.__aexit__(None, None, None))


@asynccontextmanager
async def _tools() -> AsyncIterator[Endpoint]:
    """One tool that answers at once."""
    server = ToolServer(SystemClock())
    await server.start()
    try:

        def answer(call: PendingCall) -> None:
            endpoint.answer(call.key, ToolResult((TextPart("Done."),)))

        endpoint = server.endpoint(name="dragoman", on_call=answer, on_withdrawn=lambda _key: None)
        endpoint.set_tools((ToolDefinition("look", "Looks.", None),))
        yield endpoint
    finally:
        await server.close()


@asynccontextmanager
async def _posting() -> AsyncIterator[_Ask]:
    async with _tools() as endpoint:
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


@asynccontextmanager
async def _connecting() -> AsyncIterator[_Ask]:
    async with _tools() as endpoint:
        url, headers = endpoint.http()
        authority, _, path = url.removeprefix("http://").partition("/")
        host, _, port = authority.partition(":")
        token = headers["Authorization"].removeprefix("Bearer ").encode()

        async def talked(cut: list[bytes]) -> list[int]:
            """The statuses of what is answered before a last request, which no server takes for another's body."""
            reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
            try:
                for piece in cut:
                    writer.write(piece)
                    await asyncio.sleep(0)
                writer.write_eof()
                async with asyncio.timeout(_DEADLINE):
                    answer = await reader.read()
            except OSError:
                # Cut off in the middle of what nobody wants to read.
                return []
            finally:
                writer.close()
            return [int(status) for status in _STATUS.findall(answer) if status != b"100"]

        async def ask(data: bytes) -> None:
            data = data.replace(b"AUTHORITY", authority.encode()).replace(b"PATH", path.encode())
            data = data.replace(b"TOKEN", token)
            statuses = await talked([data])
            assert 500 not in statuses, statuses
            if token not in data or authority.encode() not in data:
                assert not [status for status in statuses if 200 <= status < 300], statuses
            again = await talked(list(pieces(data)) if len(data) < 500 else [data])
            # An answer may be lost to a client that hangs up at once, but is never another.
            shorter = min(len(statuses), len(again))
            assert statuses[:shorter] == again[:shorter], (statuses, again)

        yield ask
