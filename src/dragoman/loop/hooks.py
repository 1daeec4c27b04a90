"""Where the host of a run has a say.

`Hooks` is a base to override; as it stands it watches nothing, changes nothing and approves nothing. What a hook
raises never costs a call its result: the rules stand beside each method. One that takes longer than a person may
(`LoopSettings.deadline_seconds`) is given up like one that raises; after a cancel none is waited for.
"""

from __future__ import annotations

from dragoman.lm import CancellationToken, ToolCallPart
from dragoman.lm.parts import ToolResult
from dragoman.loop.events import RunEvent
from dragoman.loop.state import RunState
from dragoman.tools.decision import Decision, Deny, ToolQuestion

__all__ = ["Hooks", "Suspend"]


class Suspend(Exception):
    """Raised from `Hooks.approve`: nobody can be asked now. The run ends as `suspended`, to be saved and continued."""


class Hooks:
    def on_event(self, event: RunEvent) -> None:
        """See what happens. An exception is logged, and the run goes on."""

    def on_state(self, state: RunState) -> None:
        """The run as it stands, after every step: what to write down in order to survive. An exception is logged."""

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

        What became of the call is recorded as it was; the words and the error flag are yours. An exception is logged,
        and the result recorded as it came. Not called for calls that a cancel interrupted.
        """
        del call, approved
        return result
