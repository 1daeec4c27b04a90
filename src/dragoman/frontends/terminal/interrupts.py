"""Ctrl-C: once stops the answer, twice leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.clock import Clock

__all__ = ["Interrupts"]

# Two presses within this are meant as two; after it, the second is a first one again.
_TWICE_SECONDS = 2.0


class Interrupts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None
        # Another program has the terminal: a press is for it.
        self.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def forget(self) -> None:
        """Forget an earlier press: an answer has begun, or the user has typed something."""
        self._last = None

    def press(self) -> bool:
        """Note a press. Returns whether it is the second of two."""
        now = self._clock.now()
        is_second = self._last is not None and now - self._last <= _TWICE_SECONDS
        self._last = now
        return is_second
