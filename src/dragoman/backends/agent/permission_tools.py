"""The permission tools for a consumer of our own: what the extension has in VS Code, the terminal has in Python.

There is one for each class of risk. Each asks about what the agent really wants, as we hold it, whatever stands in the
input; invoking it after a person has approved is the proof that the agent's request waits for.
"""

from __future__ import annotations

from dragoman.backends.agent.grants import Grants, PendingPermission
from dragoman.backends.agent.permission import PERMISSION_TOOLS, Action, RiskClass, describe
from dragoman.lm import CancellationToken, ToolCallPart
from dragoman.lm.json import canonical
from dragoman.tools.declaration import Declaration
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation, ToolResult

__all__ = ["TITLES", "PermissionTool", "permission_tools", "wish"]

TITLES: dict[RiskClass, str] = {
    "read": "Let the agent read?",
    "edit": "Let the agent change files?",
    "delete": "Let the agent delete or move files?",
    "execute": "Let the agent run a command?",
    "fetch": "Let the agent fetch from the network?",
    "other": "Let the agent do this?",
}
# What an agent wants, in front of what it calls it.
_WANTS: dict[RiskClass, str] = {
    "read": "read",
    "edit": "change files",
    "delete": "delete or move files",
    "execute": "run",
    "fetch": "fetch from the network",
    "other": "do this",
}
# What an approval that lasts allows, where what is done follows from the class of risk, and only the places make a
# difference. Of a command that is not known, or something else altogether, nothing follows from the places.
_ANY: dict[RiskClass, str] = {
    "read": "reading",
    "edit": "any change to",
    "delete": "deleting or moving",
    "fetch": "fetching",
}
# As many places as a line holds; the rest is counted.
_PLACES_NAMED = 2
_CLOSED = "This request is no longer open; nothing was allowed."


class PermissionTool:
    """Asks whether an agent may do what it wants to, and proves the answer."""

    def __init__(self, risk: RiskClass, grants: Grants) -> None:
        self._risk = risk
        self._grants = grants
        self.declaration = Declaration(
            name=PERMISSION_TOOLS[risk],
            display_name=f"Agent: {_WANTS[risk]}",
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
            invocation_message=f"Agent may {_WANTS[self._risk]}: {_named(pending.action)}",
            confirmation=_question(pending.action),
            approval_key=approval_key(pending.action),
            covers=_covers(pending.action),
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
    places = sorted({*action.paths, *action.urls})
    if places and action.risk in _ANY:
        return canonical(places)
    return canonical({"title": action.title, "input": action.raw, "places": places})


def wish(call: ToolCallPart) -> str:
    """A call of a permission tool in words, where nobody is asked about it: "Agent wants to run: make"."""
    wants = next((_WANTS[risk] for risk, name in PERMISSION_TOOLS.items() if name == call.name), "do this")
    return f"Agent wants to {wants}: {call.input.get('title', '')}"


def _question(action: Action) -> Confirmation:
    details = describe(action)
    if action.command is not None:
        # The agent's title is not what runs: the command stands below, to the letter.
        return Confirmation("Agent wants to run a command", _without_title(details, action.command, action))
    return Confirmation(
        f"Agent wants to {_WANTS[action.risk]}: {action.title}", _without_title(details, action.title, action)
    )


def _without_title(details: str, shown: str, action: Action) -> str:
    """The details without their first line, where that only says again what is shown anyway."""
    return details.partition("\n\n")[2] if action.title == shown and "\n" not in shown else details


def _named(action: Action) -> str:
    return action.title if action.command is None else action.command


def _covers(action: Action) -> str:
    """What `approval_key` stands for, in a few plain words."""
    if action.command is not None:
        return "this very command"
    places = sorted({*action.paths, *action.urls})
    if not places or action.risk not in _ANY:
        return "exactly this"
    named = ", ".join(places[:_PLACES_NAMED])
    more = len(places) - _PLACES_NAMED
    return f"{_ANY[action.risk]} {named}{f' and {more} more' if more > 0 else ''}"


def permission_tools(grants: Grants) -> tuple[PermissionTool, ...]:
    return tuple(PermissionTool(risk, grants) for risk in PERMISSION_TOOLS)
