"""A buffer for an agent's output while no reply is open, in order, for the next reply of its conversation.

It may be much until the next request. Progress (thoughts, activities and plans) beyond a limit is discarded, and a line
says so; a buffered activity or plan is still replaced by its newer state. Text and pictures are never discarded: beyond a
separate limit, reading from the agent is paused.
"""

from __future__ import annotations

from dragoman.backends.agent.reply.backpressure import Flow, size_of
from dragoman.lm import ActivityPart, Part, PlanPart, ProgressPart, ThinkingPart
from dragoman.lm.parts import progress_key

__all__ = ["HELD_BYTES", "PROGRESS_BYTES", "Backlog"]

# Pages of progress: more than a person reads afterwards.
PROGRESS_BYTES = 256 * 1024
# Some answers of the longest kind, with pictures.
HELD_BYTES = 8 * 1024 * 1024
_LEFT_OUT = ThinkingPart(
    "\n\n… what the agent did in the meantime was too much to keep; some of it is left out …\n\n"
)


class Backlog:
    """The buffered output of one conversation. `flow` is paused while it is too large."""

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
        """Whether reading from the agent is paused."""
        return self._bytes > HELD_BYTES

    def take(self) -> list[Part]:
        """Remove and return all parts."""
        parts, self._parts, self._places = self._parts, [], {}
        self._bytes, self._leaves_out = 0, False
        self.let_go()
        return parts

    def let_go(self) -> None:
        """Resume reading from the agent, for example because it is to stop and its answer must be read."""
        self._flow.resume_reading(self)
