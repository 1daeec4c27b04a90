"""Runs something asynchronous so that Ctrl-C ends it cleanly from the first moment on.

`asyncio.run` handles an interrupt once its loop runs. One that comes while the loop is being made leaves half of it
behind, and Python prints a traceback about that half when it is thrown away. So interrupts wait until the loop can take
them: the first thing that runs in it lets them through.

The first interrupt ends the work, which clears up. The second breaks that off, and only what is open is closed. Should
even that take too long, a third ends the process on the spot; agents notice, and end too.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["fast_loop", "run_interruptible"]

_T = TypeVar("_T")


def fast_loop() -> asyncio.AbstractEventLoop:
    """The loop for servers: uvloop where the platform has it, which handles messages faster."""
    try:
        import uvloop  # noqa: PLC0415 - only for those who serve, and not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_interruptible(
    work: Callable[[], Awaitable[_T]], make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> _T:
    """The result of `work`, in an event loop of its own; `KeyboardInterrupt` if it was interrupted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = None

    async def begin() -> _T:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return await work()

    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.get_loop()
            try:
                return runner.run(begin())
            except KeyboardInterrupt:
                handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
                raise
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        # Had the loop not started, the signals would still be blocked.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
