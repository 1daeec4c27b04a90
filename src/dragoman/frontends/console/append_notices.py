"""Tells pages that something was stored in a conversation, a few times a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["AppendNotices"]

_SECONDS = 0.25


class AppendNotices:
    """Passes on the first append at once, and of those that follow soon after it only the last."""

    def __init__(self, publish: Callable[[str, int], None], seconds: float = _SECONDS) -> None:
        """`publish` gets the id of a journal and the number of its last event, at most once in so many seconds."""
        self._publish = publish
        self._seconds = seconds
        # The journals that were published just now, each with the number that came since.
        self._held: dict[str, int | None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def note(self, journal: str, sequence: int) -> None:
        """Something was appended to a journal."""
        if journal in self._held:
            self._held[journal] = sequence
            return
        self._pass_on(journal, sequence)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._held.clear()

    def _pass_on(self, journal: str, sequence: int) -> None:
        self._held[journal] = None
        self._timers[journal] = asyncio.get_running_loop().call_later(self._seconds, self._passed, journal)
        self._publish(journal, sequence)

    def _passed(self, journal: str) -> None:
        del self._timers[journal]
        sequence = self._held.pop(journal)
        if sequence is not None:
            self._pass_on(journal, sequence)
