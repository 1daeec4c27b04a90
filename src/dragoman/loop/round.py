"""One round: the calls of one answer, and the state of each.

A round is a value. Each call goes from `pending` over `approved` and `running` to `done`; only a call that is done
has a result, and it has exactly one. Every function here takes a round and returns the next, or raises
`IllegalStep` and has changed nothing. Nothing here waits, asks or runs.

Why `approved` and `running` are two: a call that may not run beside others waits for them, and what is true of a call
that was interrupted differs: one has run in part, the other not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from dragoman.lm import Message, Outcome, ToolCallPart, ToolResultPart
from dragoman.lm.parts import ToolResult
from dragoman.loop.history import INTERRUPTED_BEFORE, INTERRUPTED_DURING, readable_input

__all__ = [
    "APPROVAL_FAILED",
    "DENIED",
    "DENIED_BY_RULE",
    "DENIED_UNASKED",
    "DENIED_WITH_REASON",
    "SKIPPED",
    "TIMED_OUT",
    "CallState",
    "CallStatus",
    "IllegalStep",
    "Round",
    "RoundVerdict",
    "interruption",
]

# The words are part of the contract with models: they are what a conversation was trained or tuned on elsewhere.
DENIED = "Error: Tool execution was denied by user."
DENIED_BY_RULE = "Error: Tool execution was denied by a rule; the user was not asked. {why}"
DENIED_UNASKED = "Error: Tool execution was denied. {reason}"
DENIED_WITH_REASON = "Tool use rejected with user message: {reason}"
SKIPPED = "Error: Tool execution was skipped due to previous tool denial."
TIMED_OUT = "Error: No one decided about this tool call in time; it was not run."
APPROVAL_FAILED = "Error: Tool execution was denied, because approval could not be asked for. {error}"

CallStatus: TypeAlias = Literal["pending", "approved", "running", "done"]

# What a decision about one call means for those after it, and for the run. react: they are skipped, and the
# model gets to react. tool_denied: they are skipped, and the run ends. timed_out: so are they, and it ends.
RoundVerdict: TypeAlias = Literal["react", "tool_denied", "timed_out"]


class IllegalStep(Exception):
    """An illegal change of a call's state. A bug of ours."""


class CallState(msgspec.Struct, frozen=True):
    # As the model made it: its id is what the result is filed under.
    call: ToolCallPart
    status: CallStatus = "pending"
    # What runs instead, where a hook or the tool's defaults made something else of it.
    executed: ToolCallPart | None = None
    result: ToolResultPart | None = None


class Round(msgspec.Struct, frozen=True):
    calls: tuple[CallState, ...]
    # Part of the record, so that a decision still holds after a restart.
    verdict: RoundVerdict | None = None

    @classmethod
    def of(cls, calls: tuple[ToolCallPart, ...]) -> Round:
        return cls(tuple(CallState(call) for call in calls))

    @property
    def pending(self) -> tuple[CallState, ...]:
        return tuple(state for state in self.calls if state.status == "pending")

    def status(self, call_id: str) -> CallStatus:
        return self._find(call_id)[1].status

    def made(self, call_id: str) -> ToolCallPart:
        """The call as it runs, or would have run."""
        return _made(self._find(call_id)[1])

    def result(self, call_id: str) -> ToolResultPart:
        result = self._find(call_id)[1].result
        if result is None:
            raise IllegalStep(f"call {call_id!r} has no result yet")
        return result

    def message(self) -> Message:
        """The one message with every result, in call order."""
        results = tuple(state.result for state in self.calls if state.result is not None)
        if len(results) != len(self.calls):
            raise IllegalStep("a round has no message before every call has its result")
        return Message("user", results)

    def rewritten(self, call_id: str, executed: ToolCallPart) -> Round:
        """The round with a call that the host has rewritten."""

        def rewrite(state: CallState) -> CallState:
            return msgspec.structs.replace(state, executed=executed)

        return self._step(call_id, ("pending",), rewrite)

    def approved(self, call_id: str) -> Round:
        return self._step(call_id, ("pending",), _to("approved"))

    def running(self, call_id: str) -> Round:
        return self._step(call_id, ("approved",), _to("running"))

    def unapproved(self, call_id: str) -> Round:
        """The round with a call whose approval was not used and is needed again."""
        return self._step(call_id, ("approved",), _to("pending"))

    def finished(self, call_id: str, result: ToolResult) -> Round:
        """The round with a call that ran and succeeded."""
        return self._end(call_id, ("running",), "ok", result)

    def erred(self, call_id: str, result: ToolResult) -> Round:
        """The round with a call that ran and failed. The host may replace the text, but not the outcome."""
        return self._end(call_id, ("running",), "error", result)

    def failed(self, call_id: str, result: ToolResult) -> Round:
        """The round with a call that could not be made: an unknown tool, or invalid arguments."""
        return self._end(call_id, ("pending",), "error", result)

    def denied(self, call_id: str, result: ToolResult, *, verdict: RoundVerdict | None = None) -> Round:
        return msgspec.structs.replace(
            self._end(call_id, ("pending",), "denied", result), verdict=verdict or self.verdict
        )

    def left_undecided(self) -> Round:
        """The round after a question that got no decision in time."""
        return msgspec.structs.replace(self, verdict="timed_out")

    def skipped(self, call_id: str, result: ToolResult) -> Round:
        return self._end(call_id, ("pending",), "skipped", result)

    def timed_out(self, call_id: str, result: ToolResult) -> Round:
        return self._end(call_id, ("pending",), "timed_out", result)

    def interrupted(self, call_id: str, result: ToolResult) -> Round:
        return self._end(call_id, ("pending", "approved", "running"), "interrupted", result)

    def _end(
        self, call_id: str, allowed: tuple[CallStatus, ...], outcome: Outcome, result: ToolResult
    ) -> Round:
        """Record a result. `outcome` says what happened; the host may have replaced the text and the error flag."""

        def end(state: CallState) -> CallState:
            made = _made(state)
            part = ToolResultPart(
                state.call.call_id,
                result.content,
                is_error=result.is_error,
                name=made.name,
                input=readable_input(made),
                outcome=outcome,
            )
            return msgspec.structs.replace(state, status="done", result=part)

        return self._step(call_id, allowed, end)

    def _step(
        self, call_id: str, allowed: tuple[CallStatus, ...], change: Callable[[CallState], CallState]
    ) -> Round:
        index, state = self._find(call_id)
        if state.status not in allowed:
            raise IllegalStep(f"call {call_id!r} is {state.status}, not {' or '.join(allowed)}")
        calls = (*self.calls[:index], change(state), *self.calls[index + 1 :])
        return msgspec.structs.replace(self, calls=calls)

    def _find(self, call_id: str) -> tuple[int, CallState]:
        for index, state in enumerate(self.calls):
            if state.call.call_id == call_id:
                return index, state
        raise IllegalStep(f"no call {call_id!r} in this round")


def interruption(state: CallState) -> str:
    """The error text for a call that is interrupted now."""
    return INTERRUPTED_DURING if state.status == "running" else INTERRUPTED_BEFORE


def _made(state: CallState) -> ToolCallPart:
    return state.executed or state.call


def _to(status: CallStatus) -> Callable[[CallState], CallState]:
    return lambda state: msgspec.structs.replace(state, status=status)
