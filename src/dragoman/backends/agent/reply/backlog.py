"""What an agent says while nobody listens, in order, for the next reply of its conversation.

It may say a great deal until somebody comes back. Progress (its thoughts, activities and plans) is left out beyond a
limit, and that is said in its place; an activity or a plan that is kept is still replaced by what it has become. Words and
pictures are never left out: beyond a limit of their own the agent is held, and waits with us.
"""

from __future__ import annotations

from dragoman.backends.agent.reply.backpressure import Flow, size_of
from dragoman.lm import ActivityPart, Part, PlanPart, ProgressPart, ThinkingPart
from dragoman.lm.parts import progress_key

__all__ = ["HELD_BYTES", "PROGRESS_BYTES", "Backlog"]

# Pages of progress: more than anybody reads afterwards.
PROGRESS_BYTES = 256 * 1024
# Some answers of the longest kind, with pictures.
HELD_BYTES = 8 * 1024 * 1024
_LEFT_OUT = ThinkingPart(
    "\n\n… what the agent did in the meantime was too much to keep; some of it is left out …\n\n"
)


class Backlog:
    """`flow` is held while there is too much."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._parts: list[Part] = []
        self._bytes = 0
        self._places: dict[str, int] = {}
        self._leaves_out = False

    def add(self, part: Part) -> None:
        is_over = self._bytes > PROGRESS_BYTES
        if isinstance(part, ProgressPart):
            place = self._places.get(progress_key(part))
            # What happened in between keeps its place, as long as there is room.
            if place is not None and (is_over or place == len(self._parts) - 1):
                self._bytes += size_of(part) - size_of(self._parts[place])
                self._parts[place] = part
                return
            if not is_over:
                self._places[progress_key(part)] = len(self._parts)
        if isinstance(part, ThinkingPart | ActivityPart | PlanPart) and is_over:
            if not self._leaves_out:
                self._leaves_out = True
                self._parts.append(_LEFT_OUT)
            return
        self._leaves_out = False
        self._parts.append(part)
        self._bytes += size_of(part)
        if self.is_full:
            self._flow.pause_reading(self)

    @property
    def is_full(self) -> bool:
        """The agent is held."""
        return self._bytes > HELD_BYTES

    def take(self) -> list[Part]:
        """All of it, once."""
        parts, self._parts, self._places = self._parts, [], {}
        self._bytes, self._leaves_out = 0, False
        self.let_go()
        return parts

    def let_go(self) -> None:
        """The agent is to stop: it need not be held any more, and could not say that it has."""
        self._flow.resume_reading(self)
