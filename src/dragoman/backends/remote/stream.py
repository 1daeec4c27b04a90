"""The gateway's end of a stream: batches arrive, `RemoteModel` takes them in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from dragoman.fleet.messages import Batch, Receipt
from dragoman.fleet.window import ReceivingWindow
from dragoman.lm import LanguageModelError

__all__ = ["RemoteStream", "TakenBatch"]


class TakenBatch(NamedTuple):
    batch: Batch
    # Of the message.
    size: int


class RemoteStream:
    """One response on its way from a worker."""

    def __init__(self, id_: str, node: str) -> None:
        self.id = id_
        self.node = node
        self.window = ReceivingWindow()
        # Bounded by the window: the worker sends no more.
        self._batches: deque[TakenBatch] = deque()
        self._error: LanguageModelError | None = None
        self._news = asyncio.Event()

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.id, self.window.number, self.window.consumed)

    def take(self, batch: Batch, size: int) -> bool:
        """A batch has arrived. Returns whether those before it must be sent again."""
        if self.window.takes(batch.number):
            self._batches.append(TakenBatch(batch, size))
            self._news.set()
            return False
        return self.window.asks_again(batch.number)

    def fail(self, error: LanguageModelError) -> None:
        """Nothing more is shown of it."""
        self._error = error
        self._batches.clear()
        self._news.set()

    async def next(self) -> TakenBatch:
        """The next batch. Raises the error with which the stream has failed."""
        while not self._batches:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        return self._batches.popleft()
