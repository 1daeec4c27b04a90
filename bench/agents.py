"""The fake agent: as many of them as anybody starts, in one process, so that they are never what is slow.

    python -m bench.agents SOCKET

Prints the port at which the same answers can be had as chat completions, for those that speak to models and not to
agents. What an agent says is ordered in the last words of its prompt:

    !say N            N parts, as fast as they are taken
    !pace RATE N      N parts, so many a second, each with the time at which it was sent
    !grow N BYTES     the output of one tool call, which grows by so many bytes N times, and is sent in full each time
    !call N           N calls of the first tool it is offered, one after the other; then their times in microseconds
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop
from devtools.mcp_over_http import connect

from dragoman.acp.messages import HttpServer, StdioServer
from dragoman.demo.mcp import ToolClient

__all__ = ["PART", "STAMPED"]

_BLOCK = 200
# What parts say: some words, as models stream them, and not always the same: LiteLLM takes that for a broken model.
_PARTS = tuple(f"some words {number:03d} tick " for number in range(_BLOCK))
PART = _PARTS[0]
STAMPED = "@%d some words "
_ORDER = re.compile(r"!(say|pace|grow|call)((?: \d+)+)")
_READ = 256 * 1024
_CAPABILITIES: dict[str, object] = {"promptCapabilities": {}, "sessionCapabilities": {}}


class _Pipe:
    """Writes to a descriptor in order, and waits when it is full."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._unsent: deque[bytes] = deque()
        self._sent = asyncio.Event()
        self._sent.set()

    def write(self, data: bytes) -> None:
        self._unsent.append(data)
        if len(self._unsent) == 1:
            self._flush()

    async def drain(self) -> None:
        await self._sent.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_writer(self._fd)
        os.close(self._fd)
        self._sent.set()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._unsent:
            data = self._unsent[0]
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                written = 0
            except OSError:
                # Nobody reads any more; the end of what is read tells.
                self._unsent.clear()
                break
            if written < len(data):
                self._unsent[0] = data[written:]
                self._sent.clear()
                loop.add_writer(self._fd, self._flush)
                return
            self._unsent.popleft()
        loop.remove_writer(self._fd)
        self._sent.set()


