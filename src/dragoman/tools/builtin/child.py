"""A program run to its end, with everything it starts: until it is done, times out, or is cancelled.

It is supervised (`dragoman.process`): it has a session and a process group of its own, cannot reach our terminal, and
ends with us, whatever happens to us. What it leaves behind ends with it, on Linux also what has left its group.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dragoman.process import Exit, SupervisedProcess

__all__ = ["END_SECONDS", "LINGER_SECONDS", "NO_TERMINAL", "run_child", "run_module"]

# For programs that would ask for a key press, draw a screen or colour their output: there is no terminal.
NO_TERMINAL = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}

# Before a cancelled program gets SIGTERM, and again before it gets SIGKILL: a cancelled turn waits
# for both.
END_SECONDS = 0.5
# Time for output that is still in the pipe when all has ended. It is longer in use only where a process got away.
LINGER_SECONDS = 0.5

# In a shell, because one pipe for both streams preserves the order of the output. Standard input comes from a file, so
# that a program that does not read it never blocks us.
_REDIRECTED = ("/bin/sh", "-c", 'exec "$@" <"$0" 2>&1')


async def run_child(
    command: Sequence[str],
    *,
    seconds: float,
    folder: Path,
    environment: Mapping[str, str],
    receive: Callable[[bytes], None],
    given: bytes = b"",
) -> Exit | None:
    """How the program ended; None if it was ended because time was over. `SpawnError` if it could not be started.

    What it says, on standard output and error, goes to `receive` as it comes; `given` is all there is to read for it.
    """
    output = _Output(receive)
    with _file_with(given) as to_read:
        process = await SupervisedProcess.start(
            [*_REDIRECTED, to_read, *command], env=environment, cwd=folder
        )
        try:
            # Under a number of our own: when all has ended, there may still be something to read in it.
            with os.fdopen(os.dup(process.stdout.fileno()), "rb", buffering=0) as its_output:
                process.stdin.close()
                process.stdout.close()
                reading, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: output, its_output)
                try:
                    exit_ = await _at_most(seconds, process)
                    await process.stop(END_SECONDS)
                    await asyncio.wait({output.closed}, timeout=LINGER_SECONDS)
                finally:
                    reading.close()
        finally:
            await process.stop(END_SECONDS)
    return exit_


async def run_module(
    module: str, *arguments: str, seconds: float, receive: Callable[[bytes], None], given: bytes = b""
) -> int | None:
    """Run a module of ours in a process. Returns its exit code; None if it was ended.

    For work that may take any time: a process can be ended, a thread cannot.
    """
    # -P: our own package, not what lies in the current folder under its name. -W: only results are printed.
    program = [sys.executable, "-P", "-W", "ignore", "-m", module, *arguments]
    exit_ = await run_child(
        program, seconds=seconds, folder=Path("/"), environment=os.environ, receive=receive, given=given
    )
    return None if exit_ is None else exit_.code


async def _at_most(seconds: float, process: SupervisedProcess) -> Exit | None:
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        return None


@contextmanager
def _file_with(given: bytes) -> Iterator[str]:
    if not given:
        yield os.devnull
        return
    with tempfile.NamedTemporaryFile(prefix="dragoman-") as file:
        file.write(given)
        file.flush()
        yield file.name


class _Output(asyncio.Protocol):
    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        self.closed.set_result(None)
