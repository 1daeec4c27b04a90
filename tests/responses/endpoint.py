"""An Open Responses endpoint on this machine that does exactly what a test says, also what no server should."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from dragoman.backends.responses.model import EndpointModel
from dragoman.backends.responses.settings import EndpointSettings
from dragoman.clock import Clock
from dragoman.lm import (
    CancellationToken,
    Capabilities,
    Consumer,
    Features,
    ModelInfo,
    Part,
    Request,
    Response,
)

__all__ = [
    "DEADLINE",
    "Asked",
    "Endpoint",
    "Reply",
    "ask",
    "endpoint",
    "json_reply",
    "model_of",
    "said",
    "sse",
    "whole",
]

Json: TypeAlias = dict[str, Any]

# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
DEADLINE = 30.0


def sse(*events: Json, done: bool = False) -> bytes:
    """As a server writes them: numbered, with their type as the event's name."""
    numbered = ({"sequence_number": number, **event} for number, event in enumerate(events))
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def said(*words: str) -> list[Json]:
    """The events of an answer that says so."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    content = [{"type": "output_text", "text": "".join(words), "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    return [
        {"type": "response.created", "response": whole("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.content_part.added", **place, "part": {"type": "output_text", "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word} for word in words),
        {"type": "response.output_text.done", **place, "text": "".join(words)},
        {"type": "response.content_part.done", **place, "part": content[0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole("completed", item)},
    ]


def whole(status: str, *output: Json, **fields: object) -> Json:
    return {"id": "resp_1", "object": "response", "status": status, "output": list(output), **fields}


@dataclass(frozen=True)
class Reply:
    chunks: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    # hold: the stream stays open until the client leaves. reset: the connection breaks. cut: it ends in mid-body.
    then: Literal["end", "hold", "reset", "cut"] = "end"
    # Nothing at all is sent, not even a status.
    is_silent: bool = False


def json_reply(body: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply((json.dumps(body).encode(),), status, {"Content-Type": "application/json", **named})


@dataclass(frozen=True)
class Asked:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        value: Json = json.loads(self.body)
        return value


class Endpoint:
    """Replies in turn; the last one goes on being given."""

    def __init__(self) -> None:
        self.url = ""
        self.replies: list[Reply] = []
        self.asked: list[Asked] = []
        # Instead of replies in turn.
        self.answer: Callable[[Asked], Reply] | None = None
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.models: object = {"object": "list", "data": []}
        self.connections = 0
        self.open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def posts(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == "POST"]

    def will(self, *replies: Reply | Iterable[Json]) -> None:
        self.replies = [each if isinstance(each, Reply) else Reply((sse(*each),)) for each in replies]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        served = asyncio.current_task()
        assert served is not None
        self.open[served] = writer
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self.arrived.set()
                if asked.method == "GET":
                    await self._reply(reader, writer, json_reply(self.models))
                    continue
                reply = self.answer(asked) if self.answer else self._next()
                if not await self._reply(reader, writer, reply):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.pop(served)
            self.left.set()
            writer.close()

    def _next(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        if not reply.is_silent:
            headers = {"Transfer-Encoding": "chunked", **reply.headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {reply.status} Status\r\n{head}\r\n".encode())
            for chunk in filter(None, reply.chunks):
                writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await writer.drain()
        match reply.then:
            case "end" if not reply.is_silent:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return True
            case "reset":
                # Closed with data lost: the client's system is told to forget the connection.
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            case "hold" | "end":
                # Until the client has left: nothing else of it is expected.
                await reader.read()
        return False


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head[0].split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, target, headers, body)


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    served = Endpoint()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield served
    finally:
        server.close()
        for writer in served.open.values():
            writer.transport.abort()
        if served.open:
            await asyncio.wait(list(served.open), timeout=DEADLINE)


def model_of(
    url: str, *, clock: Clock | None = None, model_id: str = "gateway", **settings: Any
) -> EndpointModel:
    info = ModelInfo(
        model_id, "Gateway", "family", "1", 1_000, 1_000, Capabilities(image_input=True), required_calls=True
    )
    return EndpointModel(
        info,
        EndpointSettings(model_id, "Gateway", url, "some/model", **settings),
        clock=clock,
        chance=lambda: 1.0,
    )


async def ask(model: EndpointModel, request: Request) -> tuple[Part, ...]:
    """Everything that a model reports."""
    response = Response()
    async with asyncio.timeout(DEADLINE):
        await model.respond(request, response, CancellationToken())
    return tuple(response.parts)


EVERYTHING = Consumer(features=Features(thinking=True, data=True))
