"""Lines of progress, no more of them than a user can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.clock import Clock
from dragoman.tools.tool import ToolProgress

__all__ = ["PACE_SECONDS", "paced"]

# Between two lines: a few a second are as many as an eye can follow.
PACE_SECONDS = 0.25


@asynccontextmanager
async def paced(progress: ToolProgress, clock: Clock) -> AsyncIterator[ToolProgress]:
    """A rate limit for `progress` in this block: of many lines in a short time, only the last is passed on."""
    latest: list[str] = []
    news = asyncio.Event()

    def take(line: str) -> None:
        latest[:] = [line]
        news.set()

    async def pass_on() -> None:
        while True:
            await news.wait()
            news.clear()
            progress(latest.pop())
            await clock.sleep(PACE_SECONDS)

    passing_on = asyncio.create_task(pass_on(), name="pass on progress")
    try:
        yield take
    finally:
        passing_on.cancel()
        if latest:
            progress(latest.pop())
