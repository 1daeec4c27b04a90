"""Waits that end: with the work, with the deadline, with a cancel; never later, and never with somebody else's cancel."""

import asyncio
import logging

import pytest

from dragoman.clock import DeadlinePassed, SystemClock, WorkCancelled, with_grace, within
from dragoman.lm import CancellationError, CancellationSource
from virtual_clock import VirtualClock


async def _after(seconds: float, clock: VirtualClock, value: str = "done") -> str:
    await clock.sleep(seconds)
    return value


async def _stubborn(clock: VirtualClock, stopped: asyncio.Event) -> None:
    """Ignores every cancellation for a hundred seconds."""
    until = clock.now() + 100
    while clock.now() < until:
        try:
            await clock.sleep(until - clock.now())
        except asyncio.CancelledError:
            continue
    stopped.set()


async def test_the_system_clock_goes_forward() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0)
    assert clock.now() >= before


async def test_within_gives_the_result_of_work_in_time(clock: VirtualClock) -> None:
    assert await within(_after(5, clock), 6, clock) == "done"
    assert clock.now() == 5


async def test_within_raises_what_the_work_raises(clock: VirtualClock) -> None:
    async def fail() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await within(fail(), 6, clock)


async def test_within_cancels_late_work_and_names_the_deadline(clock: VirtualClock) -> None:
    work = asyncio.ensure_future(_after(600, clock))
    with pytest.raises(DeadlinePassed, match="90 seconds"):
        await within(work, 90, clock)
    assert clock.now() == 90
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_within_does_not_wait_for_work_that_ignores_its_deadline(clock: VirtualClock) -> None:
    stopped = asyncio.Event()
    with pytest.raises(DeadlinePassed):
        await within(_stubborn(clock, stopped), 10, clock)
    assert clock.now() == 10
    await stopped.wait()
    assert clock.now() == 100


async def test_a_failure_of_work_that_was_left_behind_is_nobodys_news(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_when_cancelled() -> None:
        try:
            await clock.sleep(100)
        except asyncio.CancelledError:
            raise ValueError("too late to tell") from None

    with caplog.at_level(logging.ERROR), pytest.raises(DeadlinePassed):
        await within(fails_when_cancelled(), 10, clock)
    await clock.sleep(1)
    assert caplog.records == []


async def test_within_ends_at_once_when_cancelled(clock: VirtualClock) -> None:
    source = CancellationSource()
    asyncio.get_running_loop().call_soon(source.cancel)
    with pytest.raises(CancellationError):
        await within(_after(600, clock), 900, clock, source.token)
    assert clock.now() == 0


async def test_within_does_not_begin_after_a_cancel(clock: VirtualClock) -> None:
    began = []

    async def work() -> None:
        began.append(True)

    source = CancellationSource()
    source.cancel()
    with pytest.raises(CancellationError):
        await within(work(), 900, clock, source.token)
    await clock.sleep(1)
    assert began == []


async def test_work_that_has_finished_keeps_its_result_whatever_is_cancelled_meanwhile(
    clock: VirtualClock,
) -> None:
    source = CancellationSource()

    async def work() -> str:
        source.cancel()
        return "finished"

    assert await within(work(), 900, clock, source.token) == "finished"


async def test_work_that_cancels_itself_does_not_cancel_who_waits(clock: VirtualClock) -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(WorkCancelled):
        await within(work(), 900, clock)


async def test_a_cancelled_caller_takes_the_work_along(clock: VirtualClock) -> None:
    work = asyncio.ensure_future(_after(600, clock))
    waiting = asyncio.ensure_future(within(work, 900, clock))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await work
    assert clock.now() == 0


async def test_with_grace_lets_work_take_as_long_as_it_likes(clock: VirtualClock) -> None:
    assert await with_grace(_after(10_000, clock), 5, clock, CancellationSource().token) == "done"
    assert clock.now() == 10_000


async def test_with_grace_lets_work_stop_in_its_own_way(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def winds_down() -> str:
        await source.token.wait()
        await clock.sleep(3)
        return "in order"

    asyncio.get_running_loop().call_soon(source.cancel)
    assert await with_grace(winds_down(), 5, clock, source.token) == "in order"
    assert clock.now() == 3


async def test_with_grace_leaves_behind_what_does_not_stop(clock: VirtualClock) -> None:
    source = CancellationSource()
    source.cancel()
    stopped = asyncio.Event()
    with pytest.raises(CancellationError):
        await with_grace(_stubborn(clock, stopped), 5, clock, source.token)
    assert clock.now() == 5
    await stopped.wait()
