"""Which processes are alive, and waiting until they are not."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from dragoman.process import ProcessIdentity

__all__ = ["DEADLINE_SECONDS", "SETSID_SLEEP", "SLEEPERS", "alive", "all_gone", "line_from", "open_fds"]

DEADLINE_SECONDS = 30
_LOOK_SECONDS = 0.01

# Leaves its group, says its arguments and its own pid, and would live for hours. (`setsid` is not on every system.)
SETSID_SLEEP = (
    f"{shlex.quote(sys.executable)} -I -S -c 'import os, sys; os.setsid(); print(*sys.argv[1:], os.getpid(), flush=True); "
    """os.execvp("sleep", ["sleep", "9999"])'"""
)
# For a shell: a child in its group and one that has left it. One line says the pids of all three.
SLEEPERS = f"sleep 9999 & {SETSID_SLEEP} $$ $! &\n"


def alive(pids: Iterable[int]) -> set[int]:
    return {pid for pid in pids if ProcessIdentity.of(pid) is not None}


async def all_gone(pids: Iterable[int]) -> float:
    """Wait until none of them is alive. Returns how long that took."""
    began = time.monotonic()
    remaining = alive(pids)
    while remaining:
        assert time.monotonic() - began < DEADLINE_SECONDS, f"still alive: {remaining}"
        # Not our children: nothing tells us when they end.
        await asyncio.sleep(_LOOK_SECONDS)
        remaining = alive(remaining)
    return time.monotonic() - began


async def line_from(file: BinaryIO) -> str:
    """One line, under a deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return (await asyncio.to_thread(file.readline)).decode().strip()


def open_fds() -> set[str]:
    """What this process has open, where the system tells."""
    opened = set()
    for fd in Path("/proc/self/fd").glob("*"):
        # The folder itself is among them, and gone by now.
        with suppress(OSError):
            opened.add(f"{fd.name}: {fd.readlink()}")
    return opened
