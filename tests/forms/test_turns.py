"""Turns that are shared among keys."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.forms.turns import FairTurns, TooManyWait


class _Runs:
    """Tasks that have a turn until they are ended."""

    def __init__(self, turns: FairTurns) -> None:
        self.began: list[str] = []
        self._turns = turns
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, *names: str) -> None:
        """Start tasks, each with the key that its name begins with."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._run(name))
        await _settled()

    async def _run(self, name: str) -> None:
        async with self._turns.turn(name[0]):
            self.began.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._tasks[name]
        await _settled()

    async def end_and_cancel(self, name: str, other: str) -> None:
        """End one, and cancel the other after it was given the place, before it can take it."""
        self._ends[name].set()
        self._tasks[name].add_done_callback(lambda _task: self._tasks[other].cancel())
        await _settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await _settled()


async def _settled() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_key_leaves_room_for_another() -> None:
    runs = _Runs(FairTurns(at_once=3, per_key=2))
    await runs.start("a1", "a2", "a3", "a4", "b1")
    assert runs.began == ["a1", "a2", "b1"]


async def test_keys_that_wait_are_served_in_turn() -> None:
    runs = _Runs(FairTurns(at_once=1, per_key=1))
    await runs.start("a1", "a2", "a3", "b1", "c1", "b2")
    await runs.end("a1", "a2", "b1", "c1", "a3", "b2")
    assert runs.began == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_a_place_is_free_again_whoever_leaves() -> None:
    runs = _Runs(FairTurns(at_once=1, per_key=1))
    await runs.start("a1", "a2", "b1", "c1")
    # One that waits, one that runs, and one that waits while the place becomes free.
    await runs.cancel("a2")
    await runs.cancel("a1", "b1")
    assert runs.began == ["a1", "c1"]
    await runs.cancel("c1")
    await runs.start("d1")
    assert runs.began[-1] == "d1"


async def test_a_turn_that_is_given_and_cancelled_at_once_is_not_lost() -> None:
    turns = FairTurns(at_once=1, per_key=1)
    runs = _Runs(turns)
    await runs.start("a1", "a2")
    # The end of the first gives the second its place, which it has no time to take.
    await runs.end_and_cancel("a1", "a2")
    await runs.start("a3")
    assert runs.began[-1] == "a3"


async def test_only_so_many_of_one_key_wait() -> None:
    turns = FairTurns(at_once=1, per_key=1)
    runs = _Runs(turns)
    await runs.start("a1", "a2")
    with pytest.raises(TooManyWait):
        async with turns.turn("a", most_waiting=1):
            pass
    await runs.end("a1", "a2")
    async with turns.turn("a", most_waiting=1):
        pass
