"""An agent's permission request in terms of `dragoman.permissions`, and the way back. Values in, values out."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.acp.messages import PermissionRequest, ToolActivity
from dragoman.lm import JsonObject, ToolCallPart
from dragoman.permissions.action import Action
from dragoman.permissions.describe import describe, tool_name_in
from dragoman.permissions.sensitive import Places

__all__ = ["OptionChoice", "action_of", "choose", "permission_call"]


def action_of(
    activity: ToolActivity,
    agent: str,
    agent_name: str,
    places: Places,
    request: PermissionRequest | None = None,
) -> Action:
    """The action of a tool call. `activity` has all its updates merged, `request` is the permission request."""
    meta: JsonObject = {}
    if request is not None:
        both = {"toolCall": request.tool_call.meta, "request": request.meta}
        meta = {name: value for name, value in both.items() if value}
    return describe(
        agent=agent,
        agent_name=agent_name,
        places=places,
        title=activity.title,
        kind=activity.kind,
        tool=activity.name or tool_name_in(activity.meta),
        content=[_block(block, activity.tool_call_id) for block in activity.content or ()],
        locations=[(location.path, location.line) for location in activity.locations or ()],
        input=activity.raw_input,
        extra=request.extra if request is not None else None,
        meta=meta,
    )


def _block(block: object, call_id: str) -> object:
    """A content block. A terminal id that equals the call id is replaced: it is new each time, and has no meaning."""
    if block == {"type": "terminal", "terminalId": call_id}:
        return {"type": "terminal", "terminalId": "of this call"}
    return block


def permission_call(action: Action, call_id: str, nonce: str) -> ToolCallPart:
    """The call that the consumer gets. Its input only selects the request: the dialog is made from the action."""
    return ToolCallPart(call_id, action.permission_tool, {"nonce": nonce})


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """The response to a permission request: an option of the agent, or `cancelled`; and a notice for the user."""

    option: str | None
    notice: str | None = None


def choose(request: PermissionRequest, *, granted: bool) -> OptionChoice:
    """Choose the narrowest option for a decision. Never a wider one."""
    if granted:
        once = request.option("allow_once")
        if once is not None:
            return OptionChoice(once)
        refusal = choose(request, granted=False)
        if any(option.kind == "allow_once" for option in request.options):
            problem = "The agent gave one id to options that mean different things"
        else:
            problem = "The agent did not offer to be allowed once, only to be allowed always"
        return OptionChoice(refusal.option, f"{problem}. So it was refused.")
    return OptionChoice(request.option("reject_once"))
