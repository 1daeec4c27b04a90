"""The timers of a conversation. Each calls back when its time has passed, unless it is cleared before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.backends.agent.machine.types import Timer
from dragoman.backends.agent.profile.settings import Timing
from dragoman.clock import Clock

__all__ = ["Timers"]


class Timers:
    def __init__(self, timing: Timing, clock: Clock, on_passed: Callable[[Timer], None]) -> None:
        self._seconds: dict[Timer, float] = {
            "gather": timing.gather,
            "gather_limit": timing.gather_limit,
            "grace": timing.grace,
            "human": timing.human,
            "idle": timing.idle,
        }
        self._clock = clock
        self._on_passed = on_passed
        self._running: dict[Timer, asyncio.Task[None]] = {}

    def set(self, timer: Timer, seconds: float | None = None) -> None:
        """Start a timer from now. One that runs starts again. `seconds`: not as long as usual."""
        self.clear(timer)
        seconds = self._seconds[timer] if seconds is None else seconds
        self._running[timer] = asyncio.create_task(self._pass(timer, seconds))

    def clear(self, timer: Timer) -> None:
        task = self._running.pop(timer, None)
        if task is not None:
            task.cancel()

    def clear_all(self) -> None:
        for timer in list(self._running):
            self.clear(timer)

    async def _pass(self, timer: Timer, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._running.pop(timer, None)
        self._on_passed(timer)
