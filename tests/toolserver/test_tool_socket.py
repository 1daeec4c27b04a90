"""The unix socket and the relay in front of it."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dragoman.backends.agent.toolserver import ToolServer, over_socket, service
from dragoman.backends.agent.toolserver.relay import TOKEN_VARIABLE
from dragoman.backends.agent.toolserver.session import HANDSHAKE_VERSIONS
from dragoman.lm import JsonObject, json
from toolserver.harness import Bridge, PatientClock, soon, text, tool

_CLIENT: JsonObject = {"name": "raw", "version": "1"}
_INITIALIZE: JsonObject = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}


def _line(method: str, params: JsonObject | None = None, number: int | None = 1) -> bytes:
    message: JsonObject = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.encode(message if number is None else {**message, "id": number}) + b"\n"


class _Raw:
    """An agent that writes its own lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> JsonObject:
        message = json.decode(await soon(self.reader.readuntil(b"\n")))
        assert isinstance(message, dict)
        return message

    async def is_cut_off(self) -> bool:
        return await soon(self.reader.read()) == b""

    async def initialize(self, version: str = "2025-06-18") -> None:
        self.writer.write(_line("initialize", {**_INITIALIZE, "protocolVersion": version}))
        assert "result" in await self.read()
        self.writer.write(_line("notifications/initialized", number=None))


