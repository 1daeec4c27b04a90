"""How much memory an agent takes, with everything that it has started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dragoman.cli.finding import Finding
from dragoman.process.supervisor import descendants, processes

__all__ = ["memory"]


def memory(pid: int) -> Finding:
    pids = [pid, *descendants(processes(), pid)]
    kilobytes = [size for each in pids if (size := _resident(each)) is not None]
    if not kilobytes:
        return Finding("warn", "how much memory it takes could not be seen")
    several = f" in {len(kilobytes)} processes" if len(kilobytes) > 1 else ""
    return Finding("ok", f"it takes {sum(kilobytes) / 1024:.0f} MB of memory{several}")


def _resident(pid: int) -> int | None:
    """In kilobytes."""
    if not sys.platform.startswith("linux"):
        with os.popen(f"ps -o rss= -p {pid}") as listing:  # noqa: S605 - a number, and the system's own command
            return int(listing.read().strip() or 0) or None
    try:
        for line in Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        # It may be gone by now.
        return None
    return None
