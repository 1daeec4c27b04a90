"""The hooks by which the host takes part in a run.

`Hooks` is a base class; its methods ignore events, change nothing and approve nothing. Every call gets its result, even
if a hook raises: see each method. A hook that exceeds `LoopSettings.deadline_seconds` counts as one that raises. After a
cancel, the loop waits for no hook.
"""

from __future__ import annotations

from dragoman.lm import CancellationToken, ToolCallPart
from dragoman.lm.parts import ToolResult
from dragoman.loop.events import RunEvent
from dragoman.loop.state import RunState
from dragoman.tools.decision import Decision, Deny, ToolQuestion

__all__ = ["Hooks", "Suspend"]


class Suspend(Exception):
    """Raised from `Hooks.approve` when no one can be asked now. The run ends as `suspended`, to be saved and continued."""


class Hooks:
    def on_event(self, event: RunEvent) -> None:
        """Called for each event. An exception is logged, and the run goes on."""

    def on_state(self, state: RunState) -> None:
        """Called after every step with the state to store. An exception is logged."""

    async def before_request(self) -> None:
        """Called before each request to the model: what it is about to get can be stored first. An exception is logged."""

    async def on_tool_use(self, call: ToolCallPart) -> ToolCallPart:
        """Rewrite a call before it is checked and asked about. The result is still filed under the model's own id.

        An exception makes the call an error; it is not made.
        """
        return call

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        """Ask a person. An exception is a denial of this call, and ends the run as one."""
        del question, token
        return Deny()

    async def on_tool_result(self, call: ToolCallPart, result: ToolResult, *, approved: bool) -> ToolResult:
        """Replace what is recorded for a call; also called for those that did not run, with `approved` false.

        The hook may replace the text and the error flag, but not the outcome. An exception is logged, and the
        original result recorded. Not called for calls that a cancel interrupted.
        """
        del call, approved
        return result
