"""A client of `dragoman serve` that can be used like the editor: it sends its whole history, and knows nothing else."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from dragoman.jsonrpc import ConnectionClosed, ErrorObject, ErrorResponse, RpcResponse
from vscode.editor import Answer, Editor

__all__ = ["HttpEditor"]

_REQUEST_FAILED = -32000


class _HttpAnswer(Answer):
    task: asyncio.Task[None]

    def cancel(self) -> None:
        """A client that stops hangs up; for it the answer is what it has by then."""
        self.task.cancel()


class HttpEditor(Editor):
    def __init__(self, port: int, patience: float, *, stores: bool = False) -> None:
        """`stores`: the server may store what is said."""
        super().__init__(patience)
        self._port = port
        self._stores = stores
        self._tasks: set[asyncio.Task[None]] = set()

    async def hang_up(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def respond(
        self, model: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **options: object
    ) -> Answer:
        body = {
            "model": model,
            "stream": True,
            "store": self._stores,
            "input": [item for message in messages for item in _items(message)],
            "tools": [_function(tool) for tool in tools],
        }
        answer = _HttpAnswer(self)
        answer.task = asyncio.create_task(self._ask_for(json.dumps(body).encode(), answer))
        self._tasks.add(answer.task)
        answer.task.add_done_callback(self._tasks.discard)
        return answer

    async def ask(self, method: str, params: object) -> Any:
        """A client of this kind makes its dialogs itself, from the call."""
        assert method == "tools/prepareInvocation", method
        assert isinstance(params, dict)
        return {"confirmationMessages": {"title": params["input"]["title"]}}

    async def approve(self, call: dict[str, Any], **edited: object) -> dict[str, Any]:
        decision = json.dumps({"decision": "allow", "nonce": call["input"]["nonce"]})
        return {
            "type": "tool_result",
            "callId": call["callId"],
            "content": [{"type": "text", "value": decision}],
        }

    async def _ask_for(self, body: bytes, answer: Answer) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
            head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if status != b"200":
                _fail(answer, json.loads((await reader.read()).split(b"\r\n")[-1] or b"{}"))
                return
            async for event in _events(reader):
                _take(answer, event)
            if answer.reply is None:
                answer.reply = ConnectionClosed("the stream ended in the middle")
        except asyncio.CancelledError:
            answer.reply = answer.reply or RpcResponse(0, b"{}")
            raise
        except (OSError, asyncio.IncompleteReadError) as error:
            answer.reply = answer.reply or ConnectionClosed(str(error))
        finally:
            answer.news.set()
            if writer is not None:
                writer.close()


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Of a chunked body; chunks need not be events, but our server writes them so that lines are whole."""
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def _take(answer: Answer, event: dict[str, Any]) -> None:
    match event["type"]:
        case "response.output_text.delta":
            answer.parts.append({"type": "text", "value": event["delta"], "at": time.time()})
        case "response.output_item.done" if event["item"]["type"] == "function_call":
            item = event["item"]
            answer.parts.append(
                {
                    "type": "tool_call",
                    "callId": item["call_id"],
                    "name": item["name"],
                    "input": json.loads(item["arguments"]),
                }
            )
        case "response.completed" | "response.incomplete":
            answer.reply = RpcResponse(0, b"{}")
        case "response.failed":
            _fail(answer, event["response"])
        case "error":
            _fail(answer, event)
    answer.news.set()


def _fail(answer: Answer, body: dict[str, Any]) -> None:
    """What to do next is said in the message itself: there is no other place for it."""
    error = body.get("error") or {}
    message = str(error.get("message", ""))
    sentences = re.findall(r"[.!?](?:\s|$)", message)
    data = {"kind": error.get("type") or error.get("code"), "hint": message if len(sentences) > 1 else ""}
    answer.reply = ErrorResponse(0, ErrorObject(_REQUEST_FAILED, message, data))
    answer.news.set()


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in message["content"]:
        match part["type"]:
            case "text":
                items.append({"type": "message", "role": message["role"], "content": part["value"]})
            case "tool_call":
                arguments = json.dumps(part["input"])
                name, call = part["name"], part["callId"]
                items.append({"type": "function_call", "call_id": call, "name": name, "arguments": arguments})
            case "tool_result":
                output = "".join(each["value"] for each in part["content"])
                items.append({"type": "function_call_output", "call_id": part["callId"], "output": output})
    return items


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool["description"],
        "parameters": tool.get("inputSchema") or {"type": "object"},
    }
