"""MCP over HTTP as its revisions have it, where the official library's client does not go."""

import asyncio
import base64
import socket
from unittest.mock import ANY

import httpx2
import pytest

from dragoman.backends.agent.toolserver import ToolServer, over_http
from dragoman.backends.agent.toolserver.session import HANDSHAKE_VERSIONS, STATELESS_VERSION
from dragoman.backends.agent.toolserver.streamable import StreamableHttp
from dragoman.lm import JsonObject, json
from toolserver.harness import LINKS, Bridge, PatientClock, connected, soon, text, texts, tool
from toolserver.raw_http import SESSION, Raw, event, first_event, initialize, message, read

_JSON_ALONE = "application/json"


def _batch(*messages: bytes) -> bytes:
    return b"[" + b",".join(messages) + b"]"


def _code(response: httpx2.Response) -> object:
    error = read(response.content)["error"]
    assert isinstance(error, dict)
    return error["code"]


def _served(bridge: Bridge) -> StreamableHttp:
    listeners = bridge.server._listeners
    assert listeners is not None
    return listeners.http._served[bridge.endpoint.path]


# What HTTP has a status for.


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD"])
async def test_a_method_that_there_is_not_is_refused_with_those_there_are(raw: Raw, method: str) -> None:
    await raw.open_session()
    refused = await raw.ask(method)
    assert refused.status_code == 405
    assert refused.headers["allow"] == "GET, POST, DELETE"
    assert (await raw.post(message("tools/list"))).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_without_sessions_there_is_nothing_but_post(raw: Raw, method: str) -> None:
    refused = await raw.ask(method, mcp_protocol_version=STATELESS_VERSION)
    assert refused.status_code == 405
    assert refused.headers["allow"] == "POST"


@pytest.mark.parametrize("accept", ["", "text/html", "image/*", "application/xml;q=1"])
async def test_who_takes_neither_json_nor_events_is_told_so(raw: Raw, accept: str) -> None:
    # The client would say that it takes everything.
    refused = await raw.ask("POST", initialize(), accept=accept or "text/plain")
    assert refused.status_code == 406


async def test_a_stream_is_for_who_takes_events(raw: Raw) -> None:
    await raw.open_session()
    assert (await raw.ask("GET", accept=_JSON_ALONE)).status_code == 406


@pytest.mark.parametrize("accept", [_JSON_ALONE, "text/event-stream"])
async def test_without_sessions_both_must_be_taken(raw: Raw, accept: str) -> None:
    assert (await raw.post_stateless("server/discover", {}, accept=accept)).status_code == 406


@pytest.mark.parametrize("kind", ["text/plain", "application/jsonl", "multipart/form-data; boundary=x"])
async def test_a_body_of_another_type_is_refused(raw: Raw, kind: str) -> None:
    assert (await raw.ask("POST", initialize(), content_type=kind)).status_code == 415
    assert (await raw.post_stateless("server/discover", {}, content_type=kind)).status_code == 415


async def test_a_body_of_the_right_type_may_say_more_of_it(raw: Raw) -> None:
    kind = "Application/JSON; charset=utf-8"
    assert (await raw.ask("POST", initialize(), content_type=kind)).status_code == 200


async def test_a_session_has_one_stream_and_may_have_another_when_that_has_ended(
    bridge: Bridge, raw: Raw
) -> None:
    await raw.open_session()
    async with raw.http.stream("GET", raw.url, headers=raw.headers) as listening:
        assert listening.status_code == 200
        assert (await raw.ask("GET")).status_code == 409
    await soon(_served(bridge).replies.until_empty(10))
    async with raw.http.stream("GET", raw.url, headers=raw.headers) as listening:
        assert listening.status_code == 200


async def test_without_a_session_there_is_nothing_but_a_handshake(raw: Raw) -> None:
    for body in (message("tools/list"), message("ping"), _batch(initialize())):
        assert (await raw.post(body)).status_code == 400
    assert (await raw.ask("GET")).status_code == 400
    assert (await raw.ask("DELETE")).status_code == 400
    assert (await raw.ask("POST", initialize(), mcp_session_id="nobodys")).status_code == 404


async def test_a_handshake_that_fails_leaves_no_session(bridge: Bridge, raw: Raw) -> None:
    failed = await raw.post(message("initialize", {}))
    assert "error" in first_event(failed)
    assert (await raw.post(message("tools/list"), mcp_session_id=failed.headers[SESSION])).status_code == 404
    assert not bridge.service._listeners


async def test_an_answer_to_a_question_that_we_did_not_ask_is_taken(raw: Raw) -> None:
    await raw.open_session()
    assert (await raw.post(b'{"jsonrpc":"2.0","id":5,"result":{}}')).status_code == 202


