"""Calls of tools as a runtime makes them, and a way to know when the processes of a call are gone."""

import asyncio
import itertools
import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from dragoman.lm import CancellationSource, CancellationToken, TextPart
from dragoman.lm.parts import ToolResult
from dragoman.tools import schema
from dragoman.tools.definition import DefinedTool
from dragoman.tools.tool import Invocation, PreparedInvocation

__all__ = ["DEADLINE", "Deadline", "Lifeline", "Workbench", "text"]

# Far more than anything here takes; only a test that hangs meets it.
DEADLINE = 30

_numbers = itertools.count(1)


def text(result: ToolResult) -> str:
    return "".join(part.value for part in result.content if isinstance(part, TextPart))


class Workbench:
    """A tool and the folders it works in."""

    def __init__(self, tool: DefinedTool, *folders: Path) -> None:
        self.tool = tool
        self.folders = folders
        self.progress: list[str] = []

    def invocation(self, **given: object) -> Invocation:
        completed = schema.complete(self.tool.declaration.input_schema, given)
        return Invocation(completed, self.folders, f"call-{next(_numbers)}", self.progress.append)

    async def prepare(self, invocation: Invocation) -> PreparedInvocation:
        async with asyncio.timeout(DEADLINE):
            return await self.tool.prepare_invocation(invocation, CancellationSource().token)

    async def ask(self, **given: object) -> PreparedInvocation:
        return await self.prepare(self.invocation(**given))

    async def invoke(self, invocation: Invocation, token: CancellationToken | None = None) -> ToolResult:
        async with asyncio.timeout(DEADLINE):
            return await self.tool.invoke(invocation, token or CancellationSource().token)

    async def call(self, **given: object) -> ToolResult:
        """Prepared, then invoked."""
        invocation = self.invocation(**given)
        await self.prepare(invocation)
        return await self.invoke(invocation)

    async def said(self, **given: object) -> str:
        """The text of a call that succeeds."""
        result = await self.call(**given)
        assert not result.is_error, text(result)
        return text(result)

    async def complaint(self, **given: object) -> str:
        """The text of a call that fails."""
        result = await self.call(**given)
        assert result.is_error, text(result)
        return text(result)


class Deadline:
    """A deadline of so many seconds that passes when the test says so, and not before."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self._timeout: asyncio.Timeout | None = None
        self._is_past = False
        real = asyncio.timeout

        def timeout(delay: float | None) -> asyncio.Timeout:
            if delay != seconds:
                return real(delay)
            self._timeout = real(0 if self._is_past else None)
            return self._timeout

        monkeypatch.setattr(asyncio, "timeout", timeout)

    def pass_now(self) -> None:
        self._is_past = True
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())


class Lifeline:
    """A named pipe that processes hold open for writing: it ends when the last of them has, however that came."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # Without a writer there would be an end before there was a beginning.
        self._own_writer: int | None = os.open(path, os.O_WRONLY)
        self._reader: asyncio.StreamReader | None = None
        self._transport: asyncio.ReadTransport | None = None

    async def first_line(self) -> str:
        """What a process wrote into it. From then on it ends with the processes."""
        reader = asyncio.StreamReader()
        pipe: IO[bytes] = os.fdopen(self._read_end, "rb")
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._reader = reader
        async with asyncio.timeout(DEADLINE):
            line = await reader.readline()
        assert self._own_writer is not None
        os.close(self._own_writer)
        self._own_writer = None
        return line.decode().strip()

    async def end(self) -> None:
        """Until everybody who held it is gone."""
        assert self._reader is not None
        async with asyncio.timeout(DEADLINE):
            await self._reader.read()
        self.close()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    @contextmanager
    def watched_without_a_loop(self) -> Iterator[Callable[[], bool]]:
        """A function that waits until everybody is gone, and says whether that came about."""
        read_end = os.dup(self._read_end)
        try:
            yield lambda: bool(select.select([read_end], [], [], DEADLINE)[0]) and os.read(read_end, 1) == b""
        finally:
            os.close(read_end)
