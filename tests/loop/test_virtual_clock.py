"""The clock that the tests rely on."""

import asyncio

import pytest

from virtual_clock import Stuck, VirtualClock, run, running_clock


async def test_time_passes_when_everything_waits_and_in_order(clock: VirtualClock) -> None:
    woke: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woke.append((name, clock.now()))

    await asyncio.gather(sleeper("b", 7_200), sleeper("a", 60), sleeper("c", 7_200), sleeper("now", -1))
    assert woke == [("now", 0), ("a", 60), ("b", 7_200), ("c", 7_200)]
    assert clock.slept == [7_200, 60, 7_200, -1]


async def test_a_test_may_move_time_itself(clock: VirtualClock) -> None:
    sleeping = [asyncio.ensure_future(clock.sleep(seconds)) for seconds in (1, 2, 3)]
    await asyncio.sleep(0)
    sleeping[0].cancel()
    clock.advance(2.5)
    await asyncio.sleep(0)
    assert [one.done() for one in sleeping] == [True, True, False]
    assert clock.now() == 2.5
    await sleeping[2]
    assert clock.now() == 3


async def test_work_comes_before_time(clock: VirtualClock) -> None:
    sleeping = asyncio.ensure_future(clock.sleep(1))
    for _ in range(100):
        await asyncio.sleep(0)
    assert clock.now() == 0
    await sleeping


def test_waiting_for_nobody_fails_at_once() -> None:
    async def wait_for_nobody() -> None:
        await running_clock().sleep(3)
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run(wait_for_nobody())


def test_real_time_passes_too() -> None:
    async def both() -> float:
        await asyncio.gather(asyncio.sleep(0.001), running_clock().sleep(5))
        return running_clock().now()

    assert run(both()) == 5
