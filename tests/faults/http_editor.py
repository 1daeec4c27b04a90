"""A client of `dragoman serve` that can be used like the editor: it sends its whole history, and knows nothing else."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from dragoman.jsonrpc import ConnectionClosed, ErrorObject, ErrorResponse, RpcResponse
from vscode.editor import Answer, Editor

__all__ = ["HttpEditor"]

_REQUEST_FAILED = -32000
# Before the next server is asked.
_AGAIN_SECONDS = 0.2


class _HttpAnswer(Answer):
    task: asyncio.Task[None]

    def cancel(self) -> None:
        """A client that stops hangs up; for it the answer is what it has by then."""
        self.task.cancel()


class HttpEditor(Editor):
    def __init__(
        self, port: int, patience: float, *, stores: bool = False, others: tuple[int, ...] = ()
    ) -> None:
        """`stores`: the server may store what is said.

        `others`: where else the response can be read. It runs in the background then, and outlives a server.
        """
        super().__init__(patience)
        self._port = port
        self._others = others
        self._stores = stores
        # What a server has said and must not.
        self.broken: list[str] = []
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
            **({"background": True} if self._others else {}),
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
        place = _Place()
        try:
            lost = await self._streamed(self._port, "POST /v1/responses", body, answer, place)
            ports = itertools.cycle((*self._others, self._port))
            began = time.monotonic()
            while lost is not None and place.response and time.monotonic() - began < self.patience:
                if place.is_unknown:
                    await asyncio.sleep(_AGAIN_SECONDS)
                path = f"/v1/responses/{place.response}?stream=true&starting_after={place.number}"
                lost = await self._streamed(next(ports), f"GET {path}", b"", answer, place)
            answer.reply = answer.reply or lost
        except asyncio.CancelledError:
            answer.reply = answer.reply or RpcResponse(0, b"{}")
            raise
        except (AssertionError, KeyError) as error:
            self.broken.append(f"{place.response}: {error}")
            answer.reply = ConnectionClosed(str(error))
        finally:
            answer.news.set()

    async def _streamed(
        self, port: int, request: str, body: bytes, answer: Answer, place: _Place
    ) -> ConnectionClosed | None:
        """Read a stream of events to its end. Return why that was not possible."""
        writer: asyncio.StreamWriter | None = None
        place.is_unknown = False
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
            head = f"{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if status != b"200":
                said = (await reader.read()).split(b"\r\n")[-1]
                if place.response and status == b"503":
                    # The store has no leader just now.
                    place.is_unknown = True
                    return ConnectionClosed(said.decode())
                _fail(answer, json.loads(said or b"{}"))
                return None
            async for event in _events(reader):
                place.note(event, is_background=bool(self._others))
                _take(answer, event)
        except (OSError, asyncio.IncompleteReadError) as error:
            place.is_unknown = True
            return ConnectionClosed(str(error))
        finally:
            if writer is not None:
                writer.close()
        return None if answer.reply is not None else ConnectionClosed("the stream ended in the middle")


@dataclass
class _Place:
    """How far a client has read a background response."""

    response: str = ""
    number: int = -1
    # Whether the last server could not say what is there.
    is_unknown: bool = False

    def note(self, event: dict[str, Any], *, is_background: bool) -> None:
        if "sequence_number" not in event:
            return
        assert not is_background or event["sequence_number"] == self.number + 1, (
            f"after event {self.number} comes {event}"
        )
        self.number = event["sequence_number"]
        if is_background and event["type"] == "response.created":
            self.response = event["response"]["id"]


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
