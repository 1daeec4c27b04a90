"""Runs something asynchronous so that Ctrl-C ends it cleanly from the first moment on.

`asyncio.run` handles an interrupt once its loop runs. One that comes while the loop is being made leaves half of it
behind, and Python prints a traceback about that half when it is thrown away. So interrupts wait until the loop can take
them: the first thing that runs in it lets them through.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["run_interruptible"]

_T = TypeVar("_T")


def run_interruptible(work: Callable[[], Awaitable[_T]]) -> _T:
    """The result of `work`, in an event loop of its own; `KeyboardInterrupt` if it was interrupted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    async def begin() -> _T:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return await work()

    try:
        with asyncio.Runner() as runner:
            runner.get_loop()
            return runner.run(begin())
    finally:
        # Had the loop not come about, nobody would have let them through.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
