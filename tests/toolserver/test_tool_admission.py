"""Access control and limits of the tool server over HTTP: requests as any process on the machine could send them."""

import asyncio
import logging

import httpx2
import pytest

from dragoman.backends.agent.toolserver import ToolServer, over_http, streamable
from dragoman.lm import JsonObject
from toolserver.harness import Bridge, PatientClock, soon, text, tool
from toolserver.raw_http import SESSION, Raw, event, first_event, initialize, message


def _tells_nothing(response: httpx2.Response) -> bool:
    return response.content == b"" and set(response.headers) <= {"content-length", "date", "www-authenticate"}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_revision_is_spoken(raw: Raw, version: str) -> None:
    opened = await raw.post(initialize(version))
    result = first_event(opened)["result"]
    assert isinstance(result, dict)
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": True}}


@pytest.mark.parametrize("credentials", ["", "Bearer", "Bearer wrong", "Basic dXNlcjpwYXNz"])
async def test_t15_without_its_token_nobody_is_admitted(raw: Raw, credentials: str) -> None:
    refused = await raw.post(initialize(), authorization=credentials)
    assert refused.status_code == 401
    assert _tells_nothing(refused)


async def test_t15_a_second_token_beside_the_right_one_is_refused(raw: Raw) -> None:
    headers = [*raw.headers.items(), ("Authorization", "Bearer other")]
    assert (await raw.http.post(raw.url, content=initialize(), headers=headers)).status_code == 401


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT"])
async def test_t15_a_path_that_is_nobodys_leads_nowhere(raw: Raw, method: str) -> None:
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


async def test_the_address_ends_as_fast_agent_wants_it(raw: Raw) -> None:
    assert raw.url.endswith("/mcp")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:80"])
async def test_t15_a_foreign_host_is_refused(raw: Raw, host: str) -> None:
    refused = await raw.post(initialize(), host=host)
    assert refused.status_code == 403
    assert _tells_nothing(refused)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
async def test_t15_a_foreign_origin_is_refused(raw: Raw, origin: str) -> None:
    refused = await raw.post(initialize(), origin=origin)
    assert refused.status_code == 403
    assert _tells_nothing(refused)


async def test_t15_our_own_origin_is_none_of_a_strangers(raw: Raw) -> None:
    assert (await raw.post(initialize(), origin=raw.url.rsplit("/", 2)[0])).status_code == 200


async def test_t15_a_session_is_worth_nothing_with_another_conversations_token(
    server: ToolServer, raw: Raw
) -> None:
    session = await raw.open_session()
    other = Raw(Bridge.of(server, tool("secret")), raw.http)
    with_its_token = await other.post(message("tools/list"), mcp_session_id=session)
    assert with_its_token.status_code == 404
    on_our_path = await raw.post(message("tools/list"), authorization=other.headers["authorization"])
    assert on_our_path.status_code == 401
    assert (await raw.post(message("tools/list"))).status_code == 200


async def test_t15_a_closed_endpoint_leads_nowhere(raw: Raw, bridge: Bridge) -> None:
    await raw.open_session()
    await bridge.endpoint.close()
    assert (await raw.post(message("tools/list"))).status_code == 404
    await bridge.endpoint.close()


async def test_a_body_of_more_than_the_limit_is_refused(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "MAX_MESSAGE_BYTES", 2_000)
    assert (await raw.post(initialize() + b" " * 2_000)).status_code == 413
    await raw.open_session()


async def test_for_one_more_session_than_the_limit_the_one_least_used_is_given_up(
    server: ToolServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable, "MAX_CONNECTIONS", 2)
    bridge = Bridge.of(server, tool("ask"))
    first, second, third = (Raw(bridge, http) for _ in range(3))
    await first.open_session()
    await second.open_session()
    assert (await first.post(message("tools/list"))).status_code == 200
    await third.open_session()
    assert (await second.post(message("tools/list"))).status_code == 404
    assert (await first.post(message("tools/list"))).status_code == 200


async def test_a_session_that_waits_is_not_given_up_for_another(
    server: ToolServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable, "MAX_CONNECTIONS", 1)
    bridge = Bridge.of(server, tool("ask"))
    waits, late = Raw(bridge, http), Raw(bridge, http)
    await waits.open_session()
    async with waits.calling("ask") as lines:
        call = await bridge.call()
        assert (await late.post(initialize())).status_code == 503
        bridge.answer(call, text("yes"))
        assert [event(line)["id"] async for line in lines if line.startswith("data: ")] == [7]
    assert (await waits.http.delete(waits.url, headers=waits.headers)).status_code == 200
    await late.open_session()


async def test_more_requests_at_once_than_the_limit_are_refused(
    bridge: Bridge, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "MAX_REQUESTS", 1)
    await raw.open_session()
    async with raw.calling("ask") as lines:
        call = await bridge.call()
        assert (await raw.post(message("tools/list"))).status_code == 503
        bridge.answer(call, text("yes"))
        assert [event(line)["id"] async for line in lines if line.startswith("data: ")] == [7]
    assert (await raw.post(message("tools/list"))).status_code == 200


