"""What an agent does beside its frames, as far as a client waits for it: it looks at the tools it is offered.

That goes over connections of its own, which are not in the trace. Its calls are not made again: a trace tells that an agent
called a tool, but each agent tells it in its own way.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from devtools.mcp_over_http import connect
from dragoman.acp.messages import HttpServer, StdioServer
from dragoman.demo.mcp import McpError, ToolClient
from dragoman.jsonrpc import Decoder, Incoming
from dragoman.lm import JsonObject

__all__ = ["Looking"]

_log = logging.getLogger(__name__)
_OPENS = frozenset({"session/new", "session/load", "session/resume", "session/fork"})


class _Opened(msgspec.Struct, frozen=True, rename="camel"):
    cwd: str = "."
    mcp_servers: tuple[JsonObject, ...] = ()


_opened = Decoder(_Opened)


class Looking:
    """For `on_asked` of a player that is an agent."""

    def __init__(self) -> None:
        self._clients: list[ToolClient] = []
        self._again: set[asyncio.Task[None]] = set()

    async def on_asked(self, incoming: Incoming) -> None:
        if incoming.method not in _OPENS:
            return
        opened = _opened.decode(incoming.params)
        for server in opened.mcp_servers:
            try:
                await self._look(server, Path(opened.cwd))
            except (McpError, msgspec.ValidationError) as error:
                _log.warning("the tools of %s were not seen: %s", server.get("name"), error)

    async def close(self) -> None:
        for task in self._again:
            task.cancel()
        for client in self._clients:
            await client.close()

    async def _look(self, server: JsonObject, cwd: Path) -> None:
        over_http = server.get("type") == "http"
        address = msgspec.convert(server, HttpServer) if over_http else msgspec.convert(server, StdioServer)
        client = await connect(address, cwd, lambda: self._look_again(client))
        self._clients.append(client)
        await client.tools()

    def _look_again(self, client: ToolClient) -> None:
        async def look() -> None:
            try:
                await client.tools()
            except McpError as error:
                _log.warning("the tools were not seen again: %s", error)

        task = asyncio.create_task(look())
        self._again.add(task)
        task.add_done_callback(self._again.discard)
