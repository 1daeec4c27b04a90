"""The load generator: asks, and counts what comes. The same for every contestant, and as little as can be.

It does not parse: it looks for the words of the fake agent in the bytes, and for the times it wrote into them. Agent
and generator are on one machine and read one clock.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Bare", "Chat", "Consumer", "Editor", "Failed", "Heard", "Responses", "messages_of"]

_TICK = b"tick"
_STAMP = re.compile(rb"@(\d+) ")
# More than a time has, with what stands around it.
_STAMP_BYTES = 24
# Any contestant is done by then, on a busy machine too.
_PATIENCE = 120.0


class Failed(Exception):
    """An answer that is none."""


@dataclass(slots=True)
class Heard:
    """One answer, as it came."""

    began: float = field(default_factory=time.perf_counter)
    first: float = 0.0
    ended: float = 0.0
    size: int = 0
    ticks: int = 0
    # Seconds from the agent's write to our read, a part.
    lags: list[float] = field(default_factory=list)
    # Everything, where it is wanted.
    data: bytearray | None = None
    _tail: bytes = b""

    def feed(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self.first:
            self.first = time.perf_counter()
        self.size += len(data)
        if self.data is not None:
            self.data += data
        data = self._tail + data
        self.ticks += data.count(_TICK)
        end = 0
        for stamp in _STAMP.finditer(data):
            self.lags.append((now - int(stamp[1])) / 1e9)
            end = stamp.end()
        begun = data.rfind(b"@", end)
        self._tail = data[begun:] if begun >= 0 and len(data) - begun < _STAMP_BYTES else data[-3:]

    @property
    def parts(self) -> int:
        return self.ticks + len(self.lags)

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Consumer(Protocol):
    async def ask(
        self, said: list[tuple[str, str]], *, keep: bool = False, tools: tuple[str, ...] = ()
    ) -> Heard: ...

    async def close(self) -> None: ...


def messages_of(said: list[tuple[str, str]]) -> list[dict[str, object]]:
    """In the form of the editor."""
    return [{"role": role, "content": [{"type": "text", "value": text}]} for role, text in said]


class _Exchange(asyncio.Protocol):
    """One request and its answer, on a connection of its own."""

    def __init__(self, request: bytes, heard: Heard) -> None:
        self._request = request
        self._heard = heard
        self._tail = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._heard.size and b" 200 " not in data[:16]:
            self._end(Failed(data[:600].decode(errors="replace")))
            return
        self._heard.feed(data)
        if b"[DONE]" in self._tail + data:
            self._end(None)
        self._tail = data[-200:]

    def connection_lost(self, error: Exception | None) -> None:
        self._end(Failed(f"the connection was lost ({error}) after {self._tail!r}"))

    def _end(self, error: Failed | None) -> None:
        if not self.done.done():
            self._heard.ended = time.perf_counter()
            if error is not None:
                self.done.set_exception(error)
            else:
                self.done.set_result(None)
            self._transport.close()


class Chat:
    """Over HTTP, as chat completions."""

    path = "/v1/chat/completions"

    def __init__(self, port: int, model: str = "bench") -> None:
        self._port = port
        self._model = model

    def _body(self, said: list[tuple[str, str]]) -> dict[str, object]:
        return {"messages": [{"role": role, "content": text} for role, text in said]}

    async def ask(
        self, said: list[tuple[str, str]], *, keep: bool = False, tools: tuple[str, ...] = ()
    ) -> Heard:
        del tools
        body = json.dumps({"model": self._model, "stream": True, **self._body(said)}).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer bench\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        heard = Heard(data=bytearray() if keep else None)
        loop = asyncio.get_running_loop()
        transport, exchange = await loop.create_connection(
            lambda: _Exchange(head.encode() + body, heard), "127.0.0.1", self._port
        )
        try:
            async with asyncio.timeout(_PATIENCE):
                await exchange.done
        finally:
            # Also when nobody wants the rest.
            transport.close()
        return heard

    async def close(self) -> None:
        """Every request has a connection of its own."""


class Responses(Chat):
    """Over HTTP, as Open Responses."""

    path = "/v1/responses"

    def _body(self, said: list[tuple[str, str]]) -> dict[str, object]:
        return {"input": [{"type": "message", "role": role, "content": text} for role, text in said]}


class Editor(asyncio.Protocol):
    """Over standard input and output, as the VS Code extension. Many answers may come at once."""

    _ENDED = re.compile(rb'"id":(\d+),"(result|error)":([^\n]{0,300})')
    _FOR = re.compile(rb'"requestId":(\d+)')

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._heard: dict[int, tuple[Heard, asyncio.Future[None]]] = {}
        self._begun = b""
        self._writer: Any = None

    @classmethod
    async def connected(cls, reads: Any, writes: Any) -> Editor:
        loop = asyncio.get_running_loop()
        editor = cls()
        editor._writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, writes)
        await loop.connect_read_pipe(lambda: editor, reads)
        await editor.begin()
        return editor

    async def begin(self) -> None:
        await self._call("initialize", {"protocolVersion": 1, "client": {"name": "bench"}})

    def data_received(self, data: bytes) -> None:
        if len(self._heard) == 1:
            # Nobody else's: as it comes.
            ((only, (heard, _)),) = self._heard.items()
            heard.feed(data)
            data = self._begun[-64:] + data
            if b'"result"' in data or b'"error"' in data:
                self._end(data, only)
            self._begun = data[-64:]
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            told = self._FOR.search(line, 0, 120)
            number = self._number(int(told[1])) if told is not None else None
            if number is not None and number in self._heard:
                self._heard[number][0].feed(line)
            else:
                self._end(line, None)

    def _number(self, told: int) -> int | None:
        """The request that a part belongs to."""
        return told

    def _end(self, data: bytes, only: int | None) -> None:
        for ended in self._ENDED.finditer(data):
            number = int(ended[1])
            if number not in self._heard or only not in (None, number):
                continue
            heard, done = self._heard.pop(number)
            if only is None and heard.data is not None:
                heard.data += data
            heard.ended = time.perf_counter()
            if ended[2] == b"error":
                done.set_exception(Failed(ended[3].decode(errors="replace")))
            else:
                done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        for _, done in self._heard.values():
            if not done.done():
                done.set_exception(Failed(f"the connection was lost: {error}"))

    async def ask(
        self, said: list[tuple[str, str]], *, keep: bool = False, tools: tuple[str, ...] = ()
    ) -> Heard:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        offered = [{"name": name, "description": name, "inputSchema": schema} for name in tools or ("look",)]
        return await self.send(messages_of(said), offered, keep=keep)

    async def send(
        self, messages: Sequence[Mapping[str, object]], tools: Sequence[object], *, keep: bool
    ) -> Heard:
        params = {"modelId": "bench", "messages": messages, "options": {"tools": tools}}
        return await self._call("lm/provideLanguageModelChatResponse", params, keep=keep)

    async def _call(
        self, method: str, params: object, *, keep: bool = False, number: int | None = None
    ) -> Heard:
        number = next(self._ids) if number is None else number
        heard = Heard(data=bytearray() if keep else None)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard[number] = heard, done
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._writer.write(json.dumps(asked).encode() + b"\n")
        async with asyncio.timeout(_PATIENCE):
            await done
        return heard

    async def close(self) -> None:
        self._writer.close()


class Bare(Editor):
    """The agent's own client, with nothing between: a session for each request."""

    _FOR = re.compile(rb'"sessionId":"\d+-(\d+)"')

    def __init__(self) -> None:
        super().__init__()
        self._prompts: dict[int, int] = {}

    def _number(self, told: int) -> int | None:
        return self._prompts.get(told)

    async def begin(self) -> None:
        await self._call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    async def ask(
        self, said: list[tuple[str, str]], *, keep: bool = False, tools: tuple[str, ...] = ()
    ) -> Heard:
        del tools
        return await self.prompt(said[-1][1], (), keep=keep)

    async def prompt(self, text: str, servers: tuple[object, ...], *, keep: bool) -> Heard:
        created = await self._call("session/new", {"cwd": "/", "mcpServers": servers}, keep=True)
        session = json.loads(bytes(created.data or b"").splitlines()[-1])["result"]["sessionId"]
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        number = self._prompts[int(session.rpartition("-")[2])] = next(self._ids)
        return await self._call("session/prompt", params, keep=keep, number=number)
