"""Who may speak to the tool server over HTTP, and how much: requests as anybody on the machine could send them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from dragoman.backends.agent.toolserver import ToolServer, over_http
from dragoman.lm import JsonObject, json
from toolserver.harness import Bridge, PatientClock, soon, text, tool

_ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_SESSION = "mcp-session-id"


def _message(method: str, params: JsonObject | None = None, number: int | None = 1) -> bytes:
    message: JsonObject = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.encode(message if number is None else {**message, "id": number})


def _initialize(version: str = "2025-06-18") -> bytes:
    client = {"name": "raw", "version": "1"}
    return _message("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})


def _event(line: str) -> JsonObject:
    event = json.decode(line.removeprefix("data: "))
    assert isinstance(event, dict)
    return event


def _first_event(response: httpx2.Response) -> JsonObject:
    return _event(next(line for line in response.text.splitlines() if line.startswith("data: ")))


class _Raw:
    """An agent that writes its own HTTP."""

    def __init__(self, bridge: Bridge, http: httpx2.AsyncClient) -> None:
        self.url, headers = bridge.endpoint.http()
        self.headers = {**_ACCEPT, **{name.lower(): value for name, value in headers.items()}}
        self.http = http

    async def post(self, body: bytes, **headers: str) -> httpx2.Response:
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        return await soon(self.http.post(self.url, content=body, headers={**self.headers, **changed}))

    async def open_session(self) -> str:
        opened = await self.post(_initialize())
        assert opened.status_code == 200
        self.headers[_SESSION] = opened.headers[_SESSION]
        await self.post(_message("notifications/initialized", number=None))
        return self.headers[_SESSION]

    @asynccontextmanager
    async def calling(self, name: str) -> AsyncIterator[AsyncIterator[str]]:
        body = _message("tools/call", {"name": name, "arguments": {}}, number=7)
        async with self.http.stream("POST", self.url, content=body, headers=self.headers) as response:
            assert response.status_code == 200
            yield response.aiter_lines()


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=10) as client:
        yield client


@pytest.fixture
async def bridge(server: ToolServer) -> Bridge:
    return Bridge.of(server, tool("ask"))


@pytest.fixture
def raw(bridge: Bridge, http: httpx2.AsyncClient) -> _Raw:
    return _Raw(bridge, http)


def _tells_nothing(response: httpx2.Response) -> bool:
    return response.content == b"" and set(response.headers) <= {"content-length", "date", "www-authenticate"}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_revision_is_spoken(raw: _Raw, version: str) -> None:
    opened = await raw.post(_initialize(version))
    result = _first_event(opened)["result"]
    assert isinstance(result, dict)
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": True}}


@pytest.mark.parametrize("credentials", ["", "Bearer", "Bearer wrong", "Basic dXNlcjpwYXNz"])
async def test_t15_without_its_token_nobody_is_admitted(raw: _Raw, credentials: str) -> None:
    refused = await raw.post(_initialize(), authorization=credentials)
    assert refused.status_code == 401
    assert _tells_nothing(refused)


async def test_t15_a_second_token_beside_the_right_one_is_refused(raw: _Raw) -> None:
    headers = [*raw.headers.items(), ("Authorization", "Bearer other")]
    assert (await raw.http.post(raw.url, content=_initialize(), headers=headers)).status_code == 401


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT"])
async def test_t15_a_path_that_is_nobodys_leads_nowhere(raw: _Raw, method: str) -> None:
    for url in (
        f"{raw.url}x",
        f"{raw.url}/",
        raw.url.rpartition("/")[0] + "/sse",
        raw.url.rpartition("/")[0],
        raw.url.rsplit("/", 2)[0] + "/mcp",
    ):
        refused = await raw.http.request(method, url, headers=raw.headers)
        assert refused.status_code == 404
        assert _tells_nothing(refused)


async def test_the_address_ends_as_fast_agent_wants_it(raw: _Raw) -> None:
    assert raw.url.endswith("/mcp")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:80"])
async def test_t15_a_foreign_host_is_refused(raw: _Raw, host: str) -> None:
    refused = await raw.post(_initialize(), host=host)
    assert refused.status_code == 403
    assert _tells_nothing(refused)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
async def test_t15_a_foreign_origin_is_refused(raw: _Raw, origin: str) -> None:
    refused = await raw.post(_initialize(), origin=origin)
    assert refused.status_code == 403
    assert _tells_nothing(refused)


async def test_t15_our_own_origin_is_none_of_a_strangers(raw: _Raw) -> None:
    assert (await raw.post(_initialize(), origin=raw.url.rsplit("/", 2)[0])).status_code == 200


async def test_t15_a_session_is_worth_nothing_with_another_conversations_token(
    server: ToolServer, raw: _Raw
) -> None:
    session = await raw.open_session()
    other = _Raw(Bridge.of(server, tool("secret")), raw.http)
    with_its_token = await other.post(_message("tools/list"), mcp_session_id=session)
    assert with_its_token.status_code == 404
    on_our_path = await raw.post(_message("tools/list"), authorization=other.headers["authorization"])
    assert on_our_path.status_code == 401
    assert (await raw.post(_message("tools/list"))).status_code == 200


async def test_t15_a_closed_endpoint_leads_nowhere(raw: _Raw, bridge: Bridge) -> None:
    await raw.open_session()
    await bridge.endpoint.close()
    assert (await raw.post(_message("tools/list"))).status_code == 404
    await bridge.endpoint.close()


async def test_a_body_of_more_than_the_limit_is_refused(raw: _Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "MAX_MESSAGE_BYTES", 2_000)
    assert (await raw.post(_initialize() + b" " * 2_000)).status_code == 413
    await raw.open_session()


async def test_more_sessions_than_the_limit_are_refused(
    server: ToolServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "MAX_CONNECTIONS", 2)
    bridge = Bridge.of(server, tool("ask"))
    first, second, third = (_Raw(bridge, http) for _ in range(3))
    await first.open_session()
    await second.open_session()
    assert (await third.post(_initialize())).status_code == 503
    assert (await first.post(_message("tools/list"))).status_code == 200
    await http.delete(second.url, headers=second.headers)
    await third.open_session()


async def test_more_requests_at_once_than_the_limit_are_refused(
    bridge: Bridge, raw: _Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "MAX_REQUESTS", 1)
    await raw.open_session()
    async with raw.calling("ask") as lines:
        call = await bridge.call()
        assert (await raw.post(_message("tools/list"))).status_code == 503
        bridge.answer(call, text("yes"))
        assert [_event(line)["id"] async for line in lines if line.startswith("data: ")] == [7]
    assert (await raw.post(_message("tools/list"))).status_code == 200


async def test_t16_closing_the_stream_of_a_call_withdraws_it(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    async with raw.calling("ask"):
        call = await bridge.call()
    assert await soon(bridge.withdrawn.get()) == call.key
    bridge.answer(call, text("too late"))
    assert (await raw.post(_message("tools/list"))).status_code == 200


async def test_t16_a_cancellation_of_a_finished_call_is_ignored(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    async with raw.calling("ask") as lines:
        bridge.answer(await bridge.call(), text("yes"))
        assert [_event(line)["id"] async for line in lines if line.startswith("data: ")] == [7]
    cancelled = _message("notifications/cancelled", {"requestId": 7}, number=None)
    assert (await raw.post(cancelled)).status_code == 202
    assert (await raw.post(_message("tools/list"))).status_code == 200
    assert bridge.withdrawn.empty()


async def test_arguments_that_are_no_object_are_an_error_result(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    malformed: tuple[JsonObject, ...] = (
        {"name": "ask", "arguments": "{broken"},
        {"name": "ask", "arguments": [1]},
        {"arguments": {}},
    )
    for params in malformed:
        answered = await raw.post(_message("tools/call", params))
        result = _first_event(answered)["result"]
        assert isinstance(result, dict)
        assert result["isError"] is True
    assert bridge.calls.empty()


async def test_f16_half_of_a_surrogate_pair_in_arguments_is_replaced(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    body = _message("tools/call", {"name": "ask", "arguments": {"half": "HALF", "whole": "WHOLE"}})
    body = body.replace(b"HALF", b"a\\ud83d").replace(b"WHOLE", b"\\ud83d\\ude00")
    asked = asyncio.ensure_future(raw.post(body))
    call = await bridge.call()
    assert call.arguments == {"half": "a\ufffd", "whole": "😀"}
    bridge.answer(call, text("ok"))
    assert (await soon(asked)).status_code == 200


async def test_broken_json_is_refused_and_the_session_lives(raw: _Raw) -> None:
    await raw.open_session()
    for body in (b"{", b"[]", b"5", b'"\\ud83d', b"\xff"):
        assert (await raw.post(body)).status_code == 400
    assert (await raw.post(_message("tools/list"))).status_code == 200


async def test_t12_a_stream_that_opens_after_the_change_hears_of_it(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    await raw.post(_message("tools/list"))
    bridge.endpoint.set_tools((tool("another"),))
    async with raw.http.stream("GET", raw.url, headers=raw.headers) as listening:
        lines = listening.aiter_lines()
        heard = await soon(anext(line async for line in lines if line.startswith("data: ")))
        assert _event(heard)["method"] == "notifications/tools/list_changed"


async def test_t12_a_stream_that_has_missed_nothing_hears_nothing(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    await raw.post(_message("tools/list"))
    async with raw.http.stream("GET", raw.url, headers=raw.headers) as listening:
        lines = (line async for line in listening.aiter_lines() if line.startswith("data: "))
        bridge.endpoint.set_tools((tool("another"),))
        await soon(anext(lines))
        await bridge.endpoint.close()
        assert [line async for line in lines] == []


async def test_a_session_that_has_ended_is_forgotten(bridge: Bridge, raw: _Raw) -> None:
    await raw.open_session()
    await raw.post(_message("tools/list"))
    assert len(bridge.service._listeners) == 1
    assert (await raw.http.delete(raw.url, headers=raw.headers)).status_code == 200
    assert not bridge.service._listeners


async def test_an_agent_that_does_not_read_does_not_keep_us_from_closing(
    server: ToolServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "_CLOSE_SECONDS", 0.05)
    tasks = asyncio.all_tasks()
    bridge = Bridge.of(server, *(tool(f"tool_{number}", "x" * 100_000) for number in range(200)))
    raw = _Raw(bridge, http)
    await raw.open_session()
    assert server._listeners is not None
    uvicorn = server._listeners.http._uvicorn
    assert uvicorn is not None
    async with http.stream("POST", raw.url, content=_message("tools/list"), headers=raw.headers):
        assert await soon(bridge.endpoint.wait_listed(60))
        await soon(bridge.endpoint.close())
        # The loop tells of what has ended in its next round.
        await asyncio.sleep(0)
        assert not uvicorn.server_state.tasks
        await soon(server.close())
        await asyncio.sleep(0)
        assert not uvicorn.server_state.connections
    assert asyncio.all_tasks() == tasks


class _Watch(logging.Handler):
    """An event for a line in a log: there is no other sign of a session that is given up."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.seen = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.words in record.getMessage():
            self.seen.set()


async def test_t17_an_idle_session_is_given_up_but_not_one_that_waits(
    clock: PatientClock, http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    server = ToolServer(clock, session_idle_seconds=0.3)
    await server.start()
    caplog.set_level(logging.INFO, "mcp")
    watch = _Watch("idle timeout")
    logging.getLogger("mcp").addHandler(watch)
    try:
        bridge = Bridge.of(server, tool("ask"))
        waits, idles = _Raw(bridge, http), _Raw(bridge, http)
        await waits.open_session()
        async with waits.calling("ask") as lines:
            call = await bridge.call()
            await idles.open_session()
            await soon(watch.seen.wait())
            assert (await idles.post(_message("tools/list"))).status_code == 404
            bridge.answer(call, text("after all"))
            (answer,) = [_event(line) async for line in lines if line.startswith("data: ")]
        assert answer["id"] == 7
        del idles.headers[_SESSION]
        await idles.open_session()
    finally:
        logging.getLogger("mcp").removeHandler(watch)
        await server.close()
