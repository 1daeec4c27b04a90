"""Time that passes when nothing else happens.

A `VirtualClock` is a `dragoman.clock.Clock` whose time a test moves with `advance`. On a `VirtualTimeLoop` nobody needs
to: whenever everything waits, its clock goes on to the next moment somebody sleeps for. So hours pass in no time, always
in the same order, and a test in which everybody waits for nobody fails at once with `Stuck` instead of hanging.

    async def test_patience(clock):  # in a folder whose conftest hands out the loop's clock
        await clock.sleep(3_600)
        assert clock.now() == 3_600
"""

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Coroutine
from typing import TypeVar

__all__ = ["Stuck", "VirtualClock", "VirtualTimeLoop", "run", "running_clock"]

_T = TypeVar("_T")


class Stuck(Exception):
    """Everything waits, and no time that passes would change that."""


class VirtualClock:
    def __init__(self) -> None:
        self._now = 0.0
        # Sleepers by the moment they wake; of the same moment, who went to sleep first wakes first.
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        # How long each sleep was meant to be, in the order they began.
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """On a `VirtualTimeLoop`, `sleep(0)` is until everybody else waits."""
        self.slept.append(seconds)
        wakes: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), next(self._numbers), wakes))
        await wakes

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and wake whoever slept until then."""
        self._advance_to(self._now + seconds)

    def advance_to_next(self) -> bool:
        """Let time pass until somebody wakes. False if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers:
            return False
        self._advance_to(self._sleepers[0][0])
        return True

    def _advance_to(self, moment: float) -> None:
        while self._sleepers and self._sleepers[0][0] <= moment:
            self._now, _, wakes = heapq.heappop(self._sleepers)
            if not wakes.done():
                wakes.set_result(None)
        self._now = moment


class _IdleSelector(selectors.DefaultSelector):
    """What an event loop asks when nothing is left to run: here, the moment to let time pass."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0 or self._clock.advance_to_next():
            return ready
        if timeout is None:
            raise Stuck("everything waits, and no time that passes would change that")
        # Somebody waits for real time.
        return super().select(timeout)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own. For work in this thread: it does not wait for others."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(_IdleSelector(self.clock))


def running_clock() -> VirtualClock:
    """The clock of the loop we run on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.clock


def run(work: Coroutine[object, object, _T]) -> _T:
    """Run a coroutine on a loop with virtual time, for tests that are not coroutines themselves."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
