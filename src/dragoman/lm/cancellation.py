"""Cancellation as a value that is handed along.

A `CancellationSource` belongs to whoever may cancel; its `token` goes to whoever must stop. A token is cancelled at
most once and stays so. Everything here belongs to one event loop.

`CancellationError` is what work that was not done raises. The editor's API cannot tell a person who refuses one tool
from one who stops the chat; ours says which it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

__all__ = [
    "CancellationError",
    "CancellationScope",
    "CancellationSource",
    "CancellationToken",
    "until_cancelled",
]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# rejected: a person refused this one tool. skipped: an earlier refusal covers it. request: the whole request ended.
CancellationScope: TypeAlias = Literal["rejected", "skipped", "request"]


class CancellationError(Exception):
    """Something did not happen because somebody did not want it to."""

    def __init__(self, scope: CancellationScope = "request", reason: str | None = None) -> None:
        super().__init__(reason or _WORDS[scope])
        self.scope: CancellationScope = scope
        self.reason = reason


_WORDS: dict[CancellationScope, str] = {
    "rejected": "this tool call was rejected",
    "skipped": "this tool call was skipped because an earlier one was rejected",
    "request": "the request was cancelled",
}


class CancellationToken:
    """Tells whether to stop, and calls back when it is time to."""

    def __init__(self) -> None:
        # For what asks often; `cancelled` says the same.
        self.is_cancelled = False
        self._callbacks: dict[object, Callable[[], object]] = {}

    def cancelled(self) -> bool:
        return self.is_cancelled

    def raise_if_cancelled(self) -> None:
        if self.is_cancelled:
            raise CancellationError

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once, when cancelled: at once if that was before. Returns a function that takes it back."""
        if self.is_cancelled:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback

        def forget() -> None:
            self._callbacks.pop(key, None)

        return forget

    async def wait(self) -> None:
        """Until cancelled."""
        reached = asyncio.get_running_loop().create_future()
        forget = self.on_cancel(lambda: None if reached.done() else reached.set_result(None))
        try:
            await reached
        finally:
            forget()

    def _cancel(self) -> None:
        self.is_cancelled = True
        callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            try:
                callback()
            except Exception:
                # One that fails must not keep the others from stopping.
                _log.exception("a cancellation callback failed")


class CancellationSource:
    """Holds the right to cancel."""

    def __init__(self) -> None:
        self.token = CancellationToken()

    def cancel(self) -> None:
        self.token._cancel()  # noqa: SLF001 - the source is the token's other half


async def until_cancelled(work: Awaitable[_T], token: CancellationToken) -> _T:
    """The result of `work`, or `CancellationError` as soon as the token says so.

    Work that has finished by then keeps its result. Work that has not is cancelled and waited for, so that nothing
    of it runs on behind the caller's back.
    """
    current = asyncio.current_task()
    cancelling = current.cancelling() if current else 0
    task = asyncio.ensure_future(work)

    def stop() -> None:
        if asyncio.current_task() is task:
            # The work itself cancelled the token, and may be about to finish: it is stopped where it next waits.
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            task.cancel()

    forget = token.on_cancel(stop)
    try:
        return await task
    except asyncio.CancelledError:
        # Ours, or the caller's own? Only the first is an answer; the second must go on upwards.
        if token.cancelled() and (current is None or current.cancelling() == cancelling):
            raise CancellationError from None
        raise
    finally:
        forget()