async def test_a_request_whose_id_is_null_is_refused(raw: Raw) -> None:
    await raw.open_session()
    refused = await raw.post(b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}')
    assert refused.status_code == 400
    assert _code(refused) == -32600


async def test_who_takes_only_json_gets_only_json(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    asked = asyncio.ensure_future(
        raw.ask("POST", message("tools/call", {"name": "ask"}, number=9), accept=_JSON_ALONE)
    )
    bridge.answer(await bridge.call(), text("yes"))
    answered = await soon(asked)
    assert answered.headers["content-type"] == _JSON_ALONE
    assert read(answered.content)["id"] == 9


@pytest.mark.parametrize("depth", [64, 500, 900, *range(950, 1_010, 4), 100_000])
async def test_however_deep_arguments_are_there_is_an_answer(raw: Raw, depth: int) -> None:
    await raw.open_session()
    body = message("tools/call", {"name": "nobody", "arguments": {"a": "DEEP", "b": "HALF"}})
    for half in (b"whole", b"\\ud83d"):
        deep = body.replace(b'"DEEP"', b"[" * depth + b"]" * depth).replace(b"HALF", half)
        assert (await raw.post(deep)).status_code in (200, 400)
    assert (await raw.post(message("ping"))).status_code == 200


async def test_a_query_leads_nowhere_else(raw: Raw) -> None:
    raw.url += "?from=agent"
    assert (await raw.post(initialize())).status_code == 200


async def test_two_requests_with_one_id_are_two_too_many(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    async with raw.calling("ask") as lines:
        call = await bridge.call()
        second = await raw.post(message("tools/call", {"name": "ask"}, number=7))
        assert "error" in first_event(second)
        bridge.answer(call, text("to the first"))
        (answer,) = [event(line) async for line in lines if line.startswith("data: ")]
    assert "result" in answer
    assert bridge.calls.empty()


async def test_t16_the_end_of_a_session_withdraws_its_calls(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    async with raw.calling("ask") as lines:
        call = await bridge.call()
        assert (await raw.ask("DELETE")).status_code == 200
        assert await soon(bridge.withdrawn.get()) == call.key
        assert [line async for line in lines if line.startswith("data: ")] == []
    assert (await raw.post(message("tools/list"))).status_code == 404


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_t16_the_stream_of_a_withdrawn_call_ends_without_a_response(
    bridge: Bridge, raw: Raw, version: str
) -> None:
    """Qwen Code takes a response to what it has withdrawn for a broken connection, and drops its tools."""
    await raw.open_session(version)
    asked = asyncio.ensure_future(raw.post(message("tools/call", {"name": "ask"}, number=2)))
    made = await bridge.call()
    await raw.post(message("notifications/cancelled", {"requestId": 2}, number=None))
    assert await soon(bridge.withdrawn.get()) == made.key
    ended = await soon(asked)
    assert ended.headers["content-type"] == "text/event-stream"
    assert (ended.status_code, ended.content) == (200, b"")


async def test_t16_a_client_that_takes_no_events_gets_an_error_for_a_withdrawn_call(
    bridge: Bridge, raw: Raw
) -> None:
    await raw.open_session("2025-06-18")
    call = message("tools/call", {"name": "ask"}, number=2)
    asked = asyncio.ensure_future(raw.ask("POST", call, accept=_JSON_ALONE))
    await bridge.call()
    await raw.post(message("notifications/cancelled", {"requestId": 2}, number=None))
    assert _code(await soon(asked)) == -32800


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_batch_is_refused_in_every_revision_and_the_session_goes_on(raw: Raw, version: str) -> None:
    await raw.open_session(version)
    ping = message("ping")
    for body in (b"[]", _batch(ping), _batch(ping, ping), _batch(ping, b"5")):
        refused = await raw.post(body)
        assert refused.status_code == 400
        error = read(refused.content)
        assert error["id"] is None
        assert error["error"] == {"code": -32600, "message": ANY}
        assert "batches are not supported: send each message" in refused.text
    assert (await raw.post(ping)).status_code == 200


async def test_a_batch_without_a_session_is_refused(raw: Raw) -> None:
    body = _batch(message("server/discover"))
    refused = await raw.post(body, mcp_protocol_version=STATELESS_VERSION)
    assert (refused.status_code, _code(refused)) == (400, -32600)
    assert "batches are not supported" in refused.text


# Without sessions.


async def test_a_short_answer_is_json_and_has_no_session(raw: Raw) -> None:
    answered = await raw.post_stateless("tools/list", {})
    assert answered.status_code == 200
    assert answered.headers["content-type"] == _JSON_ALONE
    assert SESSION not in answered.headers


async def test_an_answer_that_takes_long_becomes_a_stream(
    bridge: Bridge, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "_PING_SECONDS", 0.01)
    body, headers = raw.stateless("tools/call", {"name": "ask"})
    async with raw.http.stream("POST", raw.url, content=body, headers=headers) as answering:
        assert answering.headers["content-type"] == "text/event-stream"
        bridge.answer(await bridge.call(), text("at last"))
        said = [line async for line in answering.aiter_lines() if line]
    assert said[0] == ": ping"
    assert event(said[-1])["id"] == 1


@pytest.mark.parametrize(
    ("method", "status", "code"),
    [("resources/list", 404, -32601), ("initialize", 400, -32022), ("subscriptions/listen", 400, -32602)],
)
async def test_errors_have_the_status_that_belongs_to_them(
    raw: Raw, method: str, status: int, code: int
) -> None:
    refused = await raw.post_stateless(method, {})
    assert (refused.status_code, _code(refused)) == (status, code)


async def test_another_revision_is_refused_with_ours(raw: Raw) -> None:
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2027-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"mcp_protocol_version": "2027-01-01", "mcp_method": "tools/list"}
    refused = await raw.ask("POST", message("tools/list", {"_meta": meta}), **headers)
    assert (refused.status_code, _code(refused)) == (400, -32022)
    notified = await raw.ask("POST", message("notifications/x", number=None), **headers)
    assert (notified.status_code, _code(notified)) == (400, -32022)


async def test_a_notification_is_taken_and_is_about_nobody(bridge: Bridge, raw: Raw) -> None:
    asked = asyncio.ensure_future(raw.post_stateless("tools/call", {"name": "ask"}))
    call = await bridge.call()
    cancelled = message("notifications/cancelled", {"requestId": 1}, number=None)
    assert (await raw.post(cancelled, mcp_protocol_version=STATELESS_VERSION)).status_code == 202
    bridge.answer(call, text("all the same"))
    assert (await soon(asked)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp_method": ""},
        {"mcp_method": "tools/list"},
        {"mcp_method": "Tools/Call"},
        {"mcp_name": ""},
        {"mcp_name": "other"},
        {"mcp_name": "=?base64?!?="},
        {"mcp_name": "=?base64?b3RoZXI=?="},
        # Only names come in base 64.
        {"mcp_method": "=?base64?dG9vbHMvY2FsbA==?="},
    ],
    ids=str,
)
async def test_headers_that_contradict_the_body_are_refused(
    bridge: Bridge, raw: Raw, headers: dict[str, str]
) -> None:
    refused = await raw.post_stateless("tools/call", {"name": "ask"}, **headers)
    assert (refused.status_code, _code(refused)) == (400, -32020)
    assert bridge.calls.empty()


async def test_a_header_that_is_there_twice_is_refused(raw: Raw) -> None:
    body, headers = raw.stateless("tools/list", {})
    twice = [*headers.items(), ("Mcp-Method", "tools/list")]
    refused = await raw.http.post(raw.url, content=body, headers=twice)
    assert (refused.status_code, _code(refused)) == (400, -32020)


async def test_a_name_may_come_in_base_64(bridge: Bridge, raw: Raw) -> None:
    encoded = f"=?base64?{base64.b64encode(b'ask').decode()}?="
    asked = asyncio.ensure_future(raw.post_stateless("tools/call", {"name": "ask"}, mcp_name=encoded))
    bridge.answer(await bridge.call(), text("yes"))
    assert (await soon(asked)).status_code == 200


async def test_headers_for_arguments_are_never_asked_for_and_mean_nothing(
    server: ToolServer, http: httpx2.AsyncClient
) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            # Agents would have to drop a tool with this one.
            "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "not a token"}},
        },
    }
    bridge = Bridge.of(server, tool("ask", "", schema))
    async with connected(bridge, LINKS[1]) as agent:
        (listed,) = (await agent.list_tools()).tools
        assert b"x-mcp-header" not in json.encode(listed.input_schema)
        asked = asyncio.ensure_future(agent.call_tool("ask", {"region": "here"}))
        bridge.answer(await bridge.call(), text("yes"))
        assert texts(await soon(asked)) == ["yes"]
    raw = Raw(bridge, http)
    params: JsonObject = {"name": "ask", "arguments": {"region": "here"}}
    again = asyncio.ensure_future(raw.post_stateless("tools/call", params, mcp_param_region="elsewhere"))
    bridge.answer(await bridge.call(), text("yes"))
    assert (await soon(again)).status_code == 200


