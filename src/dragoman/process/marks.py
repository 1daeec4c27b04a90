"""A mark in the environment of a supervised process, by which its descendants are found.

The supervisor adopts orphans, so nothing gets away from it. When the supervisor itself is killed, a process that has left
its group and lost its parent is below no process of ours. It still has the environment it was started with, and in that a
random mark that no other process has. Linux shows it in /proc. A process that was started with another environment is
not found, and neither is any on a system without /proc.

Only processes of this user are looked at, and only those with exactly this mark are ended: never this process or one of
its parents, and never a pid that was given to another process meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from dragoman.process.identity import ProcessIdentity
from dragoman.process.supervisor import processes

__all__ = ["MARK_VARIABLE", "end_marked", "marked", "new_mark"]

MARK_VARIABLE = "DRAGOMAN_PROCESS_MARK"
_MARK_BYTES = 16
# Between SIGTERM and SIGKILL, for a process whose owner is gone.
_GRACE_SECONDS = 1.0
# Between two looks whether it is gone.
_LOOK_SECONDS = 0.02
# A process may start another one while it is being ended. One that always does is given up on.
_MOST_ROUNDS = 10


def new_mark() -> str:
    return os.urandom(_MARK_BYTES).hex()


def marked(mark: str, proc: Path = Path("/proc")) -> list[ProcessIdentity]:
    """The processes of this user that have the mark."""
    if len(mark) != 2 * _MARK_BYTES:
        # One that we did not make could stand in the environment of any process.
        return []
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    spared = _own_line()
    found = []
    for pid in processes(str(proc)) if proc.is_dir() else ():
        # It may be gone by now, or not be ours to look at.
        with suppress(OSError):
            identity = ProcessIdentity.of(pid)
            if (
                identity is not None
                and pid not in spared
                and (proc / str(pid)).stat().st_uid == os.geteuid()
                and wanted in (proc / str(pid) / "environ").read_bytes().split(b"\0")
                # What was read is of the process that was meant.
                and identity.lives()
            ):
                found.append(identity)
    return found


async def end_marked(mark: str) -> list[ProcessIdentity]:
    """End every process that has the mark. Returns them."""
    ended: dict[ProcessIdentity, None] = {}
    for round_ in range(_MOST_ROUNDS):
        found = marked(mark)
        if not found:
            break
        ended.update(dict.fromkeys(found))
        for identity in found:
            if identity.lives():
                with suppress(OSError):
                    os.kill(identity.pid, signal.SIGKILL if round_ else signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        while any(each.lives() for each in found) and time.monotonic() < deadline:  # noqa: ASYNC110 - no children of ours
            await asyncio.sleep(_LOOK_SECONDS)
    return list(ended)


def _own_line() -> set[int]:
    """The pids of this process and its ancestors."""
    table = processes()
    line = {os.getpid()}
    parent = os.getppid()
    while parent in table and parent not in line:
        line.add(parent)
        parent = table[parent][0]
    return line
