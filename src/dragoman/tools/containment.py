"""Awaits a tool's code, and separates its own cancellation from ours.

Two kinds of exception mean "stop" to everything around: asyncio's, and our own. A tool can raise either of its own
accord, out of a task it cancelled or a library it uses. Then it has failed, and nothing else should stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from dragoman.lm import CancellationError, CancellationToken, until_cancelled

__all__ = ["ToolGaveUp", "contained"]

_T = TypeVar("_T")


class ToolGaveUp(Exception):
    """A tool cancelled itself."""


async def contained(work: Awaitable[_T], token: CancellationToken) -> _T:
    """The result of `work`; `CancellationError` if and only if the token is cancelled first."""
    try:
        return await until_cancelled(work, token)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        raise ToolGaveUp("it cancelled itself") from None
    except CancellationError as error:
        if token.cancelled():
            raise
        raise ToolGaveUp(str(error)) from None
