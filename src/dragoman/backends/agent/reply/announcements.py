"""Matches calls with their announcements.

An agent sends a call twice: it announces the call over ACP, with an id, and makes it over MCP, without that id. Either
may come first. What they have in common is the tool and the arguments, and several calls of one tool in parallel differ
in nothing else.

The arguments of an announcement may still be on their way, or stand one level deeper beside the name of the server. So a
call takes the announcement with its very arguments, else one whose arguments are not known, else the oldest of its tool:
how many are still to come is right in any case.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from dragoman.lm.json import JsonObject, canonical

__all__ = ["Announcements"]

# Calls that arrived before an announcement. An agent that announces nothing makes no more of them than a turn has calls,
# and one that announces late does so within a moment.
_EARLY_LIMIT = 64


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    # As the agent has it: of an announcement, its raw input.
    given: object

    def distance(self, tool: str, arguments: object) -> int | None:
        """0: the very call; 1: perhaps; 2: one of the same tool, with other arguments; None: another."""
        if tool != self.tool:
            return None
        if not self.given:
            return 1
        deeper = self.given.values() if isinstance(self.given, dict) else ()
        wanted = canonical(arguments)
        return 0 if any(canonical(each) == wanted for each in (self.given, *deeper)) else 2


class Announcements:
    """The announcements of one turn."""

    def __init__(self) -> None:
        self._expected: dict[str, _Call] = {}
        self._made: set[str] = set()
        self._early: deque[tuple[str, JsonObject]] = deque(maxlen=_EARLY_LIMIT)

    def announce(self, key: str, tool: str, given: object) -> bool:
        """Add or update an announcement. Returns whether there is one more call to wait for."""
        if key in self._made:
            return False
        call = _Call(tool, given)
        if key in self._expected:
            self._expected[key] = call
            return False
        near = [early for early in self._early if call.distance(*early) in (0, 1)]
        if near:
            # The call arrived before its announcement.
            self._early.remove(min(near, key=lambda early: call.distance(*early) or 0))
            self._made.add(key)
            return False
        self._expected[key] = call
        return True

    def make(self, tool: str, arguments: JsonObject) -> str | None:
        """Match a call that has arrived. Returns the key of its announcement."""
        distances = {key: call.distance(tool, arguments) for key, call in self._expected.items()}
        key = min(
            (key for key, distance in distances.items() if distance is not None),
            key=lambda key: distances[key] or 0,
            default=None,
        )
        if key is None:
            self._early.append((tool, arguments))
            return None
        del self._expected[key]
        self._made.add(key)
        return key

    def end(self, key: str) -> bool:
        """Remove an announcement whose call is over or was another. Returns whether the call was still expected."""
        self._made.discard(key)
        return self._expected.pop(key, None) is not None

    def clear(self) -> None:
        self._expected.clear()
        self._made.clear()
        self._early.clear()
