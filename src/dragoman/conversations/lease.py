"""Leases: which process owns a conversation, among those that share a state folder.

An owner is a process, identified by its pid and start time, so that a dead owner is detected at once. A process that
hangs is detected by its lease, which it no longer renews.

Leases use the machine's monotonic clock: all processes share it, and setting the system time neither ends a lease nor
extends one. It starts again when the machine boots; no earlier owner is alive then.
"""

from __future__ import annotations

import os
import time

from dragoman.process import ProcessIdentity
from dragoman.store import ConversationStore, Holding

__all__ = ["LEASE_SECONDS", "RENEW_SECONDS", "free_abandoned", "is_free", "lease", "own"]

# A process that has not renewed its lease for so long hangs.
LEASE_SECONDS = 90.0
RENEW_SECONDS = 20.0


def own() -> str:
    """The name of this process."""
    # Where the system does not provide start times of processes, the pid alone identifies the process.
    identity = ProcessIdentity.of(os.getpid()) or ProcessIdentity(os.getpid(), "")
    return f"{identity.pid} {identity.started}"


def lease() -> float:
    """When the lease of a conversation that is claimed now ends."""
    return time.monotonic() + LEASE_SECONDS


def is_free(holding: Holding) -> bool:
    """Whether a process may claim the conversation."""
    return not holding.owner or holding.leased_until < time.monotonic() or not _lives(holding.owner)


def free_abandoned(store: ConversationStore) -> None:
    """Release the conversations of dead processes."""
    for owner in store.owners():
        if not _lives(owner):
            store.release(owner)


def _lives(owner: str) -> bool:
    pid, _, started = owner.partition(" ")
    return pid.isdecimal() and ProcessIdentity(int(pid), started).lives()
