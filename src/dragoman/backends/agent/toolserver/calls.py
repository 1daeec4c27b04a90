"""Calls that wait for an answer. Everything is decided here, synchronously; the callers wait.

A call is open from the moment the agent makes it until its answer has been handed over or the agent has withdrawn it.
As a rule a request of the agent *holds* it: that request will carry the answer. An agent that cannot wait so long gets a
*ticket* as the response; then no request holds the call until the agent sends one with the ticket. Either way it is one
call, with one key, answered once. The latest request with the ticket holds the call: an agent that timed out silently
and asks again gets its answer.
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

# More than any agent makes at once; only a runaway loop makes more.
MAX_OPEN_CALLS = 128
# Answers whose ticket was never brought back. Each may be megabytes; models forget tickets.
MAX_UNCOLLECTED = 16

# Why a hold ends without an answer: another request holds the call, the agent has withdrawn it, or the endpoint closed.
CallEnded: TypeAlias = Literal["superseded", "withdrawn", "closed"]


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call as the consumer sees it: the consumer's name for the tool, and the arguments as the agent sent them."""

    key: str
    name: str
    arguments: JsonObject


class CallRefused(Exception):
    """A call cannot be opened. The message is for the model."""


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
    # Only while no request holds the call.
    answer: ToolResult | None = field(default=None)


class Calls:
    """The open calls of one endpoint."""

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
        """Open a new call. `on_call` is called before this returns."""
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
        """Answer the request that holds the call, or store the answer for its ticket. False if the answer is discarded."""
        call = self._open.get(key)
        if call is None or call.answer is not None:
            _log.info("an answer to call %s is discarded: it has one already, or was withdrawn", key)
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
        """Withdraw a call that the agent no longer waits for. No effect if another request holds it, or it is answered."""
        call = self._open.get(hold.call.key)
        if call is None or call.hold is not hold:
            return
        self._forget(call)
        hold.end("withdrawn")
        self._on_withdrawn(hold.call.key)

    def put_off(self, hold: Hold) -> int | None:
        """Release the call, and return its ticket. None if the hold has ended."""
        call = self._open.get(hold.call.key)
        if call is None or call.hold is not hold:
            return None
        call.hold = None
        if call.ticket is None:
            call.ticket = next(self._ticket_numbers)
            self._tickets[call.ticket] = call
        return call.ticket

    def take_up(self, ticket: int) -> Hold | None:
        """Hold the call of a ticket again. None for a ticket that was never issued, or whose answer was handed over."""
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
        """End every hold, and drop all calls. `on_withdrawn` is not called: the bridge is the caller."""
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
