"""The latest parts of a background response, in memory. Values in, values out.

Parts are numbered from 0 and pass through three marks, always in this order:

    0 … first … stored … batched … total

Those before `first` are no longer in memory. Those before `stored` are in the journal, and those before `batched` were
given to its writer. If the model reports positions, only parts before a position are batched: from there another server can
continue the response.
"""

from __future__ import annotations

from dragoman.lm import Part, TextPart, ThinkingPart
from dragoman.lm.json import encode

__all__ = ["PartWindow"]

# A part in memory, beside its text.
_PART_BYTES = 128


class PartWindow:
    def __init__(self, stored: int = 0) -> None:
        """`stored`: so many parts are in the journal already."""
        self.first = self._stored = self._batched = stored
        self._parts: list[Part] = []
        self._bytes = 0
        # The size of the parts after `batched`.
        self.new_bytes = 0
        # The number of parts before the last position. None: the model reports none.
        self._position: int | None = None

    @property
    def total(self) -> int:
        return self.first + len(self._parts)

    @property
    def has_new(self) -> bool:
        return self._batched < self._limit

    @property
    def _limit(self) -> int:
        return self.total if self._position is None else self._position

    def mark_position(self) -> None:
        """Everything before this can be stored as one."""
        self._position = self.total

    @property
    def has_lost(self) -> bool:
        """Whether parts were dropped that the journal does not have."""
        return self.first > self._stored

    def add(self, part: Part) -> None:
        self._parts.append(part)
        self._bytes += _size(part)
        self.new_bytes += _size(part)

    def since(self, place: int) -> list[Part]:
        """Return the parts from this number on. It is not before `first`."""
        return self._parts[place - self.first :]

    def batch(self, *, is_last: bool = False) -> tuple[Part, ...]:
        """Return the parts that were in no batch yet, and can be stored. `is_last`: no more come."""
        limit = self.total if is_last else self._limit
        parts = tuple(self._parts[self._batched - self.first : limit - self.first])
        self._batched = limit
        self.new_bytes -= sum(map(_size, parts))
        return parts

    @property
    def batched(self) -> int:
        return self._batched

    def mark_stored(self, count: int) -> None:
        """Note that the journal has this many parts, from the first one on."""
        self._stored = max(self._stored, count)

    def shrink(self, limit: int, limit_unstored: int) -> None:
        """Drop the oldest parts beyond a size. Those that are not stored have their own limit; those in no batch stay."""
        count = 0
        for number, part in enumerate(self._parts[: self._batched - self.first], self.first):
            if self._bytes <= (limit if number < self._stored else limit_unstored):
                break
            self._bytes -= _size(part)
            count += 1
        del self._parts[:count]
        self.first += count


def _size(part: Part) -> int:
    match part:
        case TextPart(value=text) | ThinkingPart(value=str() as text):
            return len(text) + _PART_BYTES
        case _:
            return len(encode(part)) + _PART_BYTES
