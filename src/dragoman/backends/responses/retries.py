"""Whether and when to retry a request. Only before the first event: no text may be emitted twice.

A busy endpoint (429, 502, 503, 504, 529) and a connection that does not come about are tried three times more; an error of
its own (500) once, because the request often causes it. A `Retry-After` is obeyed, unless it is longer than a user
waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

__all__ = ["Trouble", "pause_before_retry", "retry_after_seconds"]

# What stood in the way: a status, or no answer at all.
Trouble: TypeAlias = int | Literal["connection"]

_TRIES: dict[Trouble, int] = {"connection": 4, 429: 4, 502: 4, 503: 4, 504: 4, 529: 4, 500: 2, 408: 2}
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 16.0
# The user still waits for the answer.
_LONGEST_OBEYED = 60.0


def pause_before_retry(
    trouble: Trouble, tries: int, retry_after: float | None, random: Callable[[], float]
) -> float | None:
    """Seconds to wait after so many tries; None to give up. `random` is from 0 to 1."""
    if tries >= _TRIES.get(trouble, 1):
        return None
    if retry_after is not None:
        return retry_after if retry_after <= _LONGEST_OBEYED else None
    pause = min(_FIRST_PAUSE * 2 ** (tries - 1), _LONGEST_PAUSE)
    # Between half of it and all of it, so that many who failed together do not come back together.
    return float(pause * (1 + random()) / 2)


def retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """The `Retry-After` of a response: a number of seconds, or a date."""
    if header is None:
        return None
    text = header.strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        # Hundreds of digits are no number of seconds.
        return seconds if math.isfinite(seconds := float(text)) else None
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
