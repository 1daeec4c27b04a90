"""A child process with everything it starts, as one thing that ends.

The child leads a session and a process group of its own: it cannot reach our terminal, and one signal reaches it and
its children. However the block is left, nobody of the group is alive afterwards. (A process that makes itself a group
of its own gets away; nothing portable prevents that.)

It is started without awaiting anything, because a start that can be broken off may leave a group behind that nobody
knows the number of.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

__all__ = ["END_SECONDS", "LINGER_SECONDS", "ProcessGroup", "process_group", "run_module"]

# Time to put things away after being asked to end; a cancelled turn waits for it.
END_SECONDS = 1.0
# Time for output that is still in the pipe when the process has gone. What holds the pipe open for longer is a process
# left behind.
LINGER_SECONDS = 0.5


class ProcessGroup:
    """A group that runs."""

    def __init__(self, leader: subprocess.Popen[bytes]) -> None:
        self._leader = leader
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        # A daemon: should the process outlive us after all, it does not keep us alive.
        threading.Thread(target=self._watch, daemon=True).start()
        self.output_closed: asyncio.Future[None] = self._loop.create_future()

    async def finished(self) -> int:
        """The exit status, once the process has ended and what it said has arrived."""
        await asyncio.wait({self._exited})
        await asyncio.wait({self.output_closed}, timeout=LINGER_SECONDS)
        return self._leader.wait()

    async def end(self) -> bool:
        """Ask all to end, wait a moment, and end them. True if there was anybody."""
        try:
            anybody = self._signal(signal.SIGTERM)
            if anybody:
                await asyncio.wait({self._exited}, timeout=END_SECONDS)
        finally:
            # Whatever interrupts the wait. The leader may have gone while its children stay.
            self._signal(signal.SIGKILL)
        await asyncio.wait({self._exited}, timeout=END_SECONDS)
        return anybody

    def _signal(self, number: signal.Signals) -> bool:
        # The number of a group stays taken while one of its members lives, so it is ours or nobody's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader.pid, number)
            return True
        return False

    def _watch(self) -> None:
        self._leader.wait()
        # A loop that has closed is told nothing.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._exited.set_result, None)


class _Output(asyncio.Protocol):
    def __init__(self, receive: Callable[[bytes], None], closed: asyncio.Future[None]) -> None:
        self._receive = receive
        self._closed = closed

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._closed.set_result(None)


@asynccontextmanager
async def process_group(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    receive: Callable[[bytes], None],
    given: bytes = b"",
) -> AsyncIterator[ProcessGroup]:
    """Runs a program for as long as the block lasts.

    What it says, on standard output and error, goes to `receive` as it comes; `given` is all there is to read for it.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as output:
        # A file to read from, so that a program that does not read keeps nobody waiting.
        with os.fdopen(write_end, "wb") as its_output, tempfile.TemporaryFile() as its_input:
            its_input.write(given)
            its_input.seek(0)
            group = ProcessGroup(
                subprocess.Popen(  # noqa: ASYNC220, S603 - on purpose, see above; a person agreed
                    arguments,
                    cwd=folder,
                    env=environment,
                    stdin=its_input,
                    stdout=its_output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: _Output(receive, group.output_closed), output
            )
            try:
                yield group
            finally:
                transport.close()
        finally:
            await group.end()


async def run_module(
    module: str, *arguments: str, seconds: float, receive: Callable[[bytes], None], given: bytes = b""
) -> int | None:
    """Runs a module of ours in a process, and returns its exit status; None if it was ended because time was over.

    For work whose time nobody can foretell: a process can be ended, a thread cannot.
    """
    # -P: our own package, not what lies in the current folder under its name. -W: only results are printed.
    program = [sys.executable, "-P", "-W", "ignore", "-m", module, *arguments]
    async with process_group(
        program, folder=Path("/"), environment=os.environ, receive=receive, given=given
    ) as group:
        try:
            async with asyncio.timeout(seconds):
                return await group.finished()
        except TimeoutError:
            return None
