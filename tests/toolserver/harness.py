"""A bridge that only records its calls, and agents that are the official MCP library's own client."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import anyio
import httpx2
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, StdioServerParameters
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from dragoman.backends.agent.toolserver import Endpoint, PendingCall, ToolServer
from dragoman.backends.agent.toolserver.offer import OfferedTool
from dragoman.backends.agent.toolserver.service import ToolService
from dragoman.lm import JsonObject, TextPart, ToolDefinition
from dragoman.lm.parts import ToolResult
from virtual_clock import VirtualClock

__all__ = [
    "LINKS",
    "Bridge",
    "Link",
    "PatientClock",
    "attached",
    "connected",
    "http_client",
    "soon",
    "text",
    "texts",
    "tool",
]

_T = TypeVar("_T")
_Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

# Longer than anything here takes on a busy machine. It is only reached by a test that fails.
_DEADLINE = 10.0
# Reading the certificates of the machine takes longer than most tests here, and none is used.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def soon(work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, _DEADLINE)


def http_client(headers: dict[str, str] | None = None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers=headers, timeout=_DEADLINE, verify=_NO_CERTIFICATES)


def tool(name: str, description: str = "", schema: JsonObject | None = None) -> ToolDefinition:
    return ToolDefinition(name, description, schema)


def text(value: str) -> ToolResult:
    return ToolResult((TextPart(value),))


def texts(result: object) -> list[str]:
    """The texts of a tool result, which the client types as one of several."""
    return [block.text for block in getattr(result, "content", []) if block.type == "text"]


class PatientClock(VirtualClock):
    """Lets time pass only once a task sleeps, so that a test cannot be early."""

    def __init__(self) -> None:
        super().__init__()
        self._fell_asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self._fell_asleep.set()
        await super().sleep(seconds)

    async def pass_seconds(self, seconds: float) -> None:
        await soon(self._fell_asleep.wait())
        self._fell_asleep.clear()
        self.advance(seconds)


@dataclass
class Bridge:
    server: ToolServer
    endpoint: Endpoint = field(init=False)
    calls: asyncio.Queue[PendingCall] = field(default_factory=asyncio.Queue)
    withdrawn: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    listed: int = 0

    @classmethod
    def of(
        cls, server: ToolServer, *tools: ToolDefinition, name: str = "dragoman", limit: float | None = None
    ) -> "Bridge":
        bridge = cls(server)
        bridge.endpoint = server.endpoint(
            name=name,
            limit_seconds=limit,
            on_call=bridge.calls.put_nowait,
            on_withdrawn=bridge.withdrawn.put_nowait,
        )
        bridge._count_listings()
        bridge.endpoint.set_tools(tools)
        return bridge

    def _count_listings(self) -> None:
        list_tools = self.endpoint.list_tools

        def counted() -> tuple[OfferedTool, ...]:
            self.listed += 1
            return list_tools()

        self.endpoint.list_tools = counted  # type: ignore[method-assign] # to count

    async def call(self) -> PendingCall:
        return await soon(self.calls.get())

    def answer(self, call: PendingCall, answer: ToolResult) -> None:
        self.endpoint.answer(call.key, answer)

    @property
    def service(self) -> ToolService:
        return self.server._services[self.endpoint]


@dataclass(frozen=True)
class Link:
    """How an agent is connected: a transport, and the revision of MCP it speaks."""

    transport: Literal["http", "stdio"]
    mode: Literal["legacy", "2026-07-28"]

    def __str__(self) -> str:
        return f"{self.transport}-{'handshake' if self.mode == 'legacy' else self.mode}"


LINKS = (
    Link("http", "legacy"),
    Link("http", "2026-07-28"),
    Link("stdio", "legacy"),
    Link("stdio", "2026-07-28"),
)


@asynccontextmanager
async def connected(
    bridge: Bridge,
    link: Link,
    on_message: Callable[[IncomingMessage], object] = lambda _: None,
    largest_event: int | None = 1024 * 1024,
) -> AsyncIterator[Client]:
    """An agent, as it comes with the library; `largest_event` is the library's own limit."""

    async def handle(message: IncomingMessage) -> None:
        on_message(message)

    if link.transport == "stdio":
        command, arguments, environment = bridge.endpoint.stdio()
        process = StdioServerParameters(command=command, args=list(arguments), env=environment)
        async with Client(process, mode=link.mode, message_handler=handle) as client:
            yield client
        return
    url, headers = bridge.endpoint.http()
    async with http_client(headers) as http:
        transport = streamable_http_client(url, http_client=http, max_sse_event_size=largest_event)
        async with Client(transport, mode=link.mode, message_handler=handle) as client:
            yield client


def attached(endpoint: Endpoint) -> Client:
    """An agent on the socket itself, without a relay between."""
    return Client(_on_socket(endpoint))


@asynccontextmanager
async def _on_socket(endpoint: Endpoint) -> AsyncIterator[_Streams]:
    reader, writer = await asyncio.open_unix_connection(endpoint.addresses.socket, limit=2**26)
    writer.write(endpoint.token.encode() + b"\n")
    arriving, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leaving, left = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async for line in reader:
            await arriving.send(SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line)))

    async def send() -> None:
        async for item in left:
            writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with anyio.create_task_group() as both, arriving, arrived, leaving, left:
        both.start_soon(receive)
        both.start_soon(send)
        yield arrived, leaving
        both.cancel_scope.cancel()
    writer.close()
    await writer.wait_closed()
