"""The three values of a condition."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Match"]


class Match(IntEnum):
    """Whether a condition holds. `min` of several is their *and*, `max` their *or*.

    An *allow* rule needs YES. A *deny* or *ask* rule that is MAYBE raises a doubt.
    """

    NO = 0
    MAYBE = 1
    YES = 2

    @classmethod
    def of(cls, value: object) -> Match:
        return cls.YES if value else cls.NO

    @property
    def negated(self) -> Match:
        return Match(Match.YES - self)
