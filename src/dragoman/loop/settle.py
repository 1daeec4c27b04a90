"""Handles the calls of one answer: check, ask, run, record.

`round`, which is pure, has the rules for calls; this module has what waits. `settle` handles a round and leaves it
closed, unless it is suspended. `interrupt` and `abandon` end at any moment what is still open.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.lm import CancellationError, CancellationToken, LanguageModelError, until_cancelled
from dragoman.lm.parts import ToolResult
from dragoman.loop.events import (
    CallDecided,
    EndReason,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    question_asked,
)
from dragoman.loop.hooks import Hooks, Suspend
from dragoman.loop.host import DecisionTimedOut, Host, HostAnswer, NotAsked
from dragoman.loop.progress import RunProgress
from dragoman.loop.round import (
    APPROVAL_FAILED,
    DENIED,
    DENIED_BY_RULE,
    DENIED_UNASKED,
    DENIED_WITH_REASON,
    SKIPPED,
    TIMED_OUT,
    CallState,
    Round,
    RoundVerdict,
    interruption,
)
from dragoman.loop.settings import LoopSettings
from dragoman.permissions.decide import Allowed, Ask, RefusedByRule
from dragoman.permissions.edit_mode import change_of
from dragoman.permissions.record import By
from dragoman.tools.decision import Approve, Deny
from dragoman.tools.preparation import PreparedCall, ToolProblem
from dragoman.tools.result import failure_text, result_of
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.tool import Invocation, Tool

__all__ = ["Settlement"]

_log = logging.getLogger(__name__)

# A step of a round that gives a call its result.
_Ending: TypeAlias = Callable[[Round, str, ToolResult], Round]

# The outcome of calls that a decision about an earlier one covers.
_REST: dict[RoundVerdict, tuple[_Ending, str]] = {
    "react": (Round.skipped, SKIPPED),
    "tool_denied": (Round.skipped, SKIPPED),
    "timed_out": (Round.timed_out, TIMED_OUT),
}


class Settlement:
    """Handles the calls of one run, those of one answer at a time."""

    def __init__(
        self,
        progress: RunProgress,
        runtime: ToolRuntime,
        hooks: Hooks,
        settings: LoopSettings,
        clock: Clock,
        token: CancellationToken,
        *,
        agent: str = "",
    ) -> None:
        """`agent` is the id of the model that makes the calls."""
        self._agent = agent
        self._progress = progress
        self._runtime = runtime
        self._host = Host(hooks, settings, clock, token)
        self._settings = settings
        self._clock = clock
        self._token = token
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._began: dict[str, float] = {}
        # What is known of a call already, while a hook still looks at its result.
        self._known: dict[str, tuple[_Ending, ToolResult]] = {}

    def recover(self) -> None:
        """Interrupt the calls that ran in an earlier process, and drop the approvals that were not used."""
        for state in self._progress.round.calls:
            call_id = state.call.call_id
            if state.status == "running":
                self._write(call_id, Round.interrupted, _interrupted(state), approved=True)
            elif state.status == "approved":
                self._progress.round = self._progress.round.unapproved(call_id)

    async def settle(self) -> EndReason | None:
        """Give every call its result. Returns how the run must end now, if it must."""
        try:
            await self._decide()
        except Suspend:
            await self._all_done()
            return "suspended"
        verdict = self._progress.round.verdict
        if verdict is not None:
            ending, text = _REST[verdict]
            for state in self._progress.round.pending:
                await self._record(state.call.call_id, ending, ToolResult.error(text))
        await self._all_done()
        end: EndReason | None = None if verdict == "react" else verdict
        self._progress.close_round(end)
        return end

    async def _decide(self) -> None:
        """Decide about the calls in order, one question at a time, until a decision covers the rest."""
        for state in self._progress.round.pending:
            if self._progress.round.verdict is not None:
                return
            self._token.raise_if_cancelled()
            call_id = state.call.call_id
            prepared = await self._prepare(state)
            if prepared is None:
                continue
            match self._runtime.decide(prepared):
                case Allowed() as standing:
                    self._progress.emit(_decided(prepared, standing))
                    await self._start(call_id, prepared, standing.why)
                case RefusedByRule() as refused:
                    self._progress.emit(_decided(prepared, refused))
                    # It is not a person's no: the other calls go on, and the model reacts.
                    text = DENIED_BY_RULE.format(why=refused.why)
                    await self._record(call_id, Round.denied, ToolResult.error(text))
                case ask:
                    await self._ask_about(call_id, prepared.asked_because(ask), ask)

    async def _ask_about(self, call_id: str, prepared: PreparedCall, ask: Ask) -> None:
        match await self._ask(prepared, ask):
            case Approve() as approval:
                await self._start(call_id, prepared, self._remember(prepared, approval))
            case DecisionTimedOut():
                self._progress.round = self._progress.round.left_undecided()
            case answer:
                ending = partial(Round.denied, verdict=self._verdict(answer))
                await self._record(call_id, ending, _refusal(answer))

    async def _ask(self, prepared: PreparedCall, ask: Ask) -> HostAnswer:
        began = self._clock.now()
        self._progress.emit(question_asked(prepared.question, prepared.invocation_message))
        try:
            answer = await self._host.decide(prepared.question)
        except (CancellationError, asyncio.CancelledError):
            self._progress.emit(_decided(prepared, None, self._clock.now() - began))
            raise
        if isinstance(answer, NotAsked) and ask.because is not None:
            answer = NotAsked(f"{answer.why} {ask.because}")
        self._progress.emit(_decided(prepared, answer, self._clock.now() - began))
        return answer

    def _verdict(self, answer: Deny | NotAsked) -> RoundVerdict | None:
        if isinstance(answer, Deny) and (self._settings.on_denial == "ask-each" or not answer.by_user):
            return None
        return "react" if _gives_a_reason(answer) else "tool_denied"

    async def _prepare(self, state: CallState) -> PreparedCall | None:
        """The call as it will run; None when it cannot be made, and has its error result."""
        call_id = state.call.call_id
        try:
            if state.executed is None:
                call = await self._host.rewrite(state.call)
                if call != state.call:
                    self._progress.round = self._progress.round.rewritten(call_id, call)
            call = self._progress.round.made(call_id)
            prepared = await self._host.wait(self._runtime.prepare(call, self._token, self._agent))
        except ToolProblem as problem:
            await self._record(call_id, Round.failed, ToolResult.error(problem.message))
            return None
        except Exception as error:
            self._token.raise_if_cancelled()
            _log.exception("preparing a call of %s failed", state.call.name)
            text = f"The call could not be prepared and was not made. {failure_text(error)}"
            await self._record(call_id, Round.failed, ToolResult.error(text))
            return None
        if prepared.call != call:
            self._progress.round = self._progress.round.rewritten(call_id, prepared.call)
        return prepared

    def _remember(self, prepared: PreparedCall, approval: Approve) -> str:
        try:
            self._runtime.remember(prepared, approval)
        except Exception:
            # The user has approved this call; a failure to store the approval is no reason to refuse it.
            _log.exception("an approval could not be stored; it counts for this call only")
            return "approved once"
        return "approved once" if approval.level == "once" else f"approved: {approval.level}"

    async def _start(self, call_id: str, prepared: PreparedCall, approved: str) -> None:
        self._progress.round = self._progress.round.approved(call_id)
        if not prepared.tool.parallel:
            await self._all_done()
        self._tasks[call_id] = asyncio.create_task(self._execute(call_id, prepared, approved))
        if not prepared.tool.parallel:
            await self._all_done()

    async def _execute(self, call_id: str, prepared: PreparedCall, approved: str) -> None:
        def begin() -> None:
            self._began[call_id] = self._clock.now()
            self._progress.round = self._progress.round.running(call_id)
            self._progress.emit(
                ToolStarted(call_id, prepared.call.name, prepared.invocation_message, approved)
            )

        tool = dataclasses.replace(prepared.tool, tool=_Noted(prepared.tool.tool, begin))
        try:
            result = await self._runtime.run(
                dataclasses.replace(prepared, tool=tool),
                self._token,
                lambda line: self._progress.emit(ToolProgressed(call_id, line)),
            )
            if self._progress.state.round is None:
                # This task was abandoned: the call has a result already.
                return
            await self._record(call_id, Round.erred if result.is_error else Round.finished, result)
        except CancellationError:
            # `interrupt` waits for us, and says what became of the call.
            return

    async def _all_done(self) -> None:
        """Wait until every running tool has finished, or the run is cancelled."""
        if self._tasks:
            await until_cancelled(asyncio.wait(self._tasks.values()), self._token)
            for task in self._tasks.values():
                task.result()
            self._tasks.clear()
        self._token.raise_if_cancelled()

    async def interrupt(self) -> None:
        """End the round: finished results are recorded, the rest is interrupted. Waits for the grace period at most."""
        try:
            if self._tasks:
                await within(
                    asyncio.wait(self._tasks.values()), self._settings.cancel_grace_seconds, self._clock
                )
        except DeadlinePassed:
            _log.warning("of %d tools some do not stop; they are left behind", len(self._tasks))
        finally:
            self.abandon("cancelled")

    def abandon(self, end: EndReason, error: LanguageModelError | None = None) -> None:
        """End the round at once, without waiting and without asking the host."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        if self._progress.state.round is None:
            return
        for state in self._progress.round.calls:
            if state.status != "done":
                call_id = state.call.call_id
                ending, result = self._known.get(call_id) or (Round.interrupted, _interrupted(state))
                self._write(call_id, ending, result, approved=state.status != "pending")
        self._progress.close_round(end, error)

    async def _record(self, call_id: str, ending: _Ending, result: ToolResult) -> None:
        self._known[call_id] = ending, result
        round_ = self._progress.round
        approved = round_.status(call_id) == "running"
        result = await self._host.review(round_.made(call_id), result, approved=approved)
        self._write(call_id, ending, result, approved=approved)

    def _write(self, call_id: str, ending: _Ending, result: ToolResult, *, approved: bool) -> None:
        """Record the result of a call. The only place that does so."""
        self._progress.round = after = ending(self._progress.round, call_id, result)
        self._known.pop(call_id, None)
        began = self._began.pop(call_id, None)
        seconds = 0.0 if began is None else self._clock.now() - began
        self._progress.emit(ToolFinished(after.result(call_id), approved=approved, seconds=seconds))


