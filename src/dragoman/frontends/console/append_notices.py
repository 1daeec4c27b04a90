"""Tells pages that something was stored in a conversation, a few times a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["AppendNotices"]

_SECONDS = 0.25


class AppendNotices:
    """Publishes the first append at once. Those that follow soon become one notice, about the last of them."""

    def __init__(self, publish: Callable[[str, int, str], None], seconds: float = _SECONDS) -> None:
        """`publish` gets the id of a journal, the number of its last event, and its connection."""
        self._publish = publish
        self._seconds = seconds
        # One for each journal about which a notice was published just now, and what was appended since.
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._latest: dict[str, tuple[int, str]] = {}

    def note(self, journal: str, sequence: int, connection: str) -> None:
        """Something was appended to a journal."""
        if journal in self._timers:
            self._latest[journal] = sequence, connection
            return
        self._timers[journal] = asyncio.get_running_loop().call_later(self._seconds, self._passed, journal)
        self._publish(journal, sequence, connection)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _passed(self, journal: str) -> None:
        del self._timers[journal]
        if (latest := self._latest.pop(journal, None)) is not None:
            self.note(journal, *latest)
