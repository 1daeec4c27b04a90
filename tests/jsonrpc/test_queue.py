"""A queue that pauses its source."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from dragoman.jsonrpc.queue import ITEM_BYTES, BoundedQueue


class Tap:
    def __init__(self) -> None:
        self.paused_by: set[object] = set()
        self.log: list[str] = []

    def pause_reading(self, by: object) -> None:
        self.paused_by.add(by)
        self.log.append("pause")

    def resume_reading(self, by: object) -> None:
        self.paused_by.remove(by)
        self.log.append("resume")


def test_it_pauses_above_the_high_mark_and_resumes_at_the_low_one() -> None:
    tap = Tap()
    queue = BoundedQueue[int](tap, high_water=3 * ITEM_BYTES, low_water=ITEM_BYTES)
    for number in range(3):
        queue.put_nowait(number, 0)
    assert tap.log == []
    queue.put_nowait(3, 0)
    queue.put_nowait(4, 0)
    assert tap.log == ["pause"]
    assert [queue.get_nowait() for _ in range(3)] == [0, 1, 2]
    assert tap.log == ["pause"]
    assert queue.get_nowait() == 3
    assert tap.log == ["pause", "resume"]
    assert (len(queue), queue.size) == (1, ITEM_BYTES)


def test_one_item_larger_than_the_mark_still_goes_in() -> None:
    tap = Tap()
    queue = BoundedQueue[str](tap, high_water=10, low_water=5)
    queue.put_nowait("large", 1_000_000)
    assert tap.log == ["pause"]
    assert queue.get_nowait() == "large"
    assert tap.log == ["pause", "resume"]


def test_empty_is_an_error_only_without_waiting() -> None:
    queue = BoundedQueue[int](Tap())
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()


async def test_get_waits_and_survives_being_cancelled() -> None:
    queue = BoundedQueue[int](Tap())
    first = asyncio.ensure_future(queue.get())
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    first.cancel()
    queue.put_nowait(1, 0)
    assert await second == 1
    assert first.cancelled()
    assert len(queue) == 0


async def test_two_that_wait_get_one_each() -> None:
    queue = BoundedQueue[int](Tap())
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.put_nowait(1, 0)
    queue.put_nowait(2, 0)
    assert sorted(await asyncio.gather(*waiting)) == [1, 2]


def test_marks_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="low-water"):
        BoundedQueue[int](Tap(), high_water=1, low_water=2)


@given(st.lists(st.integers(0, 3000) | st.none()))
def test_bytes_are_counted_and_order_is_kept(steps: list[int | None]) -> None:
    """A number puts an item of that size, None takes one."""
    tap = Tap()
    queue = BoundedQueue[int](tap, high_water=4000, low_water=1000)
    model: list[int] = []
    for step in steps:
        if step is not None:
            queue.put_nowait(step, step)
            model.append(step)
        elif model:
            assert queue.get_nowait() == model.pop(0)
        size = sum(model) + ITEM_BYTES * len(model)
        assert queue.size == size
        assert len(queue) == len(model)
        assert (queue in tap.paused_by) == queue.pausing
        assert queue.pausing or size <= 4000
        assert not queue.pausing or size > 1000