# Streams.


async def test_no_event_has_a_line_break_that_only_python_knows(bridge: Bridge, raw: Raw) -> None:
    await raw.open_session()
    odd = "a\x85b\u2028c\u2029d"
    async with raw.calling("ask") as lines:
        bridge.answer(await bridge.call(), text(odd))
        (answer,) = [event(line) async for line in lines if line.startswith("data: ")]
    result = answer["result"]
    assert isinstance(result, dict)
    assert result["content"] == [{"type": "text", "text": odd}]


async def test_t12_an_agent_that_was_slow_to_read_hears_of_the_change_once(bridge: Bridge, raw: Raw) -> None:
    """The stream it listens on is full; what is announced meanwhile waits for it, and twice the same is once."""
    await raw.open_session()
    await raw.post(message("tools/list"))
    authority = raw.url.removeprefix("http://").partition("/")[0]
    loop = asyncio.get_running_loop()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        listening.settimeout(0)
        host, port = authority.split(":")
        await loop.sock_connect(listening, (host, int(port)))
        lines = [f"{name}: {value}" for name, value in {**raw.headers, "host": authority}.items()]
        head = "\r\n".join([f"GET {bridge.endpoint.path} HTTP/1.1", *lines, "", ""])
        await loop.sock_sendall(listening, head.encode())
        heard = b""
        while b"\r\n\r\n" not in heard:
            heard += await soon(loop.sock_recv(listening, 2**20))
        (session,) = _served(bridge).sessions.values()
        stream = session.stream
        assert stream is not None
        while not stream.exchange.is_clogged:
            stream.notify(b'"' + b"x" * 100_000 + b'"\n')
        for number in range(3):
            bridge.endpoint.set_tools((tool(f"tool_{number}"),))
        assert len(stream._owed) == 1
        heard = b""
        while b"list_changed" not in heard:
            heard = heard[-100:] + await soon(loop.sock_recv(listening, 2**20))
        assert heard.count(b"list_changed") == 1
        assert not stream._owed