class _Agent:
    def __init__(self, pid: int, reads: int, writes: int, *, takes_http: bool) -> None:
        self._pid = pid
        self._reads = reads
        self._takes_http = takes_http
        self._begun = b""
        self._pipe = _Pipe(writes)
        self._sessions = 0
        self._tools: dict[str, ToolClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        os.set_blocking(reads, False)
        asyncio.get_running_loop().add_reader(reads, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._reads, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            task = asyncio.create_task(self._take(json.loads(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._reads)
        for task in self._tasks:
            task.cancel()
        os.close(self._reads)
        self._pipe.close()
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    async def _take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            return
        answer: dict[str, object] = {}
        match method:
            case "initialize":
                http = {"mcpCapabilities": {"http": True}} if self._takes_http else {}
                answer = {"protocolVersion": 1, "agentCapabilities": {**_CAPABILITIES, **http}}
            case "session/new":
                self._sessions += 1
                answer = {"sessionId": f"{self._pid}-{self._sessions}"}
                await self._connect(str(answer["sessionId"]), params.get("mcpServers") or [])
            case "session/prompt":
                said = "".join(str(block.get("text", "")) for block in params["prompt"])
                await self._answer(params["sessionId"], said)
                answer = {"stopReason": "end_turn"}
            case _:
                self._send({"id": message["id"], "error": {"code": -32601, "message": f"no {method} here"}})
                return
        self._send({"id": message["id"], "result": answer})

    async def _connect(self, session: str, servers: list[dict[str, Any]]) -> None:
        for server in servers:
            address = msgspec.convert(server, HttpServer if "url" in server else StdioServer)
            client = await connect(cast("HttpServer | StdioServer", address), Path.cwd(), lambda: None)
            await client.tools()
            self._tools[session] = client

    def _send(self, message: dict[str, object]) -> None:
        self._pipe.write(_line(message))

    async def _answer(self, session: str, said: str) -> None:
        name, numbers = _order(said)
        if name == "grow":
            await self._grow(session, *numbers)
        elif name == "call":
            await self._call(session, *numbers)
        else:
            line = _line(_update(session, "agent_message_chunk", {"type": "text", "text": "%s"}))
            async for data in _parts(name, numbers, lambda text: line.replace(b"%s", text)):
                self._pipe.write(data)
                await self._pipe.drain()

    async def _grow(self, session: str, times: int, step: int) -> None:
        output = "".join(f"{number:08d} " + "x" * 90 + "\n" for number in range(times * step // 100 + 1))
        call = {"toolCallId": "t", "title": "build", "kind": "execute", "status": "in_progress"}
        self._send(_update(session, "tool_call", None, **call))
        for number in range(1, times + 1):
            text = {"type": "text", "text": output[: number * step]}
            content = [{"type": "content", "content": text}]
            self._send(_update(session, "tool_call_update", content, toolCallId="t"))
            await self._pipe.drain()
        self._send(_update(session, "tool_call_update", None, toolCallId="t", status="completed"))
        self._send(_update(session, "agent_message_chunk", {"type": "text", "text": "Done."}))

    async def _call(self, session: str, times: int) -> None:
        tools = self._tools[session]
        name = (await tools.tools())[0].name
        taken: list[str] = []
        for _ in range(times):
            began = time.perf_counter()
            result = await tools.call(name, {"word": "tick"}, lambda _progress: None)
            taken.append("error" if result.is_error else f"{(time.perf_counter() - began) * 1e6:.0f}")
        text = {"type": "text", "text": f"took {' '.join(taken)} ."}
        self._send(_update(session, "agent_message_chunk", text))


def _line(message: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def _update(session: str, kind: str, content: object, /, **fields: object) -> dict[str, object]:
    update = {"sessionUpdate": kind, **({"content": content} if content is not None else {}), **fields}
    return {"method": "session/update", "params": {"sessionId": session, "update": update}}


def _order(said: str) -> tuple[str, list[int]]:
    """The last one in it: a bridge may have told the whole history."""
    orders = _ORDER.findall(said)
    if not orders:
        return "say", [1]
    return orders[-1][0], [int(number) for number in orders[-1][1].split()]


async def _parts(name: str, numbers: list[int], form: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
    """What is to be written for an order: many parts at once where they are not paced."""
    if name == "say":
        count, parts = numbers[0], [form(part.encode()) for part in _PARTS]
        block = b"".join(parts)
        for _ in range(count // _BLOCK):
            yield block
        if count % _BLOCK:
            yield b"".join(parts[: count % _BLOCK])
        return
    rate, count = numbers
    loop = asyncio.get_running_loop()
    # Streams do not begin in step with each other.
    due = loop.time() + random.random() / rate  # noqa: S311 - no secret
    for _ in range(count):
        await asyncio.sleep(max(0.0, due - loop.time()))
        yield form((STAMPED % time.monotonic_ns()).encode())
        due += 1 / rate


async def _complete_chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request a connection; `stream` is taken for granted."""
    with suppress(OSError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        body = json.loads(await reader.readexactly(length) or b"{}")
        said = str(body.get("messages", [{}])[-1].get("content", ""))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        choice = {"index": 0, "delta": {"role": "assistant", "content": "%s"}, "finish_reason": None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
        event = b"data: %s\n\n" % json.dumps({**chunk, "choices": [choice]}).encode()
        name, numbers = _order(said)
        async for data in _parts(name, numbers, lambda text: event.replace(b"%s", text)):
            writer.write(data)
            await writer.drain()
        end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        writer.write(b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(end).encode())
        await writer.drain()
    writer.close()


async def _serve(path: str) -> None:
    loop = asyncio.get_running_loop()
    agents: list[_Agent] = []

    def accept(listener: socket.socket, *, takes_http: bool) -> None:
        connection, _ = listener.accept()
        with connection:
            pid, (reads, writes), _, _ = socket.recv_fds(connection, 64, 2)
            agents.append(_Agent(int(pid), reads, writes, takes_http=takes_http))
            connection.send(b".")

    for name, takes_http in ((path, True), (f"{path}.stdio", False)):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(name)
        listener.listen(1024)
        loop.add_reader(listener, partial(accept, listener, takes_http=takes_http))
    chat = await asyncio.start_server(_complete_chat, "127.0.0.1", 0)
    print(chat.sockets[0].getsockname()[1], flush=True)
    # Whoever started us holds the other end.
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1]))
