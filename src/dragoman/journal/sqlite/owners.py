"""The process that owns a journal, among those that share a state folder.

An owner is a process, identified by its pid and start time, so that a dead owner is detected at once. A process that
hangs is detected by its lease, which it no longer renews.

Leases use the machine's monotonic clock: all processes share it, and setting the system time neither ends a lease nor
extends one. It starts again when the machine boots; no earlier owner is alive then.
"""

from __future__ import annotations

import os
import time

from dragoman.process import ProcessIdentity

__all__ = ["is_free", "own_name", "owner_lives"]


def own_name() -> str:
    """The name of this process."""
    # Where the system does not provide start times of processes, the pid alone identifies the process.
    identity = ProcessIdentity.of(os.getpid()) or ProcessIdentity(os.getpid(), "")
    return f"{identity.pid} {identity.started}"


def is_free(owner: str, leased_until: float) -> bool:
    """Whether another process may claim what this owner has until then."""
    return not owner or leased_until < time.monotonic() or not owner_lives(owner)


def owner_lives(owner: str) -> bool:
    pid, _, started = owner.partition(" ")
    return pid.isdecimal() and ProcessIdentity(int(pid), started).lives()
