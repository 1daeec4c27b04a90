"""An agent that takes one step when it is ordered to, so that what a step costs others can be counted alone.

    python bench/stepped.py SOCKET

At the socket it is sent lines: `say` for a piece of text, `call` for a call of the tool it was offered (it answers
`called` when it has the result), `end` for the end of the turn.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

__all__: list[str] = []

_VERSION = "2025-06-18"


class _Tools:
    """The tool server of a session, over HTTP, on one connection."""

    def __init__(self, server: dict[str, Any]) -> None:
        url = urlsplit(server["url"])
        self._path = url.path
        self._connection = http.client.HTTPConnection(url.hostname or "", url.port)
        self._headers = {each["name"]: each["value"] for each in server["headers"]}
        self._headers |= {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": _VERSION,
        }
        client = {"name": "stepped", "version": "1"}
        self._post("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client}, 1)
        self._post("notifications/initialized", {})
        self._name = self._post("tools/list", {}, 2)["result"]["tools"][0]["name"]

    def call(self) -> None:
        answer = self._post("tools/call", {"name": self._name, "arguments": {"word": "dragoman"}}, 3)
        if "found" not in json.dumps(answer):
            raise ValueError(answer)

    def _post(self, method: str, params: object, number: int | None = None) -> Any:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if number is None else {**message, "id": number})
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        if session := response.getheader("mcp-session-id"):
            self._headers["mcp-session-id"] = session
        data = response.read().decode()
        if number is None:
            return None
        if response.getheader("content-type", "").startswith("text/event-stream"):
            events = [line.removeprefix("data:") for line in data.splitlines() if line.startswith("data:")]
            return next(told for event in events if (told := _of(event, number)) is not None)
        return json.loads(data)


def _of(event: str, number: int) -> Any:
    told = json.loads(event) if event.strip() else {}
    return told if told.get("id") == number else None


def _send(message: dict[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def _say(session: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "some more words "}}
    _send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def main() -> None:
    control = socket.socket(socket.AF_UNIX)
    control.connect(sys.argv[1])
    orders = control.makefile("r")
    tools: dict[str, _Tools] = {}
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        params: dict[str, Any] = message.get("params") or {}
        result: dict[str, object] = {}
        match message["method"]:
            case "initialize":
                capabilities = {"mcpCapabilities": {"http": True}}
                result = {"protocolVersion": 1, "agentCapabilities": capabilities}
            case "session/new":
                session = f"s{len(tools)}"
                tools[session] = _Tools(params["mcpServers"][0])
                result = {"sessionId": session}
            case "session/prompt":
                session = params["sessionId"]
                for order in orders:
                    if order == "say\n":
                        _say(session)
                    elif order == "call\n":
                        tools[session].call()
                        control.sendall(b"called\n")
                    else:
                        break
                result = {"stopReason": "end_turn"}
        _send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
