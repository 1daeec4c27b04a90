"""Until when a gateway may show what a worker says. No I/O; the caller says what time it is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Validity"]


@dataclass(slots=True)
class Validity:
    """One incarnation of a worker, as far as a gateway knows that it is not fenced.

    A worker says how many seconds it has until its fence. They count from the moment at which the gateway **sent** its
    question: the answer was made after that. So a gateway never believes in a worker for longer than the worker itself does.
    """

    until: float

    @classmethod
    def heard(cls, sent_at: float, seconds_left: float) -> Validity:
        return cls(sent_at + seconds_left)

    def extend(self, sent_at: float, seconds_left: float) -> None:
        """The worker has answered a question that was sent then. A fence only moves away, so an old answer changes nothing."""
        self.until = max(self.until, sent_at + seconds_left)

    def seconds_left(self, now: float) -> float:
        return self.until - now
