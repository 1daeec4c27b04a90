"""Invoking tools, for one session.

A call goes through four steps, which a loop takes one by one and `invoke` takes all at once:

    prepare     the input completed and checked, the tool asked what it is about to do
    decide      what rules, approvals and settings say: allowed, refused, or the user must be asked
    remember    store the user's approval for the level that it has
    run         the tool itself, with progress and cancellation

`permissions.decide` has the order of decision. A tool that is not eligible for auto-approval is asked about every time,
and only ever approved for once; so is a call for which its tool accepts no earlier approval.
"""

from __future__ import annotations

import logging
from pathlib import Path

from dragoman.lm import (
    CancellationError,
    CancellationToken,
    JsonObject,
    ToolCallPart,
    ToolDefinition,
    until_cancelled,
)
from dragoman.lm.parts import ToolResult
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import Ask, RefusedByRule, StepDecision, decide
from dragoman.permissions.edit_mode import EditMode
from dragoman.permissions.rules_in_force import RulesInForce
from dragoman.permissions.sensitive import Places
from dragoman.tools import preparation
from dragoman.tools.containment import contained
from dragoman.tools.decision import Approve, Confirmer, Deny
from dragoman.tools.invocation_token import InvocationToken
from dragoman.tools.offering import Offering
from dragoman.tools.preparation import PreparedCall, ToolProblem, invocation_of
from dragoman.tools.registry import RegisteredTool, RegistryError, ToolRegistry
from dragoman.tools.result import bounded, failure_text, result_of
from dragoman.tools.tool import ToolProgress
from dragoman.tools.virtual import DEFAULT_LIMIT, ToolLimitError

__all__ = ["PreparedCall", "ToolLimitError", "ToolProblem", "ToolRuntime"]

_log = logging.getLogger(__name__)

# A line of progress stands beside a spinner.
_MAX_PROGRESS = 200


def _silent(_line: str) -> None:
    pass


class ToolRuntime:
    def __init__(
        self,
        registry: ToolRegistry,
        approvals: Approvals,
        auto: AutoApproval,
        *,
        session: str,
        workspace: tuple[Path, ...] = (),
        limit: int = DEFAULT_LIMIT,
        virtual_threshold: int = DEFAULT_LIMIT,
        rules: RulesInForce | None = None,
        own: tuple[str, ...] = (),
        edit_mode: EditMode | None = None,
    ) -> None:
        """`own` are files and folders of Dragoman itself."""
        self.registry = registry
        self._approvals = approvals
        self._auto = auto
        self._session = session
        self._places = Places.around(workspace, own)
        self._rules = rules or RulesInForce()
        self._edit_mode = edit_mode or EditMode()
        self._offering = Offering(registry, limit=limit, threshold=virtual_threshold)

    def definitions(self, prompt: str = "", *, limit: int | None = None) -> tuple[ToolDefinition, ...]:
        """The tools to offer to a model, within our limit and its own. `ToolLimitError` if they do not fit."""
        return self._offering.definitions(prompt, limit)

    async def prepare(self, call: ToolCallPart, token: CancellationToken, agent: str = "") -> PreparedCall:
        """A model's call, ready to be asked about; `ToolProblem` if it cannot be made. `agent` is the model's id."""
        try:
            tool = self._offering.reach(call.name)
        except RegistryError as error:
            raise ToolProblem(str(error)) from None
        return await self._prepare(tool, call, token, agent)

    def decide(self, prepared: PreparedCall) -> StepDecision:
        """What happens to the call before the user is asked."""
        name = prepared.call.name
        return decide(
            name,
            self._auto,
            lambda: self._approvals.covers(self._session, name, prepared.approval_key),
            self._rules.judge(prepared.action, self._places),
            sensitive=prepared.action.sensitive is not None,
            always_ask=prepared.always_ask,
            read_only=prepared.tool.read_only,
            urls=prepared.urls,
            accepts_edit=self._edit_mode.accepts(self._session, prepared.action, prepared.change),
        )

    def remember(self, prepared: PreparedCall, approve: Approve) -> None:
        """Store an approval for more than this call, if the question offered that."""
        if approve.level != "once" and approve.level in prepared.question.levels:
            self._approvals.grant(self._session, prepared.call.name, prepared.approval_key, approve.level)

    async def run(
        self, prepared: PreparedCall, token: CancellationToken, progress: ToolProgress = _silent
    ) -> ToolResult:
        """Make the call. What a tool raises becomes an error result; only cancellation raises."""
        token.raise_if_cancelled()
        relay = _Relay(progress)
        invocation = invocation_of(prepared.call, self._places, relay)
        try:
            value: object = await contained(prepared.tool.tool.invoke(invocation, token), token)
            return bounded(result_of(value))
        except CancellationError:
            raise
        except Exception as error:
            _log.info("tool %s failed", prepared.call.name, exc_info=error)
            return ToolResult.error(failure_text(error))
        finally:
            relay.end()

    async def invoke(
        self,
        name: str,
        arguments: JsonObject,
        confirmer: Confirmer,
        token: CancellationToken,
        *,
        request: InvocationToken | None = None,
        call_id: str = "",
        progress: ToolProgress = _silent,
    ) -> ToolResult:
        """All four steps, for a program: alone, or as part of a request.

        `ToolProblem` if the call cannot be made, `CancellationError` if it was refused or cancelled: its scope is
        "rejected" when this call was refused, "skipped" when an earlier one of the request was, "request" when all is
        over. Private tools that are registered are reached by this, and by nothing else.
        """
        request = request or InvocationToken()
        with request.joined(token) as either:
            request.check()
            try:
                tool = self.registry.find(name)
            except RegistryError as error:
                raise ToolProblem(str(error)) from None
            prepared = await self._prepare(tool, ToolCallPart(call_id, name, arguments), either)
            # Another one may have been refused while this one was prepared.
            request.check()
            decision = self.decide(prepared)
            if isinstance(decision, RefusedByRule):
                # Not a person's no: the other calls of the request go on.
                raise CancellationError("rejected", decision.why)
            if isinstance(decision, Ask):
                await self._ask(prepared.asked_because(decision), confirmer, either, request)
            return await self.run(prepared, either, progress)

    async def _prepare(
        self, tool: RegisteredTool, call: ToolCallPart, token: CancellationToken, agent: str = ""
    ) -> PreparedCall:
        levels = ("once",) if self._auto.must_ask(call.name) else self._approvals.levels
        return await preparation.prepare(
            tool, call, agent=agent, places=self._places, levels=levels, token=token
        )

    async def _ask(
        self, prepared: PreparedCall, confirmer: Confirmer, token: CancellationToken, request: InvocationToken
    ) -> None:
        decision = await until_cancelled(confirmer.confirm(prepared.question, token), token)
        # An approval after the end does not count.
        token.raise_if_cancelled()
        if isinstance(decision, Deny):
            request.refuse()
            raise CancellationError("rejected", decision.reason)
        self.remember(prepared, decision)


class _Relay:
    """Passes progress on, a line at a time, while the tool runs. What fails there is not the tool's fault."""

    def __init__(self, progress: ToolProgress) -> None:
        self._progress: ToolProgress | None = progress

    def __call__(self, line: str) -> None:
        if self._progress is None:
            return
        try:
            self._progress(" ".join(line.split())[:_MAX_PROGRESS])
        except Exception:
            _log.exception("showing the progress of a tool failed")

    def end(self) -> None:
        self._progress = None
