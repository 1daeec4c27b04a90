"""The floor: a relay that does nothing but relay, with asyncio protocols and msgspec.

    python -m bench.floor asyncio|uvloop PORT|stdio AGENT…

One agent for all, a session for each request, no state, no errors, no back-pressure. On stdio it speaks the protocol of
`dragoman vscode`, at a port chat completions.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import uvloop

__all__: list[str] = []


class _Text(msgspec.Struct, frozen=True):
    text: str = ""


class _Update(msgspec.Struct, rename="camel"):
    session_update: str
    content: _Text = _Text()


class _Params(msgspec.Struct, rename="camel"):
    session_id: str
    update: _Update


class _FromAgent(msgspec.Struct):
    id: int | None = None
    params: _Params | None = None
    result: dict[str, Any] | None = None


_from_agent = msgspec.json.Decoder(_FromAgent)
_encode = msgspec.json.Encoder().encode


class _Agent(asyncio.SubprocessProtocol):
    def connection_made(self, transport: Any) -> None:
        self._begun = b""
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._says: dict[str, Callable[[str], None]] = {}
        self._input = transport.get_pipe_transport(0)

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - a protocol
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            message = _from_agent.decode(line)
            if message.params is not None:
                self._says[message.params.session_id](message.params.update.content.text)
            elif message.id is not None:
                self._replies.pop(message.id).set_result(message.result or {})

    async def ask(self, method: str, params: object) -> dict[str, Any]:
        number = len(self._replies) + 1
        while number in self._replies:
            number += 1
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._input.write(_encode(asked) + b"\n")
        return await reply

    async def prompt(self, text: str, say: Callable[[str], None]) -> None:
        session = (await self.ask("session/new", {"cwd": "/", "mcpServers": []}))["sessionId"]
        self._says[session] = say
        await self.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        del self._says[session]


class _Part(msgspec.Struct, tag="text", tag_field="type"):
    value: str


class _Reported(msgspec.Struct, rename="camel"):
    request_id: int
    part: _Part


class _PartTold(msgspec.Struct):
    jsonrpc: str
    method: str
    params: _Reported


class _Stdio(asyncio.Protocol):
    def __init__(self, agent: _Agent, write: Callable[[bytes], None]) -> None:
        self._agent = agent
        self._write = write
        self._begun = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            task = asyncio.create_task(self._take(msgspec.json.decode(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set()

    async def _take(self, message: dict[str, Any]) -> None:
        number = message["id"]

        def say(text: str) -> None:
            part = _PartTold("2.0", "lm/responsePart", _Reported(number, _Part(text)))
            self._write(_encode(part) + b"\n")

        if message["method"] == "lm/provideLanguageModelChatResponse":
            await self._agent.prompt(message["params"]["messages"][-1]["content"][0]["value"], say)
        self._write(_encode({"jsonrpc": "2.0", "id": number, "result": {}}) + b"\n")


class _Delta(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    index: int
    delta: _Delta
    finish_reason: str | None


class _Chunk(msgspec.Struct):
    id: str
    object: str
    created: int
    model: str
    choices: tuple[_Choice]


class _Http(asyncio.Protocol):
    """Takes one request a connection, and sends each event as a chunk of its own."""

    def __init__(self, agent: _Agent) -> None:
        self._agent = agent
        self._request = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        head, found, body = self._request.partition(b"\r\n\r\n")
        if found and len(body) == int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self._task = asyncio.create_task(self._answer(msgspec.json.decode(body)))

    async def _answer(self, body: dict[str, Any]) -> None:
        write = self._transport.write

        def put(event: bytes) -> None:
            write(b"%x\r\ndata: %b\n\n\r\n" % (len(event) + 8, event))

        def say(text: str) -> None:
            choice = _Choice(0, _Delta(text), None)
            put(_encode(_Chunk("c", "chat.completion.chunk", 1, "bench", (choice,))))

        write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            b"connection: close\r\n\r\n"
        )
        await self._agent.prompt(body["messages"][-1]["content"], say)
        put(b"[DONE]")
        write(b"0\r\n\r\n")
        self._transport.close()


async def _run(way: str, command: list[str]) -> None:
    loop = asyncio.get_running_loop()
    _, agent = await loop.subprocess_exec(_Agent, *command, stderr=None)
    await agent.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    if way == "stdio":
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
        stdio = _Stdio(agent, writer.write)
        await loop.connect_read_pipe(lambda: stdio, sys.stdin.buffer)
        await stdio.ended.wait()
        return
    server = await loop.create_server(lambda: _Http(agent), "127.0.0.1", int(way))
    await server.serve_forever()


if __name__ == "__main__":
    make = uvloop.new_event_loop if sys.argv[1] == "uvloop" else None
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(_run(sys.argv[2], sys.argv[3:]))
