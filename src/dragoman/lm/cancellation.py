"""Cancellation tokens.

The caller has a `CancellationSource`, and passes its `token` to the work that it may cancel. A token is cancelled at
most once and stays so. Everything here belongs to one event loop.

Cancelled work raises `CancellationError`. The editor's API does not distinguish a user who refuses one tool from one who
stops the chat; `scope` does.
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
    """Work was cancelled. `scope` says what the user or the program cancelled."""

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
    """Reports whether work was cancelled, and calls back when it is."""

    def __init__(self) -> None:
        # An attribute for frequent checks; `cancelled` returns the same.
        self.is_cancelled = False
        self._callbacks: dict[object, Callable[[], object]] = {}

    def cancelled(self) -> bool:
        return self.is_cancelled

    def raise_if_cancelled(self) -> None:
        if self.is_cancelled:
            raise CancellationError

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once, when cancelled: at once if it is already. Returns a function that removes the callback."""
        if self.is_cancelled:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback

        def forget() -> None:
            self._callbacks.pop(key, None)

        return forget

    async def wait(self) -> None:
        """Wait until cancelled."""
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
    """Cancels its token."""

    def __init__(self) -> None:
        self.token = CancellationToken()

    def cancel(self) -> None:
        self.token._cancel()  # noqa: SLF001 - the source is the token's other half


async def until_cancelled(work: Awaitable[_T], token: CancellationToken) -> _T:
    """Return the result of `work`, or raise `CancellationError` when the token is cancelled.

    Work that has finished by then returns its result. Work that has not is cancelled and awaited, so that nothing of
    it runs on in the background.
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
