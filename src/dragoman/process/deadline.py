"""The moment at which the children of this process must have ended, if there is one.

A worker of a fleet may act only while its lease lasts. A process that is suspended cannot end its children, so their
supervisors do: each gets the deadline, and every extension of it. Without a deadline, children run as long as we do.

One for the whole process, because the lease is: whatever it starts acts for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["boot_seconds", "follow_deadline", "set_deadline"]

_deadline: float | None = None
_followers: set[Callable[[bytes], None]] = set()
# A change that is smaller changes nothing for a child, and to send it wakes every supervisor.
_LEAST_SECONDS = 0.1


def boot_seconds() -> float:
    """A clock that only goes forward, also while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def set_deadline(at: float | None) -> None:
    """All children end at this time of `boot_seconds`, unless a later call says otherwise. None: there is no deadline."""
    global _deadline  # noqa: PLW0603 - see above
    if at is not None and _deadline is not None and abs(at - _deadline) < _LEAST_SECONDS:
        return
    _deadline = at
    for send in tuple(_followers):
        send(_line(at))


def follow_deadline(send: Callable[[bytes], None]) -> Callable[[], None]:
    """Send the deadline to a supervisor, and every change of it. Returns a function that ends that."""
    if _deadline is not None:
        send(_line(_deadline))
    _followers.add(send)
    return lambda: _followers.discard(send)


def _line(at: float | None) -> bytes:
    return f"until {'inf' if at is None else at}\n".encode()
