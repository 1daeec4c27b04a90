"""A child process that ends with us, whatever happens to us.

We start the supervisor (`supervisor.py`), and it starts the command. The command's standard input and output are pipes
straight to us; its standard error is read all the time, and its end is buffered for error messages.

The end of the child and the end of everything are two things. `wait` returns when the child has ended. The supervisor
then ends what the child left behind; when that is done, `stop` returns.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from types import TracebackType
from typing import Self

from dragoman.jsonrpc import Peer, PeerOptions, Receiver, connect_files
from dragoman.process.control import Control
from dragoman.process.deadline import follow_deadline
from dragoman.process.exit import Exit
from dragoman.process.identity import ProcessIdentity
from dragoman.process.launch import Launched, launch
from dragoman.process.ledger import Ledger
from dragoman.process.marks import MARK_VARIABLE, end_marked, new_mark
from dragoman.process.spawn import SpawnError, refuse_impossible, spawn_error
from dragoman.process.supervisor import encode_order
from dragoman.process.tail import Tail

__all__ = ["ORPHAN_GRACE_SECONDS", "STOP_GRACE_SECONDS", "SupervisedProcess"]

_log = logging.getLogger(__name__)

# What `stop` waits after the end of input, and again after SIGTERM. Agents that heed either need far less.
STOP_GRACE_SECONDS = 2.0
# Between SIGTERM and SIGKILL when we are gone ourselves: two seconds after us nothing may be left.
ORPHAN_GRACE_SECONDS = 0.75
# An interpreter and a command start in a tenth of a second; on a machine that swaps, in some seconds.
_START_SECONDS = 30.0
# Longer than the supervisor itself waits for SIGKILL to work.
_SUPERVISOR_SECONDS = 10.0
# How long last words may come after the exit. Without a limit: a grandchild can hold the stream open for ever.
_LAST_WORDS_SECONDS = 0.25
# A killed process is gone in no time, unless the kernel holds it.
_KILL_SECONDS = 1.0
# Between two looks whether one that is bound to end has ended.
_REAP_LOOK_SECONDS = 0.002


class SupervisedProcess:
    """Made by `start`, ended by `stop`; or both by `async with await SupervisedProcess.start(...)`."""

    def __init__(self, command: Sequence[str], launched: Launched, ledger: Ledger | None) -> None:
        self.command = tuple(command)
        # Unbuffered. They belong to the connection once `connect` was called.
        self.stdin = launched.stdin
        self.stdout = launched.stdout
        self._supervisor = launched.supervisor
        self._ledger = ledger
        self._control = Control()
        self._tail = Tail()
        self._pid = 0
        self._mark = new_mark()
        self._identity: ProcessIdentity | None = None
        self._peer: Peer | None = None
        self._close_input: Callable[[], None] = launched.stdin.close
        self._exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch(), name=f"watch {command[0]}")
        # A task that is cancelled before its first step runs nothing of itself, not even its `finally`.
        self._watching.add_done_callback(self._settle_unwatched)
        self._stopping: asyncio.Task[None] | None = None
        self._forget_deadline: Callable[[], None] = lambda: None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ledger: Ledger | None = None,
    ) -> SupervisedProcess:
        """Start `command`, with the environment `env`, or with ours, and a mark, in the folder `cwd`, or in ours.

        Raises `SpawnError`, whose `kind` says what the user can do about it.
        """
        environment = os.environ if env is None else env
        refuse_impossible(command, environment)
        try:
            launched = launch()
        except OSError as error:
            raise SpawnError(
                "failed", f"The system cannot start a process: {error.strerror}.", "End some others first."
            ) from error
        process = cls(command, launched, ledger)
        given = {**environment, MARK_VARIABLE: process._mark}
        order = encode_order(
            (
                [os.fsencode(word) for word in command],
                {os.fsencode(name): os.fsencode(value) for name, value in given.items()},
                None if cwd is None else os.fsencode(cwd),
                ORPHAN_GRACE_SECONDS,
            )
        )
        try:
            await process._begin(launched, order, cwd, environment.get("PATH"))
        except BaseException:
            await process.stop(0)
            raise
        return process

    async def connect(self, receiver: Receiver, options: PeerOptions) -> Peer:
        """Connect to its standard input and output with JSON-RPC."""
        self._peer = await connect_files(receiver, self.stdout, self.stdin, options)
        self._close_input = self._peer.close_writing
        return self._peer

    @property
    def pid(self) -> int:
        """The pid, which is also the number of its process group."""
        return self._pid

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it runs."""
        return self._exited.result() if self._exited.done() else None

    @property
    def stderr_tail(self) -> str:
        """The last lines of its standard error; all of them, once `wait` has returned."""
        return self._tail.text

    async def wait(self) -> Exit:
        """Wait until the child itself has ended."""
        return await asyncio.shield(self._exited)

    async def stop(self, grace: float = STOP_GRACE_SECONDS) -> Exit:
        """End it and everything it started, and wait until that is done.

        The end of its input first; SIGTERM if it still runs after `grace` seconds; SIGKILL after as many again. If
        the waiting task is cancelled, the process ends all the same.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(grace), name=f"stop {self.command[0]}")
        await asyncio.shield(self._stopping)
        return await self.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # Beginning.

    async def _begin(self, launched: Launched, order: bytes, cwd: Path | None, path: str | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: self._control, sock=launched.control)
            await loop.connect_read_pipe(lambda: self._tail, launched.stderr)
        except BaseException:
            self._control.abandon()
            launched.control.close()
            launched.stderr.close()
            raise
        self._control.send(order)
        self._forget_deadline = follow_deadline(self._control.send)
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await asyncio.shield(self._control.start)
        except TimeoutError:
            line = ""
        match line.split():
            case ["started", pid]:
                self._pid = int(pid)
            case ["failed", stage, number]:
                raise spawn_error(stage, int(number), self.command, cwd, path)
            case _:
                # What it said may come behind its end.
                await _at_most(_LAST_WORDS_SECONDS, self._tail.ended.wait())
                raise SpawnError(
                    "failed",
                    f"The supervisor of {self.command[0]!r} did not start. {self.stderr_tail}".strip(),
                    "Check the Python installation.",
                )
        self._identity = ProcessIdentity.of(self._pid)
        if self._ledger is not None and self._identity is not None:
            with _logged_failure("written", self._pid):
                self._ledger.record(self._identity, self.command, self._mark)

    # Ending.

    async def _stop(self, grace: float) -> None:
        self._close_input()
        if self._pid:
            await _at_most(grace, self.wait())
        self._control.end(grace)
        await asyncio.wait({self._watching}, timeout=grace + _SUPERVISOR_SECONDS)
        if not self._watching.done():
            # Stopped or stuck. Its channel closes with it, and `_watch` does the rest.
            self._supervisor.kill()
            await asyncio.wait({self._watching})
        if self._peer is None:
            self.stdout.close()
        else:
            await _at_most(_LAST_WORDS_SECONDS, self._peer.wait_closed())
            self._peer.close("the process has ended")
            await self._peer.wait_closed()

    async def _watch(self) -> None:
        """Watch the supervisor from the launch until it has ended."""
        try:
            exit_ = await asyncio.shield(self._control.exit)
            await _at_most(_LAST_WORDS_SECONDS, self._tail.ended.wait())
            self._exited.set_result(exit_)
            await self._control.closed.wait()
        finally:
            await self._clean_up()

    def _settle_unwatched(self, _watching: asyncio.Task[None]) -> None:
        if not self._exited.done():
            self._control.abandon()
            self._exited.set_result(Exit())

    async def _clean_up(self) -> None:
        """Clean up after the end, also if the event loop ends first: then close the channel."""
        self._forget_deadline()
        self._control.abandon()
        patience = _SUPERVISOR_SECONDS
        while self._supervisor.poll() is None:
            await asyncio.sleep(_REAP_LOOK_SECONDS)
            patience -= _REAP_LOOK_SECONDS
            if patience < 0:
                self._supervisor.kill()
        if not self._exited.done():
            self._exited.set_result(Exit())
        if self._exited.result() == Exit():
            await self._kill_group()
        self._tail.close()
        if self._ledger is not None and self._identity is not None:
            with _logged_failure("removed", self._pid):
                self._ledger.forget(self._identity)

    async def _kill_group(self) -> None:
        """Kill the process group, after the supervisor was killed."""
        if self._pid:
            await self._kill_leader()
            # What had left the group.
            await end_marked(self._mark)

    async def _kill_leader(self) -> None:
        if ProcessIdentity.of(self._pid) not in (self._identity, None):
            return
        with suppress(OSError):
            os.killpg(self._pid, SIGKILL)
        patience = _KILL_SECONDS
        while patience > 0 and ProcessIdentity.of(self._pid) is not None:
            await asyncio.sleep(_REAP_LOOK_SECONDS)
            patience -= _REAP_LOOK_SECONDS


@contextmanager
def _logged_failure(what: str, pid: int) -> Iterator[None]:
    """Log a failure to write the ledger, and go on: only a double crash would miss the entry."""
    try:
        yield
    except OSError as error:
        _log.warning("the ledger entry of process %d could not be %s: %s", pid, what, error)


async def _at_most(seconds: float, work: Awaitable[object]) -> None:
    """Wait for `work`, but not longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work
