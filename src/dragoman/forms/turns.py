"""Shares a few places among keys: one key cannot take them all, and none is served twice while another one waits."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["FairTurns", "TooManyWait"]


class TooManyWait(Exception):
    """A key has as many turns waiting as it may have."""


class FairTurns:
    """So many turns at once, and fewer of one key."""

    def __init__(self, at_once: int, per_key: int) -> None:
        self._at_once = at_once
        self._per_key = per_key
        self._running: Counter[str] = Counter()
        # In the order in which the keys are served.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, key: str, most_waiting: int | None = None) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the end of the block. Raise `TooManyWait` if so many wait already."""
        if most_waiting is not None and len(self._waiting.get(key, ())) >= most_waiting:
            raise TooManyWait
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(place)
        self._serve()
        try:
            await place
            yield
        finally:
            if place.cancelled():
                self._forget(key, place)
            else:
                self._running -= Counter((key,))
            self._serve()

    def _serve(self) -> None:
        """Give free places to those who wait, one for each key in turn."""
        while self._running.total() < self._at_once:
            key = next((each for each in self._waiting if self._running[each] < self._per_key), None)
            if key is None:
                return
            queue = self._waiting.pop(key)
            place = queue.popleft()
            if queue:
                # Behind all others.
                self._waiting[key] = queue
            if not place.cancelled():
                self._running[key] += 1
                place.set_result(None)

    def _forget(self, key: str, place: asyncio.Future[None]) -> None:
        queue = self._waiting.get(key, deque())
        if place in queue:
            queue.remove(place)
        if not queue:
            self._waiting.pop(key, None)
