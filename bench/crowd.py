"""Any number of agents in one process, so that what they cost is not counted with what the bridge costs.

Each connection to the unix socket named in the only argument is one agent: real ACP, with a real MCP client for the
tools it is offered. A prompt makes it call the first tool and say what came back.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from devtools.mcp_over_http import connect

from dragoman.acp.messages import HttpServer
from dragoman.demo.mcp import ToolClient
from dragoman.jsonrpc import METHOD_NOT_FOUND, Incoming, Notification, Peer, PeerOptions

_CAPABILITIES = {"mcpCapabilities": {"http": True}, "promptCapabilities": {}, "sessionCapabilities": {}}


class _Agent:
    def __init__(self) -> None:
        self._peer: Peer | None = None
        self._tools: ToolClient | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connected(self, peer: Peer) -> None:
        self._peer = peer

    def closed(self, reason: str) -> None:  # noqa: ARG002 - a receiver
        for task in self._tasks:
            task.cancel()

    def notification(self, notification: Notification) -> None:
        pass

    def request(self, incoming: Incoming) -> None:
        task = asyncio.create_task(self._answer(incoming, json.loads(incoming.params)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, incoming: Incoming, params: dict[str, Any]) -> None:
        match incoming.method:
            case "initialize":
                incoming.reply({"protocolVersion": 1, "agentCapabilities": _CAPABILITIES})
            case "session/new":
                for server in params["mcpServers"]:
                    address = msgspec.convert(server, HttpServer)
                    self._tools = await connect(address, Path.cwd(), lambda: None)
                    await self._tools.tools()
                incoming.reply({"sessionId": "s"})
            case "session/prompt":
                if self._peer is None or self._tools is None:
                    raise AssertionError("not in a session")
                result = await self._tools.call("look_up", {}, lambda _progress: None)
                text = {"type": "text", "text": f"It said {len(result.content)}."}
                update = {"sessionUpdate": "agent_message_chunk", "content": text}
                self._peer.notify("session/update", {"sessionId": "s", "update": update})
                incoming.reply({"stopReason": "end_turn"})
            case method:
                incoming.fail(METHOD_NOT_FOUND, f"no {method} here")


async def _serve(path: Path) -> None:
    options = PeerOptions(name="a client")
    server = await asyncio.get_running_loop().create_unix_server(lambda: Peer(_Agent(), options).stream, path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