class _Noted:
    """A tool that notes the moment when it begins: before that it has not run, after that it may have had effects."""

    def __init__(self, tool: Tool, begin: Callable[[], None]) -> None:
        self._tool = tool
        self._begin = begin

    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:
        self._begin()
        return await self._tool.invoke(invocation, token)


def _decided(
    prepared: PreparedCall, decision: Allowed | RefusedByRule | HostAnswer | None, seconds: float = 0.0
) -> CallDecided:
    """`decision` is None if the run ended before there was one."""
    allowed, by, why = _verdict_of(decision)
    return CallDecided(
        prepared.call,
        prepared.invocation_message,
        allowed,
        by,
        why,
        seconds,
        prepared.tool.read_only,
        prepared.action,
        decision.new_rule if isinstance(decision, Approve) else None,
        (prepared.change or change_of(prepared.action)) if by == "mode" else "",
    )


def _verdict_of(decision: Allowed | RefusedByRule | HostAnswer | None) -> tuple[bool, By, str | None]:
    match decision:
        case Allowed():
            return True, decision.by, decision.reason
        case RefusedByRule():
            return False, "rule", decision.why
        case Approve():
            return True, "person", decision.level
        case Deny():
            return False, "person" if decision.by_user else "unasked", decision.reason
        case NotAsked():
            # Where no person can be asked, nothing is done that needs an approval.
            return False, "unasked", decision.why
        case DecisionTimedOut():
            return False, "timeout", None
        case _:
            return False, "end", None


def _interrupted(state: CallState) -> ToolResult:
    return ToolResult.error(interruption(state))


def _gives_a_reason(answer: Deny | NotAsked) -> bool:
    # Enter on an empty line is no reason.
    return isinstance(answer, Deny) and answer.reason is not None and bool(answer.reason.strip())


def _refusal(answer: Deny | NotAsked) -> ToolResult:
    if isinstance(answer, NotAsked):
        text = APPROVAL_FAILED.format(error=answer.why)
    elif not answer.by_user:
        text = DENIED_UNASKED.format(reason=answer.reason or "The user was not asked.")
    else:
        text = DENIED_WITH_REASON.format(reason=answer.reason) if _gives_a_reason(answer) else DENIED
    return result_of(ToolResult.error(text))
