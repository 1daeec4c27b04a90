"""How much memory processes take: resident memory, in bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dragoman.process.supervisor import descendants, processes

__all__ = ["MemoryUse", "half_of_memory", "machine_memory", "measure_below", "measure_tree"]


class MemoryUse(NamedTuple):
    total: int
    # An agent's process with its supervisor and everything below, by its pid.
    trees: dict[int, int]


def measure_below(pids: Iterable[int]) -> MemoryUse | None:
    """The memory of everything below this process, and of these trees in it. None without /proc."""
    if not Path("/proc/self/statm").exists():
        return None
    table = processes()
    sizes = {pid: _resident(pid) or 0 for pid in descendants(table, os.getpid())}
    total = sum(sizes.values())
    # Each with everything below it: children come after their parents.
    for pid in reversed(sizes):
        parent, _ = table[pid]
        if parent in sizes:
            sizes[parent] += sizes[pid]
    trees = {}
    for pid in pids:
        if pid in sizes:
            root = pid
            while table[root][0] in sizes:
                root = table[root][0]
            trees[pid] = sizes[root]
    return MemoryUse(total, trees)


def measure_tree(pid: int) -> tuple[int, ...]:
    """The memory of a process and of each one below it that could be measured."""
    tree = (pid, *descendants(processes(), pid))
    return tuple(size for each in tree if (size := _resident(each)) is not None)


def machine_memory(root: Path = Path("/")) -> int | None:
    """The memory of this machine in bytes, or the limit of the cgroup of this process. None where the system does not say."""
    try:
        first, *_ = (root / "proc/meminfo").read_text("ascii").splitlines()
        # The first line has the total, in units of 1024 bytes.
        total = int(first.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return min((total, *_cgroup_limits(root)))


def half_of_memory() -> int | None:
    """What all agents of a server may take together, unless its configuration says something else."""
    memory = machine_memory()
    return None if memory is None else memory // 2


def _cgroup_limits(root: Path) -> Iterator[int]:
    """The limits of the cgroup of this process and of those around it, in both versions of cgroups."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                top, name = root / "sys/fs/cgroup", "memory.max"
            elif "memory" in controllers.split(","):
                top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            else:
                continue
            folder = top / path.lstrip("/")
            for each in (folder, *folder.parents):
                # In a container the path may be one of the host's. "max": no limit.
                with suppress(OSError, ValueError):
                    yield int((each / name).read_text("ascii"))
                if each == top:
                    break


def _resident(pid: int) -> int | None:
    """The resident memory of a process; None if it has ended, or the system does not say."""
    if not sys.platform.startswith("linux"):
        with os.popen(f"ps -o rss= -p {pid}") as listing:  # noqa: S605 - a number, and the system's own command
            return int(listing.read().strip() or 0) * 1024 or None
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
