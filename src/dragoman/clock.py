"""A clock that callers pass in, so that a test can control time; and waits with a deadline.

A wait here never takes longer than it says. Work that is late, or no longer wanted, is cancelled but not waited for:
what ignores its deadline may ignore its cancellation too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from dragoman.lm.cancellation import CancellationError, CancellationToken, until_cancelled

__all__ = ["Clock", "DeadlinePassed", "SystemClock", "WorkCancelled", "with_grace", "within"]

_T = TypeVar("_T")


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DeadlinePassed(Exception):
    """A wait took longer than it may. Not `TimeoutError`, which the work itself may raise for reasons of its own."""


class WorkCancelled(Exception):
    """The work cancelled itself. As `asyncio.CancelledError` it would cancel the waiting task as well."""


async def within(
    work: Awaitable[_T], seconds: float, clock: Clock, token: CancellationToken | None = None
) -> _T:
    """The result of `work`, or `DeadlinePassed` after so many seconds, or `CancellationError` as soon as `token` says.

    Work that has finished by then keeps its result. With a token that is cancelled already it does not even begin.
    """
    task = asyncio.ensure_future(work)
    if token is not None and token.cancelled():
        task.cancel()
        raise CancellationError
    return await _unless(task, _time_is_up(seconds, clock, token or CancellationToken()))


async def with_grace(work: Awaitable[_T], seconds: float, clock: Clock, token: CancellationToken) -> _T:
    """The result of `work`, without a deadline; once `token` is cancelled, `work` gets so many seconds more.

    For work that sees the token itself and knows best how to stop. `CancellationError` if it does not.
    """
    return await _unless(asyncio.ensure_future(work), _grace_is_over(seconds, clock, token))


async def _time_is_up(seconds: float, clock: Clock, token: CancellationToken) -> Exception:
    try:
        await until_cancelled(clock.sleep(seconds), token)
    except CancellationError as cancelled:
        return cancelled
    return DeadlinePassed(f"{seconds:g} seconds have passed")


async def _grace_is_over(seconds: float, clock: Clock, token: CancellationToken) -> Exception:
    await token.wait()
    await clock.sleep(seconds)
    return CancellationError()


async def _unless(task: asyncio.Future[_T], alarm: Awaitable[Exception]) -> _T:
    """The result of `task`, unless the alarm goes off first: then its exception is raised."""
    watch = asyncio.ensure_future(alarm)
    try:
        racing: tuple[asyncio.Future[_T] | asyncio.Future[Exception], ...] = (task, watch)
        await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():
            raise WorkCancelled("the work cancelled itself")
        if task.done():
            return task.result()
        raise watch.result()
    finally:
        watch.cancel()
        # Also when it has just finished: the waiting task may have been cancelled in the same moment.
        task.add_done_callback(_let_go)
        task.cancel()


def _let_go(task: asyncio.Future[_T]) -> None:
    """Retrieve the exception of an abandoned task, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
