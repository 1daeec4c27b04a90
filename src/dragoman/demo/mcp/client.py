"""The client: a handshake, a list of tools, and calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman import __version__
from dragoman.acp.messages import StdioServer
from dragoman.demo.mcp.content import tool_result
from dragoman.demo.mcp.link import Link, McpError
from dragoman.demo.mcp.over_stdio import StdioLink
from dragoman.jsonrpc import Notification, RemoteError
from dragoman.lm import JsonObject
from dragoman.lm.parts import ToolResult

__all__ = ["MAX_TOOLS", "RemoteTool", "ToolClient", "connect"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The newest revision we ask for, and those a server may answer with.
_VERSION = "2025-11-25"
_VERSIONS = (_VERSION, "2025-06-18", "2025-03-26", "2024-11-05")
# For everything but a call: a server that starts slowly is given this long. A call waits for people.
_PATIENCE_SECONDS = 30.0
# Far more than a server offers; one that goes on giving pages is broken.
MAX_TOOLS = 10_000


class RemoteTool(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    description: str | None = None
    input_schema: JsonObject = {}
    annotations: JsonObject | None = None

    @property
    def is_read_only(self) -> bool:
        """Whether the server calls the tool read-only, which is a hint and no promise."""
        return bool(self.annotations and self.annotations.get("readOnlyHint") is True)


class _Page(msgspec.Struct, frozen=True, rename="camel"):
    tools: tuple[RemoteTool, ...] = ()
    next_cursor: str | None = None


class _Handshake(msgspec.Struct, frozen=True, rename="camel"):
    protocol_version: str


class _Progress(msgspec.Struct, frozen=True, rename="camel"):
    progress_token: int | str
    progress: float = 0
    total: float | None = None
    message: str | None = None


class ToolClient:
    """One server. Made by `connect`, ended by `close`."""

    def __init__(self, name: str, on_change: Callable[[], None]) -> None:
        self.name = name
        # Whether the server has said that its list of tools is another one than we have read.
        self.is_stale = False
        self._on_change = on_change
        self._link: Link | None = None
        self._tokens = count(1)
        self._progress: dict[int | str, Callable[[str], None]] = {}

    async def open(self, link: Link) -> None:
        self._link = link
        await self._in_time(self._handshake())

    async def tools(self) -> tuple[RemoteTool, ...]:
        """The server's tools as they are now. Raises `McpError`."""
        self.is_stale = False
        return await self._in_time(self._all_pages())

    async def call(self, tool: str, arguments: JsonObject, progress: Callable[[str], None]) -> ToolResult:
        """Call a tool, and wait for as long as it takes. Cancelling the waiting task withdraws the call."""
        token = next(self._tokens)
        self._progress[token] = progress
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": token}}
        try:
            return tool_result(await self._request("tools/call", params))
        except (McpError, RemoteError, msgspec.DecodeError) as error:
            return ToolResult.error(f"The tool server {self.name} failed: {error}")
        finally:
            del self._progress[token]

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()

    def on_notification(self, notification: Notification) -> None:
        match notification.method:
            case "notifications/tools/list_changed":
                self.is_stale = True
                self._on_change()
            case "notifications/progress":
                self._on_progress(notification)
            case method:
                _log.debug("%s: %s is not for us", self.name, method)

    def _on_progress(self, notification: Notification) -> None:
        try:
            made = msgspec.json.decode(notification.params, type=_Progress)
        except msgspec.DecodeError as error:
            _log.debug("%s: unreadable progress: %s", self.name, error)
            return
        progress = self._progress.get(made.progress_token)
        if progress is not None:
            share = f"{made.progress:g}" if made.total is None else f"{made.progress:g} of {made.total:g}"
            progress(made.message or share)

    async def _handshake(self) -> None:
        params = {
            "protocolVersion": _VERSION,
            "capabilities": {},
            "clientInfo": {"name": "dragoman-demo-agent", "version": __version__},
        }
        answer = msgspec.json.decode(await self._connection.request("initialize", params), type=_Handshake)
        if answer.protocol_version not in _VERSIONS:
            raise McpError(
                f"{self.name} speaks MCP {answer.protocol_version}, which this client does not know."
            )
        self._connection.agreed(answer.protocol_version)
        await self._connection.notify("notifications/initialized", {})

    async def _all_pages(self) -> tuple[RemoteTool, ...]:
        found: list[RemoteTool] = []
        params: JsonObject = {}
        while len(found) < MAX_TOOLS:
            page = msgspec.json.decode(await self._request("tools/list", params), type=_Page)
            found += page.tools
            if page.next_cursor is None:
                break
            params = {"cursor": page.next_cursor}
        return tuple(found[:MAX_TOOLS])

    async def _request(self, method: str, params: object) -> bytes:
        return await self._connection.request(method, params)

    async def _in_time(self, work: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await work
        except TimeoutError:
            raise McpError(f"{self.name} did not answer within {_PATIENCE_SECONDS:g} seconds.") from None
        except RemoteError as error:
            raise McpError(f"{self.name} refuses: {error}.") from error
        except msgspec.DecodeError as error:
            raise McpError(f"{self.name} gives an answer that cannot be read: {error}.") from error

    @property
    def _connection(self) -> Link:
        if self._link is None:
            raise AssertionError("not connected")
        return self._link


async def connect(address: StdioServer, cwd: Path, on_change: Callable[[], None]) -> ToolClient:
    """A client of the server at `address`, ready to list tools; `on_change` is called when the list has changed.

    Raises `McpError`; whatever was started by then is ended.
    """
    client = ToolClient(address.name, on_change)
    try:
        await client.open(await StdioLink.start(address, cwd, client.on_notification))
    except BaseException:
        await client.close()
        raise
    return client
