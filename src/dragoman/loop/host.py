"""Calls the host's hooks under a time limit, and checks what they return.

A hook may raise, answer nonsense, hang, or be cancelled for reasons of its own. The caller gets an answer,
a failure that it can report, or `CancellationError` because the run itself was cancelled; nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import msgspec

from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.lm import CancellationToken, ToolCallPart
from dragoman.lm.parts import ToolResult
from dragoman.loop.hooks import Hooks, Suspend
from dragoman.loop.settings import LoopSettings
from dragoman.tools.decision import Approve, CannotAsk, Decision, Deny, ToolQuestion
from dragoman.tools.result import bounded, failure_text, result_of

__all__ = ["DecisionTimedOut", "Host", "HostAnswer", "NotAsked"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The hook failed, or returned something that is no decision. The call is not approved."""

    why: str


@dataclass(frozen=True, slots=True)
class DecisionTimedOut:
    """No decision came in time."""


HostAnswer: TypeAlias = Decision | NotAsked | DecisionTimedOut


class Host:
    def __init__(self, hooks: Hooks, settings: LoopSettings, clock: Clock, token: CancellationToken) -> None:
        self._hooks = hooks
        self._seconds = settings.deadline_seconds
        self._clock = clock
        self._token = token

    async def wait(self, work: Awaitable[_T]) -> _T:
        """The result of a hook that may wait for a person. The hook is abandoned when the run is cancelled."""
        return await within(work, self._seconds, self._clock, self._token)

    async def prepare_request(self) -> None:
        try:
            await self.wait(self._hooks.before_request())
        except Exception:
            self._token.raise_if_cancelled()
            _log.exception("a hook failed before a request to the model")

    async def rewrite(self, call: ToolCallPart) -> ToolCallPart:
        """What to do instead of `call`, under the same id. Raises what the hook raises."""
        rewritten: object = await self.wait(self._hooks.on_tool_use(call))
        if not isinstance(rewritten, ToolCallPart):
            raise TypeError(f"on_tool_use returns a call, not {type(rewritten).__name__}")
        # Read back from what it would be on the wire: what cannot be written down cannot be recorded either.
        checked: ToolCallPart = msgspec.convert(msgspec.to_builtins(rewritten), ToolCallPart)
        return msgspec.structs.replace(checked, call_id=call.call_id)

    async def decide(self, question: ToolQuestion) -> HostAnswer:
        """The decision about `question`. An approval only if the hook returned a valid one."""
        try:
            decision: object = await self.wait(self._hooks.approve(question, self._token))
        except Suspend:
            raise
        except DeadlinePassed:
            return DecisionTimedOut()
        except CannotAsk as error:
            self._token.raise_if_cancelled()
            return NotAsked(str(error))
        except Exception as error:
            self._token.raise_if_cancelled()
            # The result reports the failure; the traceback is only for debugging.
            _log.info("approval of %s could not be asked for", question.tool, exc_info=True)
            return NotAsked(failure_text(error))
        # An approval after the end of the run does not count.
        self._token.raise_if_cancelled()
        match decision:
            case Deny(reason=None | str()):
                return decision
            case Approve(level=level) if level in question.levels:
                return decision
            case _:
                return NotAsked(f"{decision!r} is no decision that was offered")

    async def review(self, call: ToolCallPart, result: ToolResult, *, approved: bool) -> ToolResult:
        """The result to record for a call: the host may replace it."""
        try:
            replaced = await self.wait(self._hooks.on_tool_result(call, result, approved=approved))
            # As with a tool: text is enough, and anything that is no result raises.
            return bounded(result_of(replaced))
        except Exception:
            self._token.raise_if_cancelled()
            _log.exception("a result hook failed for %s; its result is recorded as it was", call.name)
            return result