@asynccontextmanager
async def _connected(bridge: Bridge, opening: bytes | None = None) -> AsyncIterator[_Raw]:
    reader, writer = await asyncio.open_unix_connection(bridge.endpoint.addresses.socket, limit=2**26)
    writer.write(bridge.endpoint.token.encode() + b"\n" if opening is None else opening)
    try:
        yield _Raw(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_t15_only_the_owner_can_reach_the_socket(bridge: Bridge) -> None:
    path = bridge.endpoint.addresses.socket
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(bytes(path)) <= 103


@pytest.mark.parametrize(
    "opening", [b"x" * 43 + b"\n", b"x" * 44, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3]
)
async def test_t15_a_connection_without_a_token_is_cut_off(bridge: Bridge, opening: bytes) -> None:
    async with _connected(bridge, opening) as raw:
        raw.writer.write(_line("initialize", _INITIALIZE))
        assert await raw.is_cut_off()


async def test_t15_a_connection_that_says_nothing_is_cut_off(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_socket, "_TOKEN_SECONDS", 0.01)
    async with _connected(bridge, b"half a tok") as raw:
        assert await raw.is_cut_off()


async def test_t15_the_token_of_a_closed_endpoint_is_worth_nothing(
    server: ToolServer, bridge: Bridge
) -> None:
    other = Bridge.of(server, tool("ask"))
    await bridge.endpoint.close()
    async with _connected(bridge) as raw:
        assert await raw.is_cut_off()
    async with _connected(other) as raw:
        await raw.initialize()


async def test_more_connections_than_the_limit_are_cut_off(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_socket, "MAX_CONNECTIONS", 1)
    async with _connected(bridge) as first:
        await first.initialize()
        async with _connected(bridge) as second:
            assert await second.is_cut_off()
        first.writer.write(_line("ping", number=2))
        assert (await first.read())["id"] == 2


async def test_lines_that_are_no_messages_are_skipped(bridge: Bridge) -> None:
    async with _connected(bridge) as raw:
        await raw.initialize()
        for line in (b"\n", b"5\n", b"{\n", b"\xff\xfe\n", b'"\\ud83d\n', b'{"jsonrpc":"2.0"}\n'):
            raw.writer.write(line)
        raw.writer.write(_line("ping", number=2))
        assert (await raw.read())["id"] == 2


async def test_a_line_that_names_a_request_but_is_none_is_answered_with_what_is_wrong(bridge: Bridge) -> None:
    async with _connected(bridge) as raw:
        await raw.initialize()
        raw.writer.write(b'{"jsonrpc":"1.0","id":5,"method":"ping"}\n')
        answer = await raw.read()
        assert answer["id"] == 5
        error = answer["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32600


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_batch_is_refused_once_and_the_next_line_is_served(bridge: Bridge, version: str) -> None:
    async with _connected(bridge) as raw:
        await raw.initialize(version)
        batch = b",".join(_line("ping", number=number).rstrip() for number in (2, 3))
        raw.writer.write(b"[" + batch + b"]\n" + _line("ping", number=4))
        refused = await raw.read()
        assert refused["id"] is None
        error = refused["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32600
        assert "batches are not supported: send each message" in str(error["message"])
        assert (await raw.read())["id"] == 4


async def test_a_connection_may_be_of_either_era_and_stays_in_it(bridge: Bridge) -> None:
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with _connected(bridge) as raw:
        raw.writer.write(_line("server/discover", {"_meta": meta}))
        assert "result" in await raw.read()
        raw.writer.write(_line("initialize", _INITIALIZE, number=2))
        assert "error" in await raw.read()
    async with _connected(bridge) as raw:
        await raw.initialize()
        raw.writer.write(_line("server/discover", {"_meta": meta}, number=2))
        assert "error" in await raw.read()


async def test_who_does_not_read_is_not_served_and_loses_nothing(server: ToolServer) -> None:
    bridge = Bridge.of(server, *(tool(f"tool_{number}", "x" * 10_000) for number in range(100)))
    async with _connected(bridge) as other:
        await other.initialize()
        async with _connected(bridge) as raw:
            await raw.initialize()
            transport = raw.writer.transport
            assert isinstance(transport, asyncio.ReadTransport)
            transport.pause_reading()
            for number in range(20):
                raw.writer.write(_line("tools/list", number=number + 2))
            assert await soon(bridge.endpoint.wait_listed(60))
            other.writer.write(_line("ping", number=2))
            assert (await other.read())["id"] == 2
            assert bridge.listed < 10
            # Twice the same is one announcement, and it comes when there is room.
            bridge.endpoint.set_tools((tool("one"),))
            bridge.endpoint.set_tools((tool("another"),))
            transport.resume_reading()
            messages = [await raw.read() for _ in range(21)]
    assert [message["id"] for message in messages if "id" in message] == list(range(2, 22))
    assert [message["method"] for message in messages if "method" in message] == [
        "notifications/tools/list_changed"
    ]


async def test_f16_half_of_a_surrogate_pair_in_arguments_is_replaced(bridge: Bridge) -> None:
    async with _connected(bridge) as raw:
        await raw.initialize()
        line = _line("tools/call", {"name": "ask", "arguments": {"half": "HALF"}}, number=2)
        raw.writer.write(line.replace(b"HALF", b"a\\uD83D"))
        assert (await bridge.call()).arguments == {"half": "a\ufffd"}


async def test_a_line_of_more_than_the_limit_ends_the_connection_and_withdraws_its_calls(
    clock: PatientClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_socket, "MAX_MESSAGE_BYTES", 4_096)
    server = ToolServer(clock)
    await server.start()
    try:
        bridge = Bridge.of(server, tool("ask"))
        async with _connected(bridge) as raw:
            await raw.initialize()
            raw.writer.write(_line("tools/call", {"name": "ask", "arguments": {}}, number=2))
            call = await bridge.call()
            raw.writer.write(b"x" * 20_000 + b"\n")
            assert await soon(bridge.withdrawn.get()) == call.key
            await soon(raw.reader.read())
            assert raw.reader.at_eof()
    finally:
        await server.close()


async def test_a_session_that_has_ended_is_forgotten(server: ToolServer, bridge: Bridge) -> None:
    assert server._listeners is not None
    connections = server._listeners.socket._connections
    async with _connected(bridge) as raw:
        await raw.initialize()
        raw.writer.write(_line("tools/list", number=2))
        assert (await raw.read())["id"] == 2
        assert len(bridge.service._listeners) == 1
    await soon(connections.until_empty(10))
    assert not bridge.service._listeners


async def test_of_many_sessions_the_last_to_list_are_told_of_changes(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_CONNECTIONS", 1)
    async with _connected(bridge) as first, _connected(bridge) as last:
        for raw in (first, last):
            await raw.initialize()
            raw.writer.write(_line("tools/list", number=2))
            assert (await raw.read())["id"] == 2
        bridge.endpoint.set_tools((tool("ask"), tool("new")))
        assert (await last.read())["method"] == "notifications/tools/list_changed"
        assert len(bridge.service._listeners) == 1


async def test_t12_a_change_is_announced_before_the_result_that_lets_the_agent_go_on(bridge: Bridge) -> None:
    async with _connected(bridge) as raw:
        await raw.initialize()
        raw.writer.write(_line("tools/list", number=2))
        assert (await raw.read())["id"] == 2
        raw.writer.write(_line("tools/call", {"name": "ask", "arguments": {}}, number=3))
        call = await bridge.call()
        bridge.endpoint.set_tools((tool("ask"), tool("new")))
        bridge.answer(call, text("go on"))
        assert (await raw.read())["method"] == "notifications/tools/list_changed"
        assert (await raw.read())["id"] == 3


async def test_an_agent_that_does_not_read_does_not_keep_us_from_closing(
    server: ToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_socket, "_CLOSE_SECONDS", 0.05)
    bridge = Bridge.of(server, *(tool(f"tool_{number}", "x" * 10_000) for number in range(200)))
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as agent:
        agent.settimeout(0)
        await loop.sock_connect(agent, str(bridge.endpoint.addresses.socket))
        opening = bridge.endpoint.token.encode() + b"\n" + _line("initialize", _INITIALIZE)
        await loop.sock_sendall(agent, opening + _line("tools/list", number=2))
        assert await soon(bridge.endpoint.wait_listed(60))
        await soon(bridge.endpoint.close())
        received = 0
        while data := await soon(loop.sock_recv(agent, 2**20)):
            received += len(data)
        assert received < 2_000_000


async def _shim(
    bridge: Bridge, *, environment: dict[str, str] | None = None, address: str | None = None
) -> asyncio.subprocess.Process:
    command, arguments, given = bridge.endpoint.stdio()
    return await asyncio.create_subprocess_exec(
        command,
        *arguments[:-1],
        address or arguments[-1],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(given if environment is None else environment)},
    )


async def test_t15_the_relays_token_is_not_among_its_arguments(bridge: Bridge) -> None:
    _, arguments, environment = bridge.endpoint.stdio()
    assert environment == {TOKEN_VARIABLE: bridge.endpoint.token}
    assert bridge.endpoint.token not in " ".join(arguments)


async def test_the_relay_ends_with_the_endpoint(bridge: Bridge) -> None:
    process = await _shim(bridge)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_line("initialize", _INITIALIZE))
    assert b'"result"' in await soon(process.stdout.readuntil(b"\n"))
    await bridge.endpoint.close()
    assert await soon(process.wait()) == 0
    assert await soon(process.stdout.read()) == b""


async def test_the_relay_ends_with_the_agent_and_its_calls_are_withdrawn(bridge: Bridge) -> None:
    process = await _shim(bridge)
    assert process.stdin is not None
    process.stdin.write(_line("initialize", _INITIALIZE) + _line("notifications/initialized", number=None))
    process.stdin.write(_line("tools/call", {"name": "ask", "arguments": {}}, number=2))
    call = await bridge.call()
    process.stdin.close()
    assert await soon(bridge.withdrawn.get()) == call.key
    assert await soon(process.wait()) == 0


async def test_the_relay_says_why_it_cannot_start(bridge: Bridge) -> None:
    without = await _shim(bridge, environment={})
    _, said = await soon(without.communicate())
    assert without.returncode == 2
    assert b"started by an agent" in said
    nowhere = await _shim(bridge, address="/nowhere/tools")
    _, said = await soon(nowhere.communicate())
    assert nowhere.returncode == 1
    assert b"does not answer" in said
