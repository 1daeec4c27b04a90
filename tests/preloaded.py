"""Starts `python -m dragoman` in a pseudo-terminal without the third of a second that its imports take.

A process of our own, the preloader, makes the imports once. For each program it forks; the child takes over the
terminal, the folder, the environment and the arguments, and runs the program. It is a process like any other: it has its
own session and terminal, gets signals and ends with an exit status. Only the start of Python itself is not repeated.

Run as a program, this file is the preloader. Between the preloader and the program stands a process that waits for the
program's end and reports it, because only a parent can.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

__all__ = ["PreloadedProgram", "can_preload"]

# A request: the arguments, the folder and the environment as JSON.
_MAX_REQUEST_BYTES = 100_000
# What Python reads when it starts. A program that is given one of these is started in the ordinary way.
_READ_AT_START = ("PYTHON", "LC_", "LANG")
_MODULES = (
    "dragoman.backends.agent.profile.memory_limit",
    "dragoman.cli.chat",
    "dragoman.cli.init",
    "dragoman.cli.parser",
    "dragoman.cli.run",
    "dragoman.cli.serve",
    "dragoman.frontends.terminal.entry",
    "dragoman.frontends.terminal.permission_tools",
    "dragoman.journal.sqlite.journals",
    "dragoman.models",
    "dragoman.tools.builtin.command",
    "dragoman.tools.builtin.edit",
    "dragoman.tools.builtin.fetch",
    "dragoman.tools.builtin.search",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.patch_stdout",
    "rich._emoji_codes",
    "rich.console",
)


def can_preload(arguments: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Whether this is our program, in an environment that changes nothing about Python itself.

    On a Mac, a process that forks must start another program: the system's libraries demand it.
    """
    return (
        sys.platform == "linux"
        and arguments[:2] == ("-m", "dragoman")
        and not any(name.startswith(_READ_AT_START) for name in environment)
    )


class PreloadedProgram:
    """A running program, with those methods of `subprocess.Popen` that a terminal needs."""

    def __init__(self, arguments: tuple[str, ...], slave: int, cwd: Path, env: Mapping[str, str]) -> None:
        """`slave` is the pseudo-terminal that becomes the program's own."""
        self._status, status = os.pipe()
        request = json.dumps([arguments[2:], str(cwd), dict(env)]).encode()
        assert len(request) <= _MAX_REQUEST_BYTES
        try:
            socket.send_fds(_preloader(), [request], [slave, status])
        finally:
            os.close(status)
        self._returned: int | None = None
        self._is_over = False
        self._news = b""
        while b"\n" not in self._news:
            self._hear(None)
        pid, _, self._news = self._news.partition(b"\n")
        self.pid = int(pid)

    def poll(self) -> int | None:
        while not self._is_over and select.select([self._status], [], [], 0)[0]:
            self._hear(0)
        return self._returned

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while not self._is_over:
            self._hear(max(0.0, deadline - time.monotonic()))
        assert self._returned is not None
        return self._returned

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float | None) -> None:
        if not select.select([self._status], [], [], timeout)[0]:
            raise TimeoutError(f"process {self.pid} still runs")
        data = os.read(self._status, 100)
        self._news += data
        if not data:
            os.close(self._status)
            self._is_over = True
            assert self._news, "the preloader has failed: run tests/preloaded.py to see why"
            self._returned = os.waitstatus_to_exitcode(int(self._news))


@cache
def _preloader() -> socket.socket:
    """The connection to the preloader of this process, which ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Python sets its standard streams up for what they are when it starts: here, as for a program, a terminal.
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        pass_fds=[theirs.fileno()],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    os.close(slave)
    theirs.close()
    # It has left its preloader behind.
    process.wait()

    def end() -> None:
        ours.close()
        os.close(master)

    atexit.register(end)
    return ours


def _serve(requests: socket.socket) -> None:
    """Fork for every request. Returns in the child that is to become the program."""
    while True:
        request, (*passed,), _, _ = socket.recv_fds(requests, _MAX_REQUEST_BYTES, 2)
        _reap()
        if not request:
            os._exit(0)
        slave, status = passed
        if os.fork() == 0:
            requests.close()
            if _is_program(slave, status):
                _become(*json.loads(request))
                return
        os.close(slave)
        os.close(status)


def _reap() -> None:
    """Forget the children that have ended. The time that they took is ours from then on, so that it can be measured."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _is_program(slave: int, status: int) -> bool:
    """Fork once more. True in the child; the parent reports the child's pid, then its end, and ends."""
    pid = os.fork()
    if pid == 0:
        os.close(status)
        os.login_tty(slave)
        return True
    os.close(slave)
    os.write(status, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    os.write(status, b"%d" % ended)
    os._exit(0)


def _become(arguments: list[str], cwd: str, environment: dict[str, str]) -> None:
    # A test run in the background of a shell ignores these, and its children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path[0] = cwd
    sys.argv[1:] = arguments


if __name__ == "__main__":
    if os.fork():
        # The preloader is nobody's child: tests measure the memory of all processes below them.
        os._exit(0)
    for _module in _MODULES:
        import_module(_module)
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("dragoman", run_name="__main__", alter_sys=True)
