"""A limit on the work of a check: each step counts, and a check beyond its limit ends in `TooMuchWork`.

A step is about twenty microseconds. What takes longer counts as several.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["MAX_STEPS", "TooMuchWork", "limited_work", "size_of", "spend"]

# Steps for one input: about a second of work.
MAX_STEPS = 50_000


class TooMuchWork(Exception):
    """A check exceeds its limit of steps."""


_steps_left: ContextVar[int] = ContextVar("_steps_left")


@contextmanager
def limited_work(steps: int = MAX_STEPS) -> Iterator[None]:
    """Limit the work within the block. It raises `TooMuchWork`."""
    before = _steps_left.set(steps)
    try:
        yield
    finally:
        _steps_left.reset(before)


def spend(steps: int = 1) -> None:
    """Count steps before they are done. Only within `limited_work`: anywhere else it is a `LookupError`."""
    left = _steps_left.get()
    if left < steps:
        raise TooMuchWork
    _steps_left.set(left - steps)


def size_of(value: object) -> int:
    """The number of values in a JSON value, itself and all within it."""
    count, level = 0, [value]
    while level:
        each = level.pop()
        count += 1
        if isinstance(each, dict):
            level += each.values()
        elif isinstance(each, list):
            level += each
    return count