async def test_t16_closing_the_stream_of_a_call_withdraws_it(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    async with raw.calling("ask"):
        call = await bridge.call()
    assert await soon(bridge.withdrawn.get()) == call.key
    bridge.answer(call, text("too late"))
    assert (await raw.post(message("tools/list"))).status_code == 200


async def test_t16_a_cancellation_of_a_finished_call_is_ignored(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    async with raw.calling("ask") as lines:
        bridge.answer(await bridge.call(), text("yes"))
        assert [event(line)["id"] async for line in lines if line.startswith("data: ")] == [7]
    cancelled = message("notifications/cancelled", {"requestId": 7}, number=None)
    assert (await raw.post(cancelled)).status_code == 202
    assert (await raw.post(message("tools/list"))).status_code == 200
    assert bridge.withdrawn.empty()


async def test_arguments_that_are_no_object_are_an_error_result(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    malformed: tuple[JsonObject, ...] = (
        {"name": "ask", "arguments": "{broken"},
        {"name": "ask", "arguments": [1]},
        {"arguments": {}},
    )
    for params in malformed:
        answered = await raw.post(message("tools/call", params))
        result = first_event(answered)["result"]
        assert isinstance(result, dict)
        assert result["isError"] is True
    assert bridge.calls.empty()


async def test_f16_half_of_a_surrogate_pair_in_arguments_is_replaced(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    body = message("tools/call", {"name": "ask", "arguments": {"half": "HALF", "whole": "WHOLE"}})
    body = body.replace(b"HALF", b"a\\ud83d").replace(b"WHOLE", b"\\ud83d\\ude00")
    asked = asyncio.ensure_future(raw.post(body))
    call = await bridge.call()
    assert call.arguments == {"half": "a\ufffd", "whole": "😀"}
    bridge.answer(call, text("ok"))
    assert (await soon(asked)).status_code == 200


async def test_broken_json_is_refused_and_the_session_lives(raw: Raw) -> None:
    await raw.open_session()
    for body in (b"{", b"[]", b"5", b'"\\ud83d', b"\xff"):
        assert (await raw.post(body)).status_code == 400
    assert (await raw.post(message("tools/list"))).status_code == 200


async def test_t12_a_stream_that_opens_after_the_change_hears_of_it(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    await raw.post(message("tools/list"))
    bridge.endpoint.set_tools((tool("another"),))
    async with raw.http.stream("GET", raw.url, headers=raw.headers) as listening:
        lines = listening.aiter_lines()
        heard = await soon(anext(line async for line in lines if line.startswith("data: ")))
        assert event(heard)["method"] == "notifications/tools/list_changed"


async def test_t12_a_stream_that_has_missed_nothing_hears_nothing(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    await raw.post(message("tools/list"))
    async with raw.http.stream("GET", raw.url, headers=raw.headers) as listening:
        lines = (line async for line in listening.aiter_lines() if line.startswith("data: "))
        bridge.endpoint.set_tools((tool("another"),))
        await soon(anext(lines))
        await bridge.endpoint.close()
        assert [line async for line in lines] == []


async def test_a_session_that_has_ended_is_forgotten(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    await raw.post(message("tools/list"))
    assert len(bridge.service._listeners) == 1
    assert (await raw.http.delete(raw.url, headers=raw.headers)).status_code == 200
    assert not bridge.service._listeners


async def test_an_agent_that_does_not_read_does_not_keep_us_from_closing(
    server: ToolServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "_CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(streamable, "_CLOSE_SECONDS", 0.05)
    tasks = asyncio.all_tasks()
    bridge = Bridge.of(server, *(tool(f"tool_{number}", "x" * 100_000) for number in range(200)))
    raw = Raw(bridge, http)
    await raw.open_session()
    assert server._listeners is not None
    connections = server._listeners.http._connections
    async with http.stream("POST", raw.url, content=message("tools/list"), headers=raw.headers):
        assert await soon(bridge.endpoint.wait_listed(60))
        await soon(bridge.endpoint.close())
        await soon(server.close())
        assert not len(connections)
    assert asyncio.all_tasks() == tasks


class _Watch(logging.Handler):
    """An event for a line in a log: there is no other sign of a session that is closed."""

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
    caplog.set_level(logging.INFO, "dragoman")
    watch = _Watch("is closed: it was not used")
    logging.getLogger("dragoman").addHandler(watch)
    try:
        bridge = Bridge.of(server, tool("ask"))
        waits, idles = Raw(bridge, http), Raw(bridge, http)
        await waits.open_session()
        async with waits.calling("ask") as lines:
            call = await bridge.call()
            await idles.open_session()
            await soon(watch.seen.wait())
            assert (await idles.post(message("tools/list"))).status_code == 404
            bridge.answer(call, text("after all"))
            (answer,) = [event(line) async for line in lines if line.startswith("data: ")]
        assert answer["id"] == 7
        del idles.headers[SESSION]
        await idles.open_session()
    finally:
        logging.getLogger("dragoman").removeHandler(watch)
        await server.close()
