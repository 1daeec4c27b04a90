"""A queue that holds its source back instead of growing.

What a peer hands out synchronously has to be kept until somebody has time for it. `BoundedQueue` counts the bytes it
holds: above the high-water mark its source is told to pause, below the low-water mark to go on. Nothing is dropped; what
the source had already read when it was paused (one read of the transport at most) still goes in.

Whoever empties such a queue must not, while doing so, wait for a reply that can only come through the same source
outside of the queue: a paused source brings no replies. Put replies into the queue as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Protocol, TypeVar

__all__ = ["ITEM_BYTES", "QUEUE_HIGH_WATER", "QUEUE_LOW_WATER", "BoundedQueue", "Pausable"]

_T = TypeVar("_T")

# Some thousand updates of a usual size: enough that a consumer that is busy for a moment slows nobody down, and little
# enough for a thousand conversations at once.
QUEUE_HIGH_WATER = 1024 * 1024
# Well below, so that the source does not stop and start with every message.
QUEUE_LOW_WATER = 256 * 1024
# What an item costs besides its text: the objects that carry it. Without this a flood of tiny messages would count as
# nothing.
ITEM_BYTES = 256


class Pausable(Protocol):
    """A source that several queues may hold back: it flows when none of them does."""

    def pause_reading(self, by: object) -> None: ...

    def resume_reading(self, by: object) -> None: ...


class BoundedQueue(Generic[_T]):
    """First in, first out. Belongs to one event loop."""

    def __init__(
        self, source: Pausable, *, high_water: int = QUEUE_HIGH_WATER, low_water: int = QUEUE_LOW_WATER
    ) -> None:
        if not 0 <= low_water <= high_water:
            raise ValueError("the low-water mark must not be above the high-water mark")
        self._source = source
        self._high_water = high_water
        self._low_water = low_water
        self._items: deque[tuple[_T, int]] = deque()
        self._size = 0
        self._pausing = False
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size(self) -> int:
        """Bytes held, each item's own cost included."""
        return self._size

    @property
    def pausing(self) -> bool:
        """Whether the source is held back at the moment."""
        return self._pausing

    def put_nowait(self, item: _T, size: int) -> None:
        """Keep `item`, whose text has `size` bytes."""
        cost = size + ITEM_BYTES
        self._items.append((item, cost))
        self._size += cost
        self._filled.set()
        if self._size > self._high_water and not self._pausing:
            self._pausing = True
            self._source.pause_reading(self)

    def get_nowait(self) -> _T:
        """The oldest item; `asyncio.QueueEmpty` when there is none."""
        if not self._items:
            raise asyncio.QueueEmpty
        item, cost = self._items.popleft()
        self._size -= cost
        if not self._items:
            self._filled.clear()
        if self._pausing and self._size <= self._low_water:
            self._pausing = False
            self._source.resume_reading(self)
        return item

    async def get(self) -> _T:
        """The oldest item, as soon as there is one."""
        while not self._items:
            await self._filled.wait()
        return self.get_nowait()
