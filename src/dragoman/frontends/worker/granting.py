"""Permission requests between a worker, which has them, and gateways, where a person sees them.

The worker's grants count, nobody else's. A gateway only says which call a person has allowed there; the worker issues a
grant for it and puts it where the conversation looks for it: into the result of that call.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.fleet.messages import PendingMessage, RequestMessage
from dragoman.lm import Message, Part, Request, TextPart, ToolCallPart, ToolResultPart
from dragoman.permissions.grants import Grants

__all__ = ["granted", "pending_of"]


def pending_of(grants: Grants, call: ToolCallPart) -> PendingMessage | None:
    """The permission request that waits under a call, as a gateway needs it. None: the call is an ordinary one."""
    found = grants.of_call(call.call_id)
    if found is None:
        return None
    nonce, pending = found
    return PendingMessage(
        pending.call_id,
        nonce,
        pending.action,
        pending.ask,
        pending.conversation,
        grants.is_item(pending.call_id),
    )


def granted(grants: Grants, message: RequestMessage) -> Request:
    """The request, with a grant in the result of each call that a person has allowed at the gateway."""
    tokens: dict[str, str] = {}
    for call in message.approved:
        found = grants.of_call(call.call_id)
        if found is not None and found[0] == call.nonce:
            token = grants.issue(call.nonce, found[1].action.permission_tool)
            if token is not None:
                tokens[call.call_id] = token
    if not tokens:
        return message.request

    def proved(part: Part) -> Part:
        if isinstance(part, ToolResultPart) and part.call_id in tokens:
            return replace(part, content=(TextPart(tokens[part.call_id]),), is_error=False)
        return part

    messages = tuple(_with(each, tuple(map(proved, each.content))) for each in message.request.messages)
    return replace(message.request, messages=messages)


def _with(message: Message, content: tuple[Part, ...]) -> Message:
    return message if content == message.content else replace(message, content=content)
