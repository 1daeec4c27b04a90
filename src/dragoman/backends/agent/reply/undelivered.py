"""Results that were not delivered, because the agent no longer waited. The user gets a notice about each.

The agent may withdraw a call, end its turn, or never send its ticket. A turn that the consumer has cancelled does not
count: there the user stopped it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dragoman.backends.agent.machine.types import Pending
from dragoman.clock import Clock
from dragoman.conversations.vscode_results import with_outcome
from dragoman.lm import Message, Outcome, ToolResultPart
from dragoman.lm.gfm import escape

__all__ = ["UndeliveredResults"]

_T = TypeVar("_T")

# How many of the latest calls are stored.
_MAX_MISSED = 256
_LOST = "It was not passed on."
_WITHOUT_EFFECT: frozenset[Outcome | None] = frozenset({"denied", "skipped", "interrupted"})


class UndeliveredResults:
    """The undelivered results of one conversation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When each of the latest calls was made.
        self._made_at: dict[str, float] = {}
        # Calls that no answer can reach any more, and why.
        self._why: dict[str, str] = {}
        # Calls of this turn that were answered, by their keys on the tool server. Some answers wait there for a ticket.
        self._answered: dict[str, Pending] = {}

    def made(self, call_id: str) -> None:
        _put(self._made_at, call_id, self._clock.now())

    def given_up(self, pending: Pending) -> float:
        """The agent withdrew the call. Returns how long it waited, in seconds."""
        waited = self._clock.now() - self._made_at.get(pending.call_id, self._clock.now())
        _put(
            self._why, pending.call_id, f"The agent stopped waiting for {_name(pending)} after {waited:.0f} s"
        )
        return waited

    def passed_over(self, pending: Pending) -> None:
        """The turn of the call has ended, or continued without its result."""
        _put(self._why, pending.call_id, f"The agent went on without {_name(pending)}")

    def timed_out(self, pending: Pending) -> None:
        _put(self._why, pending.call_id, f"The time limit (human_minutes) for {_name(pending)} had passed")

    def answered(self, pending: Pending, *, is_taken: bool) -> str | None:
        """A result was passed to the tool server. Returns a notice if it was discarded."""
        if is_taken:
            _put(self._answered, pending.key, pending)
            return None
        return f"The agent stopped waiting for {_name(pending)}. {_LOST}"

    def agent_started(self) -> None:
        """Reset the calls of the turn: a new tool server numbers its calls from one again."""
        self._answered.clear()

    def uncollected(self, is_uncollected: Callable[[str], bool]) -> Iterator[str]:
        """At the end of a turn: notices about answers that the agent never fetched."""
        answered, self._answered = self._answered, {}
        for key, pending in answered.items():
            if is_uncollected(key):
                yield f"The agent stopped waiting for {_name(pending)}, and has not come back for it with its ticket."

    def brought(self, messages: Iterable[Message], unwanted: Iterable[str]) -> Iterator[str]:
        """Notices about results in a request for calls that no longer wait."""
        why = {call_id: self._why.pop(call_id) for call_id in unwanted if call_id in self._why}
        if not why:
            return
        results = {
            part.call_id: part
            for message in messages
            for part in message.content
            if isinstance(part, ToolResultPart) and part.call_id in why
        }
        for call_id, result in results.items():
            # A refusal has its effect anyway, and the result of a Stop was not given by a person.
            if with_outcome(result).outcome not in _WITHOUT_EFFECT:
                yield f"{why[call_id]}. {_LOST}"


def _name(pending: Pending) -> str:
    if pending.kind == "permission":
        return "your decision"
    return f"the result of {escape(pending.part.name)}"


def _put(latest: dict[str, _T], key: str, value: _T) -> None:
    latest[key] = value
    if len(latest) > _MAX_MISSED:
        del latest[next(iter(latest))]
