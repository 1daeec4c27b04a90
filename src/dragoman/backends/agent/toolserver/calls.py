"""Calls that wait for an answer. Everything is decided here, synchronously; others do the waiting.

A call is open from the moment the agent makes it until its answer has been handed over or the agent has withdrawn it.
As a rule somebody holds it: the request of the agent that will carry the answer. An agent that cannot wait so long is
given a *ticket* instead; then nobody holds the call until the agent comes back with it. Either way it is one call, with
one key, answered once. Whoever comes back last holds the call: an agent that gave up silently and asks again is served.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.lm import JsonObject
from dragoman.lm.parts import ToolResult

__all__ = [
    "MAX_OPEN_CALLS",
    "MAX_UNCOLLECTED",
    "CallEnded",
    "CallRefused",
    "Calls",
    "Hold",
    "PendingCall",
]

_log = logging.getLogger(__name__)

# More than any agent makes at once; a loop that has gone wild makes more.
MAX_OPEN_CALLS = 128
# Answers whose ticket was never brought back. Each may be megabytes; models forget tickets.
MAX_UNCOLLECTED = 16

# Why a hold ends without an answer: somebody else holds the call now, the agent has given up, or the endpoint is closed.
CallEnded: TypeAlias = Literal["superseded", "withdrawn", "closed"]


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call as the consumer knows it: its own name for the tool, and the arguments as the agent gave them."""

    key: str
    name: str
    arguments: JsonObject


class CallRefused(Exception):
    """A call that cannot be opened, and why, in words for the model."""


class Hold:
    """The right to an answer; one per call at a time."""

    __slots__ = ("call", "outcome")

    def __init__(self, call: PendingCall) -> None:
        self.call = call
        self.outcome: asyncio.Future[ToolResult | CallEnded] = asyncio.get_running_loop().create_future()

    def end(self, outcome: ToolResult | CallEnded) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


@dataclass(slots=True)
class _Open:
    call: PendingCall
    hold: Hold | None
    ticket: int | None = None
    # Only while nobody holds the call.
    answer: ToolResult | None = field(default=None)


class Calls:
    def __init__(
        self, *, on_call: Callable[[PendingCall], object], on_withdrawn: Callable[[str], object]
    ) -> None:
        self._on_call = on_call
        self._on_withdrawn = on_withdrawn
        self._open: dict[str, _Open] = {}
        self._tickets: dict[int, _Open] = {}
        self._keys = itertools.count(1)
        self._ticket_numbers = itertools.count(1)
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def open(self, name: str, arguments: JsonObject) -> Hold:
        """A new call, told to the bridge before this returns."""
        if self._closed:
            raise CallRefused("The conversation that this tool belongs to has ended.")
        if len(self._open) >= MAX_OPEN_CALLS:
            raise CallRefused(f"{MAX_OPEN_CALLS} calls are open already; wait for their results.")
        hold = Hold(PendingCall(str(next(self._keys)), name, arguments))
        self._open[hold.call.key] = _Open(hold.call, hold)
        try:
            self._on_call(hold.call)
        except BaseException:
            self._forget(self._open[hold.call.key])
            raise
        return hold

    def answer(self, key: str, answer: ToolResult) -> bool:
        """Hand the answer to the request that holds the call, or keep it for one that comes with the ticket. False: it goes nowhere."""
        call = self._open.get(key)
        if call is None or call.answer is not None:
            _log.info("an answer to call %s goes nowhere: it has one already, or was withdrawn", key)
            return False
        if call.hold is not None:
            self._forget(call)
            call.hold.end(answer)
        else:
            call.answer = answer
            self._drop_oldest_uncollected()
        return True

    def is_uncollected(self, key: str) -> bool:
        call = self._open.get(key)
        return call is not None and call.answer is not None

    def withdraw(self, hold: Hold) -> None:
        """The agent no longer waits. Nothing happens if somebody else holds the call by now, or it has its answer."""
        call = self._open.get(hold.call.key)
        if call is None or call.hold is not hold:
            return
        self._forget(call)
        hold.end("withdrawn")
        self._on_withdrawn(hold.call.key)

    def put_off(self, hold: Hold) -> int | None:
        """Let go of the call for a ticket. None if there is nothing to let go of: the hold has ended."""
        call = self._open.get(hold.call.key)
        if call is None or call.hold is not hold:
            return None
        call.hold = None
        if call.ticket is None:
            call.ticket = next(self._ticket_numbers)
            self._tickets[call.ticket] = call
        return call.ticket

    def take_up(self, ticket: int) -> Hold | None:
        """Hold the call of a ticket again. None for a ticket that was never given, or whose answer was handed over."""
        call = self._tickets.get(ticket)
        if call is None:
            return None
        before, call.hold = call.hold, Hold(call.call)
        if before is not None:
            before.end("superseded")
        if call.answer is not None:
            self._forget(call)
            call.hold.end(call.answer)
        return call.hold

    def close(self) -> None:
        """End every hold, and forget everything. The bridge is not told: it is what closes us."""
        self._closed = True
        holds = [call.hold for call in self._open.values() if call.hold is not None]
        self._open.clear()
        self._tickets.clear()
        for hold in holds:
            hold.end("closed")

    def _forget(self, call: _Open) -> None:
        self._open.pop(call.call.key, None)
        if call.ticket is not None:
            self._tickets.pop(call.ticket, None)

    def _drop_oldest_uncollected(self) -> None:
        uncollected = [call for call in self._open.values() if call.answer is not None]
        for call in uncollected[:-MAX_UNCOLLECTED]:
            _log.warning("the answer to call %s was never collected; it is dropped", call.call.key)
            self._forget(call)
