"""Which process this is: a pid together with the time it started.

Pids are used again. A pid that was recorded yesterday may today be the user's editor; together with the start time
it can only be the process that was meant.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

__all__ = ["ProcessIdentity"]

# `ps` answers at once; on a machine that is this slow, not knowing is better than waiting.
_PS_SECONDS = 5.0
_STATE, _START_TICKS = 0, 19


class ProcessIdentity(msgspec.Struct, frozen=True):
    pid: int
    # Opaque: comparable with that of another look at the same machine, and with nothing else.
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The process that has this pid now; None when there is none, or only what remains of one that has ended."""
        started = _started_from_proc(pid) if sys.platform.startswith("linux") else _started_from_ps(pid)
        return None if started is None else cls(pid, started)

    @classmethod
    def own(cls) -> ProcessIdentity:
        identity = cls.of(os.getpid())
        if identity is None:
            raise OSError("this system does not report when a process started")
        return identity

    def lives(self) -> bool:
        return ProcessIdentity.of(self.pid) == self


def _started_from_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        # Ticks are counted from the start of the machine, so it takes the start of the machine as well.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # After the name, which is in parentheses and may hold anything.
    fields = stat.rpartition(b")")[2].split()
    if fields[_STATE] in (b"Z", b"X"):
        return None
    return f"{boot}:{int(fields[_START_TICKS])}"


def _started_from_ps(pid: int) -> str | None:
    try:
        listed = subprocess.run(  # noqa: S603 - a fixed command
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)],  # noqa: S607 - the system's own
            # The time is written out: always in the same language and zone.
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PS_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = listed.stdout.decode(errors="replace").strip().partition(" ")
    if not started or state.startswith("Z"):
        return None
    return " ".join(started.split())
