"""Runs a program in a pseudo terminal, for tests in Node, which has none.

    python terminal_relay.py COMMAND…

Standard output has one JSON object a line: `{"pid": 1}`, then `{"text": "…"}` for what the program writes, at last
`{"exit": 0}`. Each line of standard input is a JSON string, typed as it is. The end of standard input ends the program,
so nothing outlives a test that dies.
"""

from __future__ import annotations

import codecs
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from fcntl import ioctl

__all__: list[str] = []

_READ = 65_536
# Wide enough that no address is wrapped.
_ROWS, _COLUMNS = 60, 200
# `serve` drains first; then it is killed.
_PATIENCE = 10.0


def _tell(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _ended(pid: int, seconds: float) -> int | None:
    """The exit status of the program, or None if it still runs after that time."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            return None
        time.sleep(0.02)


def _relay(master: int) -> None:
    """Until one of the two ends."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    typed = b""
    while True:
        ready, _, _ = select.select([master, 0], [], [])
        if 0 in ready:
            data = os.read(0, _READ)
            if not data:
                return
            *lines, typed = (typed + data).split(b"\n")
            for line in lines:
                os.write(master, str(json.loads(line)).encode())
        if master in ready:
            try:
                data = os.read(master, _READ)
            except OSError:
                # The program has closed its terminal.
                return
            _tell(text=decoder.decode(data))


def main() -> None:
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is wanted
    ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    _tell(pid=pid)
    _relay(master)
    status = _ended(pid, 0.0)
    if status is None:
        os.kill(pid, signal.SIGTERM)
        status = _ended(pid, _PATIENCE)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        status = _ended(pid, _PATIENCE)
    _tell(exit=status)


if __name__ == "__main__":
    main()
