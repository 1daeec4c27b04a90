"""Who has a conversation, among the processes that share a state folder.

An owner is a process, by its pid and the time it started, so that a dead one is known at once. One that lives and hangs
is known by its lease, which it no longer renews.
"""

from __future__ import annotations

import os
import time

from dragoman.process import ProcessIdentity
from dragoman.store import Holding

__all__ = ["LEASE_SECONDS", "RENEW_SECONDS", "is_free", "lease", "own"]

# A process that has not come round to renewing for so long is not going to.
LEASE_SECONDS = 90.0
RENEW_SECONDS = 20.0


def own() -> str:
    """The name of this process."""
    # Where the system does not tell when a process started, the pid has to do.
    identity = ProcessIdentity.of(os.getpid()) or ProcessIdentity(os.getpid(), "")
    return f"{identity.pid} {identity.started}"


def lease() -> float:
    """Until when a conversation is ours that is claimed now."""
    return time.time() + LEASE_SECONDS


def is_free(holding: Holding) -> bool:
    """Whether anybody may claim it."""
    if not holding.owner or holding.leased_until < time.time():
        return True
    pid, _, started = holding.owner.partition(" ")
    return not (pid.isdecimal() and ProcessIdentity(int(pid), started).lives())
