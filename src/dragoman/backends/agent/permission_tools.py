"""The permission tools for a consumer of our own: what the extension has in VS Code, the terminal has in Python.

There is one for each class of risk. Each asks about what the agent really wants, as we hold it, whatever stands in the
input; invoking it after a person has approved is the proof that the agent's request waits for.
"""

from __future__ import annotations

from dragoman.backends.agent.grants import Grants, PendingPermission
from dragoman.backends.agent.permission import PERMISSION_TOOLS, Action, RiskClass, describe
from dragoman.lm import CancellationToken
from dragoman.lm.json import canonical
from dragoman.tools.declaration import Declaration
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation, ToolResult

__all__ = ["TITLES", "PermissionTool", "permission_tools"]

TITLES: dict[RiskClass, str] = {
    "read": "Let the agent read?",
    "edit": "Let the agent change files?",
    "delete": "Let the agent delete or move files?",
    "execute": "Let the agent run a command?",
    "fetch": "Let the agent fetch from the network?",
    "other": "Let the agent do this?",
}
_CLOSED = "This request is no longer open; nothing was allowed."


class PermissionTool:
    """Asks whether an agent may do what it wants to, and proves the answer."""

    def __init__(self, risk: RiskClass, grants: Grants) -> None:
        self._risk = risk
        self._grants = grants
        self.declaration = Declaration(
            name=PERMISSION_TOOLS[risk],
            display_name=f"Agent: {risk}",
            model_description="Asks the user whether the agent may act. Called by Dragoman, never by a model.",
            tags=("dragoman-permission",),
            # Several questions of one answer are put one after the other anyway; the proof itself is instant.
            parallel=True,
        )

    async def prepare_invocation(
        self, invocation: Invocation, _token: CancellationToken
    ) -> PreparedInvocation:
        pending = self._pending(invocation)
        if pending is None:
            return PreparedInvocation(confirmation=Confirmation("No longer open", _CLOSED))
        return PreparedInvocation(
            invocation_message=f"Allowing: {pending.action.title}",
            confirmation=Confirmation(TITLES[self._risk], describe(pending.action)),
            approval_key=approval_key(pending.action),
            urls=pending.action.urls if self._risk == "fetch" else (),
        )

    async def invoke(self, invocation: Invocation, _token: CancellationToken) -> ToolResult:
        token = self._grants.issue(invocation.input.get("nonce"), self.declaration.name)
        return ToolResult.error(_CLOSED) if token is None else ToolResult.text(token)

    def _pending(self, invocation: Invocation) -> PendingPermission | None:
        pending = self._grants.pending(invocation.input.get("nonce"))
        return pending if pending is not None and pending.action.risk == self._risk else None


def approval_key(action: Action) -> str:
    """What an approval that lasts is for: this command, these paths, these addresses; else exactly this."""
    if action.command is not None:
        return action.command
    places = (*action.paths, *action.urls)
    return canonical(sorted(places)) if places else canonical({"title": action.title, "input": action.raw})


def permission_tools(grants: Grants) -> tuple[PermissionTool, ...]:
    return tuple(PermissionTool(risk, grants) for risk in PERMISSION_TOOLS)
