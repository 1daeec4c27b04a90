"""The small MCP client against servers that are the library's own, and against servers that are odd."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest
import uvicorn
from devtools.mcp_over_http import connect
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from demo_agent.harness import soon
from dragoman.acp.messages import Header, HttpServer, StdioServer
from dragoman.demo.mcp import McpError, ToolClient
from dragoman.demo.mcp.content import tool_result
from dragoman.jsonrpc import Notification
from dragoman.lm import DataPart, TextPart
from dragoman.lm.parts import ToolResult

_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}


def _silent(_line: str) -> None:
    pass


def _nothing() -> None:
    pass


@asynccontextmanager
async def _serving(app: ASGIApp) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, interface="asgi3", log_config=None, lifespan="off", access_log=False)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        for connection in list(server.server_state.connections):
            connection.shutdown()
        for task in list(server.server_state.tasks):
            task.cancel()
        await server.shutdown(sockets=[listening])


@asynccontextmanager
async def _connected(app: ASGIApp) -> AsyncIterator[ToolClient]:
    async with _serving(app) as url:
        address = HttpServer("odd", url, (Header("x-key", "secret"),))
        client = await soon(connect(address, Path("/"), _nothing))
        try:
            yield client
        finally:
            await soon(client.close())


# The library's own server, which answers with JSON.


async def _list(_context: ServerRequestContext[Any, Any], params: object) -> mcp_types.ListToolsResult:
    """Three pages of one tool each."""
    cursor = getattr(params, "cursor", None)
    number = int(cursor or 1)
    tool = mcp_types.Tool(
        name=f"tool_{number}",
        input_schema={"type": "object"},
        annotations=mcp_types.ToolAnnotations(read_only_hint=number == 1),
    )
    return mcp_types.ListToolsResult(tools=[tool], next_cursor=str(number + 1) if number < 3 else None)


async def _call(
    _context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult:
    if params.name == "fail":
        raise ValueError("it was meant to fail")
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=f"{params.name}: {params.arguments}")]
    )


@pytest.mark.parametrize("json_response", [True, False])
async def test_the_librarys_own_server(json_response: bool) -> None:  # noqa: FBT001 - a parameter of the test
    server: Server[Any] = Server("official", on_list_tools=_list, on_call_tool=_call)
    manager = StreamableHTTPSessionManager(server, json_response=json_response)
    async with manager.run(), _connected(manager.handle_request) as client:
        tools = await soon(client.tools())
        assert [(tool.name, tool.is_read_only) for tool in tools] == [
            ("tool_1", True),
            ("tool_2", False),
            ("tool_3", False),
        ]
        results = await soon(
            asyncio.gather(*(client.call("echo", {"number": number}, _silent) for number in range(3)))
        )
        assert [_text(result) for result in results] == [f"echo: {{'number': {n}}}" for n in range(3)]
        failed = await soon(client.call("fail", {}, _silent))
        assert failed.is_error


def _text(result: ToolResult) -> str:
    return "".join(part.value for part in result.content if isinstance(part, TextPart))


# Odd servers over HTTP.

_Handle = Callable[[Request, dict[str, Any]], Awaitable[Response] | Response]


class _Odd:
    """Shakes hands as it should, and hands everything else to a function."""

    def __init__(self, handle: _Handle, hello: object = _HELLO) -> None:
        self._handle = handle
        self._hello = hello
        self.handshakes = 0
        # What the client answers to requests of the server's.
        self.replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await (await self._answer(request))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        assert request.headers["x-key"] == "secret"
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        if "method" not in message:
            self.replies.put_nowait(message)
        if message.get("method") == "initialize":
            self.handshakes += 1
            return _reply(message, self._hello, {"mcp-session-id": f"session-{self.handshakes}"})
        assert request.headers["mcp-session-id"] == f"session-{self.handshakes}"
        assert request.headers["mcp-protocol-version"] == "2025-06-18"
        if "id" not in message or "method" not in message:
            return Response(status_code=202)
        answer = self._handle(request, message)
        return answer if isinstance(answer, Response) else await answer


def _reply(message: dict[str, Any], result: object, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)


def _events(*messages: object) -> Response:
    async def stream() -> AsyncIterator[str]:
        yield ": a comment\n\nid: 1\ndata:\n\n"
        for message in messages:
            yield f"event: message\ndata: {json.dumps(message)}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


async def test_progress_pings_and_other_things_on_the_way_to_an_answer() -> None:
    async def handle(_request: Request, message: dict[str, Any]) -> Response:
        token = message["params"]["_meta"]["progressToken"]
        return _events(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1},
            },
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 2, "total": 4},
            },
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 3, "message": "nearly"},
            },
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "other"}},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": []},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            {"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {}},
            {"jsonrpc": "2.0", "id": "nobody", "result": {}},
            {
                "jsonrpc": "2.0",
                "id": message["id"],
                "result": {"content": [{"type": "text", "text": "done"}]},
            },
        )

    server = _Odd(handle)
    progress: list[str] = []
    async with _connected(server) as client:
        assert _text(await soon(client.call("tool", {}, progress.append))) == "done"
        replies = {reply["id"]: reply for reply in [await soon(server.replies.get()) for _ in range(2)]}
    assert progress == ["1", "2 of 4", "nearly"]
    assert replies["p"]["result"] == {}
    assert replies["s"]["error"]["code"] == -32601


async def test_a_server_that_has_forgotten_us_is_greeted_again() -> None:
    forgotten = [True]

    def handle(_request: Request, message: dict[str, Any]) -> Response:
        if forgotten.pop() if forgotten else False:
            return Response(status_code=404)
        return _reply(message, {"tools": [{"name": "one", "inputSchema": {"type": "object"}}]})

    server = _Odd(handle)
    async with _connected(server) as client:
        assert [tool.name for tool in await soon(client.tools())] == ["one"]
    assert server.handshakes == 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _message: Response(status_code=500), "status 500"),
        (lambda _message: Response("no JSON", media_type="application/json"), "no message"),
        (lambda message: _reply(message, {"tools": 3, "content": 3}), "cannot be read"),
        (lambda _message: _events(), "before it was complete"),
        (
            lambda message: JSONResponse(
                {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -1, "message": "not today"}}
            ),
            "not today",
        ),
    ],
)
async def test_answers_that_are_none(answer: Callable[[dict[str, Any]], Response], expected: str) -> None:
    async with _connected(_Odd(lambda _request, message: answer(message))) as client:
        with pytest.raises(McpError, match=expected):
            await soon(client.tools())
        result = await soon(client.call("tool", {}, _silent))
        assert result.is_error


async def test_a_version_that_nobody_knows() -> None:
    server = _Odd(lambda _request, message: _reply(message, {}), {**_HELLO, "protocolVersion": "1999-01-01"})
    with pytest.raises(McpError, match="1999-01-01"):
        async with _connected(server):
            pass


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(_request: Request, _message: dict[str, Any]) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with _connected(_Odd(handle)) as client:
        monkeypatch.setattr("dragoman.demo.mcp.client._PATIENCE_SECONDS", 0.05)
        with pytest.raises(McpError, match="did not answer within"):
            await soon(client.tools())


async def test_a_message_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devtools.mcp_over_http.MAX_MESSAGE_BYTES", 1000)
    answers = [
        lambda message: _reply(message, {"tools": [], "padding": "x" * 2000}),
        lambda message: _events({"jsonrpc": "2.0", "id": message["id"], "result": {"padding": "x" * 2000}}),
    ]
    async with _connected(_Odd(lambda _request, message: answers.pop()(message))) as client:
        for _ in range(2):
            with pytest.raises(McpError):
                await soon(client.tools())


async def test_an_address_that_is_none() -> None:
    with pytest.raises(McpError, match="cannot be reached"):
        await soon(connect(HttpServer("odd", "https://127.0.0.1:9/", ()), Path("/"), _nothing))


def test_what_it_does_not_know_of_a_result_is_shown_as_it_came() -> None:
    returned = {
        "content": [
            {"type": "resource_link", "uri": "file:///x"},
            {"type": "image", "data": "%%%", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:", "blob": "AAE="}},
            {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"},
        ]
    }
    result = tool_result(json.dumps(returned).encode())
    assert [type(part) for part in result.content] == [TextPart, TextPart, DataPart, DataPart]
    assert "file:///x" in _text(result)
    assert "[image/png that cannot be read]" in _text(result)
    assert result.content[2] == DataPart("application/octet-stream", b"\0\1")
    structured = tool_result(b'{"structuredContent": {"a": 1}}')
    assert structured.content == (DataPart.json({"a": 1}),)


def test_lists_that_change_are_told() -> None:
    changes: list[None] = []
    client = ToolClient("server", lambda: changes.append(None))
    client.on_notification(Notification("notifications/tools/list_changed"))
    assert client.is_stale
    assert changes == [None]


# Odd servers over standard streams.

_ODD_PROCESS = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        send(id=message["id"], result={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}})
    elif method == "tools/list":
        send(id="p", method="ping")
        send(id="s", method="roots/list")
        replies = [json.loads(sys.stdin.readline()) for _ in range(2)]
        text = json.dumps([reply.get("error", {}).get("code", 0) for reply in replies])
        send(id=message["id"], result={"tools": [{"name": "x", "description": text}]})
    elif method == "tools/call":
        print("the last words", file=sys.stderr)
        if message["params"]["name"] == "refuse":
            send(id=message["id"], error={"code": -1, "message": "not today"})
        else:
            sys.exit(3)
"""


async def test_an_odd_process() -> None:
    address = StdioServer("odd", sys.executable, ("-c", _ODD_PROCESS), ())
    client = await soon(connect(address, Path("/"), _nothing))
    try:
        [tool] = await soon(client.tools())
        assert tool.description == "[0, -32601]"
        refused = await soon(client.call("refuse", {}, _silent))
        assert (refused.is_error, "not today" in _text(refused)) == (True, True)
        crashed = await soon(client.call("crash", {}, _silent))
        assert "is gone" in _text(crashed)
        after = await soon(client.call("crash", {}, _silent))
        assert "is gone" in _text(after)
    finally:
        await soon(client.close())


async def test_a_process_that_is_no_server() -> None:
    address = StdioServer("odd", sys.executable, ("-c", "print('hello')"), ())
    with pytest.raises(McpError, match="is gone"):
        await soon(connect(address, Path("/"), _nothing))
