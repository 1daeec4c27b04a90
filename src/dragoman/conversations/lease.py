"""Who has a conversation, among the processes that share a state folder.

An owner is a process, by its pid and the time it started, so that a dead one is known at once. One that lives and hangs
is known by its lease, which it no longer renews.

Leases are counted by the clock of the machine that only goes forward: all processes have the same one, and setting the time
neither ends a lease nor makes one last. It begins anew when the machine starts; no owner of before lives then.
"""

from __future__ import annotations

import os
import time

from dragoman.process import ProcessIdentity
from dragoman.store import ConversationStore, Holding

__all__ = ["LEASE_SECONDS", "RENEW_SECONDS", "free_abandoned", "is_free", "lease", "own"]

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
    return time.monotonic() + LEASE_SECONDS


def is_free(holding: Holding) -> bool:
    """Whether anybody may claim it."""
    return not holding.owner or holding.leased_until < time.monotonic() or not _lives(holding.owner)


def free_abandoned(store: ConversationStore) -> None:
    """Release what processes hold that are dead."""
    for owner in store.owners():
        if not _lives(owner):
            store.release(owner)


def _lives(owner: str) -> bool:
    pid, _, started = owner.partition(" ")
    return pid.isdecimal() and ProcessIdentity(int(pid), started).lives()