# Unused connections.


async def _is_cut_off(reader: asyncio.StreamReader) -> bool:
    try:
        await soon(reader.read())
    except ConnectionResetError:
        # Cut off before the server had read what was sent: on a busy machine that takes longer than a stranger may stay.
        return True
    return reader.at_eof()


@pytest.mark.parametrize(
    "opening",
    [
        b"",
        b"POST / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nhost: elsewhere\r\n\r\n",
        # Refused by its head, with a body to come that never does.
        b"POST / HTTP/1.1\r\nhost: elsewhere\r\ncontent-length: 1000\r\n\r\nhalf",
    ],
)
async def test_t15_a_stranger_does_not_stay(
    server: ToolServer, opening: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "_STRANGER_SECONDS", 0.02)
    monkeypatch.setattr(over_http, "_PING_SECONDS", 0.01)
    assert server._listeners is not None
    host, port = server._listeners.http.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(opening)
    assert await _is_cut_off(reader)
    writer.close()
    await soon(server._listeners.http._connections.until_empty(10))


async def test_a_connection_that_waits_is_kept_however_long(
    bridge: Bridge, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "_PING_SECONDS", 0.01)
    await raw.open_session()
    async with raw.calling("ask") as lines:
        call = await bridge.call()
        monkeypatch.setattr(over_http, "_KEEP_ALIVE_SECONDS", 0.0)
        # Each ping is one time that idle connections were looked for.
        heard = [await soon(anext(lines)) for _ in range(6)]
        assert heard.count(": ping") == 3
        bridge.answer(call, text("yes"))
        assert [event(line)["id"] async for line in lines if line.startswith("data: ")] == [7]


async def test_a_stream_that_has_begun_is_a_sign_that_the_call_is_served(
    bridge: Bridge, raw: Raw, clock: PatientClock
) -> None:
    await raw.open_session()
    async with raw.calling("ask"):
        # The head of the response is here, and the call has no answer yet.
        call = await bridge.call()
        assert clock.now() == 0
    assert await soon(bridge.withdrawn.get()) == call.key


_DEEP_CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":%s}}'


@pytest.mark.parametrize("levels", [300, 5_000])
async def test_a_call_that_is_nested_too_deeply_has_a_result_that_says_so(raw: Raw, levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    body = _DEEP_CALL % deep
    await raw.open_session()
    stateless = {"mcp_protocol_version": STATELESS_VERSION, "mcp_method": "tools/call", "mcp_name": "look"}
    for headers in ({}, stateless):
        answered = await raw.post(body, **headers)
        assert answered.status_code == 200
        result = read(answered.content)["result"]
        assert isinstance(result, dict)
        assert result["isError"] is True
        assert "levels deep" in str(result["content"])
    # The response to another request would be ambiguous.
    refused = await raw.post(body.replace(b"tools/call", b"tools/list"))
    assert (refused.status_code, read(refused.content)["id"]) == (400, 1)
