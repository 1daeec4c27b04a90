"""The permission tools for the terminal: what the extension has in VS Code, the terminal has in Python.

There is one for each class. Each asks about the pending action, whatever the call's input is. Its invocation after the
user's approval is the proof that the agent's request waits for.
"""

from __future__ import annotations

from dragoman.lm import CancellationToken, ToolCallPart
from dragoman.lm.parts import ToolResult
from dragoman.permissions.action import PERMISSION_TOOLS, ToolClass
from dragoman.permissions.grants import Grants, PendingPermission
from dragoman.permissions.keys import approval_key
from dragoman.permissions.question import WANTS, in_one_line, question_about
from dragoman.tools.declaration import Declaration
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation

__all__ = ["PermissionTool", "permission_tools", "request_in_words"]

_CLOSED = "This request is no longer open; nothing was allowed."


class PermissionTool:
    """Asks whether an agent may do what it wants to, and proves the answer."""

    def __init__(self, tool_class: ToolClass, grants: Grants) -> None:
        self._grants = grants
        self.declaration = Declaration(
            name=PERMISSION_TOOLS[tool_class],
            display_name=f"Agent: {WANTS[tool_class]}",
            model_description="Asks the user whether the agent may act. Called by Dragoman, never by a model.",
            tags=("dragoman-permission",),
            # Questions are asked one after the other anyway; the proof itself is instant.
            parallel=True,
        )

    async def prepare_invocation(
        self, invocation: Invocation, _token: CancellationToken
    ) -> PreparedInvocation:
        pending = self._pending(invocation)
        if pending is None:
            return PreparedInvocation(confirmation=Confirmation("No longer open", _CLOSED), always_ask=True)
        action = pending.action
        question = question_about(action, pending.ask)
        return PreparedInvocation(
            invocation_message=in_one_line(action, "may"),
            confirmation=Confirmation(
                question.title,
                question.message,
                question.whole if question.is_cut else "",
                in_one_line(action),
                action.title,
            ),
            approval_key=approval_key(action),
            covers=question.covers,
            always_ask=question.covers is None,
            urls=action.urls if action.risk == "fetch" else (),
            action=action,
        )

    async def invoke(self, invocation: Invocation, _token: CancellationToken) -> ToolResult:
        token = self._grants.issue(invocation.input.get("nonce"), self.declaration.name)
        return ToolResult.error(_CLOSED) if token is None else ToolResult.text(token)

    def _pending(self, invocation: Invocation) -> PendingPermission | None:
        pending = self._grants.pending(invocation.input.get("nonce"))
        is_ours = pending is not None and pending.action.permission_tool == self.declaration.name
        return pending if is_ours else None


def request_in_words(call: ToolCallPart) -> str:
    """A call of a permission tool that was not prepared, in words: "Agent wants to run a command"."""
    wants = next(
        (WANTS[each] for each, name in PERMISSION_TOOLS.items() if name == call.name), WANTS["other"]
    )
    return f"Agent wants to {wants}"


def permission_tools(grants: Grants) -> tuple[PermissionTool, ...]:
    return tuple(PermissionTool(tool_class, grants) for tool_class in PERMISSION_TOOLS)
