"""The host as the loop can rely on it: its hooks asked under a limit, their answers checked.

A hook may raise, answer nonsense, hang, or be cancelled for reasons of its own. What comes out here is an answer, a
failure that is told, or `CancellationError` because the run itself was cancelled; nothing else.
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
from dragoman.tools.decision import Approve, Decision, Deny, NobodyToAsk, ToolQuestion
from dragoman.tools.result import bounded, failure_text, result_of

__all__ = ["Heard", "Host", "NotAsked", "Silence"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Approval could not be asked for, or what came back is no decision: not an approval, in any case."""

    why: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody decided in time."""


Heard: TypeAlias = Decision | NotAsked | Silence


class Host:
    def __init__(self, hooks: Hooks, settings: LoopSettings, clock: Clock, token: CancellationToken) -> None:
        self._hooks = hooks
        self._seconds = settings.deadline_seconds
        self._clock = clock
        self._token = token

    async def wait(self, work: Awaitable[_T]) -> _T:
        """The result of `work` that a person may be part of; it is left behind when the run is cancelled."""
        return await within(work, self._seconds, self._clock, self._token)

    async def rewrite(self, call: ToolCallPart) -> ToolCallPart:
        """What to do instead of `call`, under the same id. Raises what the hook raises."""
        rewritten: object = await self.wait(self._hooks.on_tool_use(call))
        if not isinstance(rewritten, ToolCallPart):
            raise TypeError(f"on_tool_use returns a call, not {type(rewritten).__name__}")
        # Read back from what it would be on the wire: what cannot be written down cannot be recorded either.
        checked: ToolCallPart = msgspec.convert(msgspec.to_builtins(rewritten), ToolCallPart)
        return msgspec.structs.replace(checked, call_id=call.call_id)

    async def decide(self, question: ToolQuestion) -> Heard:
        """What a person says; never an approval unless it is one."""
        try:
            decision: object = await self.wait(self._hooks.approve(question, self._token))
        except Suspend:
            raise
        except DeadlinePassed:
            return Silence()
        except NobodyToAsk as error:
            self._token.raise_if_cancelled()
            return NotAsked(str(error))
        except Exception as error:
            self._token.raise_if_cancelled()
            # Told in the result, and by whoever asks; where it came from is for whoever debugs.
            _log.info("approval of %s could not be asked for", question.tool, exc_info=True)
            return NotAsked(failure_text(error))
        # Whoever approves after the end approves nothing.
        self._token.raise_if_cancelled()
        match decision:
            case Deny(reason=None | str()):
                return decision
            case Approve(level=level) if level in question.levels:
                return decision
            case _:
                return NotAsked(f"{decision!r} is no decision that was offered")

    async def review(self, call: ToolCallPart, result: ToolResult, *, approved: bool) -> ToolResult:
        """What is recorded for a call: the host may replace it."""
        try:
            replaced = await self.wait(self._hooks.on_tool_result(call, result, approved=approved))
            # As with a tool: text is enough, and what is no result at all raises.
            return bounded(result_of(replaced))
        except Exception:
            self._token.raise_if_cancelled()
            _log.exception("a result hook failed for %s; its result is recorded as it was", call.name)
            return result
