"""How many functions of ours run for one piece of text, and for one tool call.

    python -m bench.calls [--list]

The real front end of the editor, the real agent model and the real store are in this process; the agent is a process
that takes one step at a time (`stepped.py`). Counted are the functions of the package that run between the order to the
agent and the moment at which nothing happens any more: how many different ones, and how often Python enters one (a
coroutine that is resumed is entered again). A comprehension is part of its function. Functions of libraries and those
written in C count nothing. Unlike a time, such a number is the same on every machine.

- A piece of text: the fiftieth of an answer, from the agent's line to the line for the editor.
- A tool call: from the agent's `tools/call` over HTTP until the editor has the call and the end of its request. The
  second call of an answer.
- A tool call and its result: the same, then the whole of the editor's next request, which brings the result, until the
  agent has it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import dragoman
from bench.contestants import OURS, configured
from bench.figures import Column, Figure, Goal, Row
from bench.load import Failed
from bench.stage import Scale, Stage, run
from bench.table import text_of
from dragoman.config import load
from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.jsonrpc import PeerOptions, connect_files
from dragoman.models import Models

__all__ = ["CALL", "RESULT", "TEXT", "Calls", "counted", "measure"]

TEXT, CALL, RESULT = "a piece of text", "a tool call", "a tool call and its result"
_AGENT = Path(__file__).parent / "stepped.py"
_PACKAGE = str(Path(dragoman.__file__).parent) + os.sep
_GOALS = {TEXT: 25.0, CALL: 150.0}
# What is done once for an answer, and what a cache has to learn, is done by then.
_WARM = 49
# Turns of the event loop in which nothing of ours ran.
_QUIET = 50
# A step takes milliseconds; a call waits a moment for others (`gather_milliseconds`).
_PATIENCE = 60.0
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_TOOL = {
    "name": "look",
    "description": "Look something up.",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}},
}


class Calls:
    """The functions of the package that ran, in their order, while it was counting."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # Comprehensions have frames of their own up to Python 3.11, and none from 3.12 on.
        if event != "call" or code.co_name in _COMPREHENSIONS:
            return
        if code.co_filename.startswith(_PACKAGE):
            self.names.append(f"{code.co_filename.removeprefix(_PACKAGE)}: {code.co_qualname}")

    @contextmanager
    def counting(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    async def quiet(self) -> None:
        """Until nothing of ours runs any more."""
        still, before = 0, len(self.names)
        while still < _QUIET:
            await asyncio.sleep(0)
            still = still + 1 if len(self.names) == before else 0
            before = len(self.names)


class _Editor:
    """The extension's side: it sends requests and reads what comes, a line at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0
        self.history: list[dict[str, object]] = []

    def ask(self, method: str, params: object) -> None:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._writer.write(json.dumps(message).encode() + b"\n")

    def prompt(self, content: list[dict[str, object]]) -> None:
        self.history.append({"role": "user", "content": content})
        params = {"modelId": "bench", "messages": self.history, "options": {"tools": [_TOOL]}}
        self.ask("lm/provideLanguageModelChatResponse", params)

    async def next(self) -> dict[str, Any]:
        """The next part, or the result of the request."""
        while True:
            line = await self._reader.readline()
            message: dict[str, Any] = json.loads(line)
            if "error" in message:
                raise Failed(line.decode())
            if message.get("method") == "lm/responsePart":
                part: dict[str, Any] = message["params"]["part"]
                return part
            if "result" in message:
                return {"type": "result"}

    async def rest(self) -> list[dict[str, Any]]:
        """All parts up to the result."""
        parts = []
        while (part := await self.next())["type"] != "result":
            parts.append(part)
        return parts


class _Agent:
    """The other end of its orders."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def order(self, step: str) -> None:
        self._writer.write(step.encode() + b"\n")

    async def called(self) -> None:
        if await self._reader.readline() != b"called\n":
            raise Failed("the agent's call failed")

    def close(self) -> None:
        self._writer.close()


async def counted(folder: Path) -> dict[str, list[str]]:
    """The functions that ran for each, in their order."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[_Agent] = loop.create_future()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set_result(_Agent(reader, writer))

    address = str(folder / "steps")
    async with (
        asyncio.timeout(_PATIENCE),
        await asyncio.start_unix_server(connected, address),
        _editor(folder, (sys.executable, "-I", "-S", str(_AGENT), address)) as editor,
    ):
        editor.prompt([{"type": "text", "value": "Begin."}])
        agent = await came
        try:
            text = await _text(editor, agent)
            await _call(editor, agent)
            call, result = await _call(editor, agent)
        finally:
            agent.close()
        await editor.rest()
    return {TEXT: text, CALL: call, RESULT: result}


async def _text(editor: _Editor, agent: _Agent) -> list[str]:
    for _ in range(_WARM):
        agent.order("say")
        while (await editor.next())["type"] != "text":
            pass
    calls = Calls()
    await calls.quiet()
    with calls.counting():
        agent.order("say")
        await editor.next()
        await calls.quiet()
    return calls.names


async def _call(editor: _Editor, agent: _Agent) -> tuple[list[str], list[str]]:
    """Up to the end of the editor's request, and up to the result's arrival."""
    calls = Calls()
    await calls.quiet()
    with calls.counting():
        agent.order("call")
        parts = await editor.rest()
        await calls.quiet()
        handed_over = list(calls.names)
        made = next(part for part in parts if part["type"] == "tool_call")
        editor.history.append({"role": "assistant", "content": parts})
        found: dict[str, object] = {"type": "text", "value": "found"}
        editor.prompt([{"type": "tool_result", "callId": made["callId"], "content": [found]}])
        await agent.called()
        await calls.quiet()
    return handed_over, calls.names


@asynccontextmanager
async def _editor(folder: Path, agent: tuple[str, ...]) -> AsyncIterator[_Editor]:
    """Connected to a server as `dragoman vscode` runs it, in this process."""
    loop = asyncio.get_running_loop()
    configured(folder, agent)
    models = Models(load(folder / "dragoman.toml"), folder / "state")
    server = VsCodeServer(models)
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    peer = await connect_files(
        server, os.fdopen(in_read, "rb", 0), os.fdopen(out_write, "wb", 0), PeerOptions(name="editor")
    )
    reader = asyncio.StreamReader()
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out_read, "rb", 0)
    )
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(in_write, "wb", 0))
    try:
        editor = _Editor(reader, writing)
        editor.ask("initialize", {"protocolVersion": 1, "client": {"name": "bench"}})
        await editor.next()
        yield editor
    finally:
        writing.close()
        peer.close()
        await peer.wait_closed()
        await server.close()
        with contextlib.suppress(OSError):
            reading.close()


async def measure(stage: Stage, _scale: Scale) -> Figure:
    return _figure(await counted(Path(tempfile.mkdtemp(dir=stage.folder))))


def _figure(calls: dict[str, list[str]]) -> Figure:
    columns = Column("functions", "functions", 0), Column("calls", "calls", 0)
    rows = tuple(
        Row(case, OURS, {"functions": (float(len(set(names))),), "calls": (float(len(names)),)})
        for case, names in calls.items()
    )
    goals = tuple(
        Goal(f"functions for {case}", float(len(set(calls[case]))), limit, unit="functions")
        for case, limit in _GOALS.items()
    )
    return Figure("calls", "Functions of ours that run", columns, rows, goals)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true", help="print the functions, in their order")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as name:
        calls = run(lambda: counted(Path(name)))
    print(text_of(_figure(calls)))
    if arguments.list:
        for case, names in calls.items():
            print(f"{case}:", *names, "", sep="\n  ")


if __name__ == "__main__":
    main()
