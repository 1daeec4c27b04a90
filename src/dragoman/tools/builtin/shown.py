"""What the user was shown before they decided, stored until the tool runs.

A tool is prepared, the user looks at what it is about to do, and some time later it runs. What it relied on may have
changed by then: so the preparation notes it under the call and its input, and the run takes the note.
"""

from __future__ import annotations

import hashlib
from typing import Generic, TypeVar

from dragoman.lm.json import canonical
from dragoman.tools.tool import Invocation

__all__ = ["MAX_NOTES", "Shown"]

_T = TypeVar("_T")

# Calls that were refused never take their note. A turn has some dozens of calls at most.
MAX_NOTES = 256


class Shown(Generic[_T]):
    def __init__(self) -> None:
        self._notes: dict[tuple[str, str], _T] = {}

    def note(self, invocation: Invocation, value: _T) -> None:
        key = _key(invocation)
        self._notes.pop(key, None)
        if len(self._notes) >= MAX_NOTES:
            del self._notes[next(iter(self._notes))]
        self._notes[key] = value

    def take(self, invocation: Invocation) -> _T | None:
        """The note for this very invocation, once."""
        return self._notes.pop(_key(invocation), None)


def _key(invocation: Invocation) -> tuple[str, str]:
    # An input may be a whole file; its digest is enough to know it by.
    return invocation.call_id, hashlib.sha256(canonical(invocation.input).encode()).hexdigest()
