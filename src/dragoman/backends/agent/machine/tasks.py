"""The background tasks of a conversation.

*Work* is done for an agent and always completes: closing the conversation waits for it. A *wait* has no purpose once the
conversation is closed, and is cancelled with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from dragoman.clock import Clock

__all__ = ["Tasks"]

_log = logging.getLogger(__name__)


class Tasks:
    def __init__(self, conversation: str, clock: Clock) -> None:
        self._conversation = conversation
        self._clock = clock
        self._works: set[asyncio.Task[None]] = set()
        self._waits: set[asyncio.Task[None]] = set()

    def work(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._worked)
        return task

    def wait(self, wait: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(wait)
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)
        return task

    def soon(self, seconds: float, then: Callable[[], None]) -> asyncio.Task[None]:
        async def later() -> None:
            await self._clock.sleep(seconds)
            then()

        return self.wait(later())

    def end_waits(self) -> None:
        for wait in self._waits:
            wait.cancel()

    async def until_done(self) -> None:
        """Wait for all work, including work that other work starts."""
        while self._works:
            await asyncio.wait(self._works)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._works.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of conversation %s failed", self._conversation, exc_info=task.exception())
