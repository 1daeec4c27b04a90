"""A command that an agent runs in a terminal of its client: supervised by us, shown by the client.

It has no input, and one pipe for standard output and error, so that their order stays. The end of the output is kept for
the agent, up to a limit. A client that is behind slows the command down.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal as signals
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.lm.client_services import TerminalView
from dragoman.process import Exit, Ledger, SupervisedProcess
from dragoman.tools.builtin.child import END_SECONDS, LINGER_SECONDS

__all__ = ["OutputEnd", "TerminalProcess"]

# No program reads from it: one that waits for input would wait for ever.
_REDIRECTED = ("/bin/sh", "-c", 'exec "$@" </dev/null 2>&1', "sh")
_CHUNK_BYTES = 64 * 1024
# The bits that mark a byte in the middle of a character.
_MIDDLE_MASK, _MIDDLE = 0xC0, 0x80


class OutputEnd:
    """The last bytes of an output. What is left out is left out from the beginning, up to a whole character."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.is_truncated = False

    def add(self, text: str) -> None:
        self._data += text.encode()
        excess = len(self._data) - self._limit
        if excess <= 0:
            return
        self.is_truncated = True
        # "The client MUST ensure truncation happens at a character boundary", says ACP.
        while excess < len(self._data) and self._data[excess] & _MIDDLE_MASK == _MIDDLE:
            excess += 1
        del self._data[:excess]

    @property
    def text(self) -> str:
        return self._data.decode()


class TerminalProcess:
    """Made by `start`. `kill` ends it; `wait` returns when it has ended and all of its output was read."""

    def __init__(self, process: SupervisedProcess, view: TerminalView, limit: int) -> None:
        self.output = OutputEnd(limit)
        self.exit: Exit | None = None
        self._process = process
        self._view = view
        self._running = asyncio.create_task(self._run(), name="terminal")

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        view: TerminalView,
        limit: int,
        ledger: Ledger | None,
    ) -> TerminalProcess:
        """Start a command. Raises `SpawnError`."""
        process = await SupervisedProcess.start((*_REDIRECTED, *command), env=env, cwd=folder, ledger=ledger)
        return cls(process, view, limit)

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        if self.exit is None or self.exit.signal is None:
            return None
        try:
            return signals.Signals(self.exit.signal).name
        except ValueError:
            return str(self.exit.signal)

    async def wait(self) -> None:
        await asyncio.shield(self._running)

    async def kill(self) -> None:
        """End the command and everything that it has started."""
        await self._process.stop(END_SECONDS)
        await self.wait()

    async def _run(self) -> None:
        process = self._process
        reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        # Under a number of our own: when all has ended, there may still be something to read in it.
        with os.fdopen(os.dup(process.stdout.fileno()), "rb", buffering=0) as output:
            process.stdin.close()
            process.stdout.close()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), output
            )
            reading = asyncio.create_task(self._read(reader))
            try:
                exit_ = await process.wait()
                # What it has started ends with it.
                await process.stop(END_SECONDS)
                await asyncio.wait({reading}, timeout=LINGER_SECONDS)
            finally:
                reading.cancel()
                transport.close()
        self.exit = exit_
        self._view.ended(exit_.code, self.signal)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await reader.read(_CHUNK_BYTES):
            self._take(decoder.decode(data))
            await self._view.drain()
        self._take(decoder.decode(b"", final=True))

    def _take(self, text: str) -> None:
        if text:
            self.output.add(text)
            self._view.show(text)
