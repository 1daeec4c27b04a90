"""What processes cost: CPU time to the nanosecond, and memory, of one and of all that it has started. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_seconds", "resident_bytes", "tree", "tree_cpu_seconds", "tree_resident_bytes"]

# The agents that a bridge starts are not the bridge (`stub.py`): they become this.
_AGENT = "sleep"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Of all its threads, those that have ended too. Linux has a clock for every process, named after its id."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError:
        return 0.0


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def tree(pid: int) -> tuple[int, ...]:
    """A process and its descendants, without the agents among them."""
    children: dict[int, list[int]] = {}
    for child, (name, parent) in _processes():
        if name != _AGENT:
            children.setdefault(parent, []).append(child)
    found, ahead = [], [pid]
    while ahead:
        found.append(ahead.pop())
        ahead += children.get(found[-1], ())
    return tuple(found)


def tree_cpu_seconds(pid: int) -> float:
    return sum(map(cpu_seconds, tree(pid)))


def tree_resident_bytes(pid: int) -> int:
    return sum(map(resident_bytes, tree(pid)))


def _processes() -> Iterator[tuple[int, tuple[str, int]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                # It has ended while we looked.
                continue
            name, _, rest = stat.partition(" (")[2].rpartition(") ")
            yield int(folder.name), (name, int(rest.split()[1]))
