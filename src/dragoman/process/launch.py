"""Starting the supervisor, with pipes that no other process inherits."""

from __future__ import annotations

import fcntl
import io
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

__all__ = ["Launched", "launch"]

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
# Numbers below are the standard streams, also when our parent has closed them: the supervisor's own would be put
# over them, and what a library prints would end up in one of our pipes.
_FIRST_FREE_FD = 3


class Launched(NamedTuple):
    """Our ends of all pipes. The caller closes them."""

    supervisor: subprocess.Popen[bytes]
    control: socket.socket
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO


def launch() -> Launched:
    """Start a supervisor, which waits for its order. Raises `OSError` if the system is out of resources."""
    with ExitStack() as theirs, ExitStack() as ours:
        stdin_end, stdin = _pipe()
        theirs.callback(os.close, stdin_end)
        ours.callback(os.close, stdin)
        stdout, stdout_end = _pipe()
        theirs.callback(os.close, stdout_end)
        ours.callback(os.close, stdout)
        stderr, stderr_end = _pipe()
        theirs.callback(os.close, stderr_end)
        ours.callback(os.close, stderr)
        control, control_end = (_moved_up(end.detach()) for end in socket.socketpair())
        theirs.callback(os.close, control_end)
        ours.callback(os.close, control)
        supervisor = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(control_end)],
            stdin=stdin_end,
            stdout=stdout_end,
            stderr=stderr_end,
            pass_fds=(control_end,),
            # Ctrl-C in a terminal is for us; we pass on what it means.
            start_new_session=True,
        )
        ours.pop_all()
        return Launched(
            supervisor,
            socket.socket(fileno=control),
            cast("BinaryIO", io.FileIO(stdin, "wb")),
            cast("BinaryIO", io.FileIO(stdout, "rb")),
            cast("BinaryIO", io.FileIO(stderr, "rb")),
        )


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    return _moved_up(reader), _moved_up(writer)


def _moved_up(fd: int) -> int:
    """Duplicate a descriptor to a number above those of the standard streams."""
    if fd >= _FIRST_FREE_FD:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
    finally:
        os.close(fd)
