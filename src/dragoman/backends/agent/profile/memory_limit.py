"""The limit on the memory of all agents of a server.

It counts the resident memory of everything below this process: agents, their child processes, and the supervisors. Above
the limit, idle agents are parked, as many as it takes: first those whose conversations have had one turn only, and the
longest unused before others. Agents whose sessions cannot be taken up again come last. When no idle agent is left, no
further agent is started until there is room: a request that needs one fails, and says why. Near the limit, those are parked
that may rest early.

A measurement reads a file of every process of the machine. With hundreds of agents that takes longer than a request may, so
where there is ample room a measurement counts for a second.

Linux has the memory of a process in /proc. On other systems there is no limit, and the log says so.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dragoman.lm import LanguageModelError
from dragoman.process.memory import MemoryUse, measure_below

__all__ = ["LOOK_SECONDS", "MemoryLimit", "parking_order"]

_log = logging.getLogger(__name__)

# Between two measurements: idle agents may grow, too.
LOOK_SECONDS = 10.0
_RETRY_SECONDS = 10.0
# With so much room, a measurement counts for a second: eight agents of 500 MB, which is more than start in that time.
_AMPLE_BYTES = 4_000_000_000
_AMPLE_SECONDS = 1.0
# Above this part of the limit, memory is short.
_SHORT = 3 / 4
_MEGABYTE = 1_000_000


class Idle(Protocol):
    """A conversation whose agent may be parked."""

    @property
    def agent_pid(self) -> int | None: ...

    @property
    def has_one_turn(self) -> bool: ...

    @property
    def can_be_resumed(self) -> bool: ...

    @property
    def may_rest_early(self) -> bool: ...

    def park(self) -> None: ...


def parking_order(idle: Idle) -> tuple[bool, bool]:
    """The key by which idle agents are sorted: the first is the smallest loss."""
    return not idle.can_be_resumed, not idle.has_one_turn


class MemoryLimit:
    """One for all models of a process. `look` is how memory is measured."""

    def __init__(
        self,
        most_bytes: int,
        look: Callable[[Iterable[int]], MemoryUse | None] = measure_below,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most_bytes
        self._look = look
        self._clock = clock
        # Until when memory is ample.
        self._ample_until = -math.inf
        # Each says which agents may be parked, the longest unused first.
        self._sources: list[Callable[[], Sequence[Idle]]] = []
        self._is_ignored = False
        # Agents that were parked and may not have ended yet.
        self._ending: set[int] = set()

    def add(self, idle: Callable[[], Sequence[Idle]]) -> None:
        self._sources.append(idle)

    def remove(self, idle: Callable[[], Sequence[Idle]]) -> None:
        self._sources.remove(idle)

    def relieve(self) -> int:
        """Park idle agents while there is too much. Returns by how many bytes it is still too much then."""
        if self._clock() < self._ample_until:
            return 0
        idle = sorted((each for source in self._sources for each in source()), key=parking_order)
        pids = {pid: each for each in idle if (pid := each.agent_pid) is not None}
        usage = self._look([*pids, *self._ending])
        if usage is None:
            if not self._is_ignored:
                self._is_ignored = True
                _log.warning(
                    "max_memory is ignored: this system does not report how much memory a process uses"
                )
            return 0
        self._ending &= usage.trees.keys()
        if self._most - usage.total >= _AMPLE_BYTES:
            self._ample_until = self._clock() + _AMPLE_SECONDS
        used = usage.total - sum(usage.trees[pid] for pid in self._ending)
        for pid, each in pids.items():
            if used <= self._most * _SHORT:
                break
            if used <= self._most and not each.may_rest_early:
                continue
            _log.info(
                "an idle agent (process %d) is parked: all agents come near max_memory, or exceed it", pid
            )
            each.park()
            self._ending.add(pid)
            used -= usage.trees.get(pid, 0)
        return max(used - self._most, 0)

    def check(self) -> None:
        """Raise `LanguageModelError` if no further agent may start."""
        excess = self.relieve()
        if excess:
            taken, most = (f"{bytes_ / _MEGABYTE:,.0f} MB" for bytes_ in (self._most + excess, self._most))
            raise LanguageModelError(
                "unavailable",
                f"The agents that are at work take {taken} of memory; all together may take {most}.",
                hint="Try again when one of them has finished, or raise `max_memory` in [serve].",
                retry_after=_RETRY_SECONDS,
            )
