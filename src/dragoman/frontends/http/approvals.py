"""A client's decisions about an agent's permission requests.

A client that offers a permission tool gets a function call and answers with its output. A client that takes approvals as
items gets an `mcp_approval_request` and answers with an `mcp_approval_response`. Chat completions have no items: there the
request is a tool call with the id of that item, and a tool message answers it. In each form the decision must match the
pending request. The id of an item is an answer only where the client got the request as one: a function call needs its
nonce. Only then does it become the proof that the agent's request waits for. A decision that is repeated, late,
or about another request grants nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass

import msgspec

from dragoman.lm import JsonObject, Message, Part, TextPart, ToolCallPart, ToolDefinition, ToolResultPart
from dragoman.lm.foreign_items import item_part
from dragoman.lm.json import decode, encode_text
from dragoman.lm.rules import NAMESPACE
from dragoman.permissions.action import PERMISSION_TOOLS, is_permission_tool
from dragoman.permissions.grants import Grants
from dragoman.permissions.layout import on_one_line
from dragoman.permissions.question import question_about

__all__ = [
    "APPROVAL_TOOLS",
    "ClientDecision",
    "approval_id",
    "approval_item",
    "approved_call",
    "as_items",
    "decided_calls",
    "decision_of_message",
    "is_approval",
    "is_approval_id",
    "is_approval_item",
    "spelled_out",
    "with_proofs",
]

_ITEM_ID = "mcpr_"
_SERVER = "dragoman"
_REASON = "Tool use rejected with user message: "
_REFUSED = "The user refused it."
# As a client writes it in a function's output. A transcript for another agent reads it. It grants nothing.
_ALLOWED = '{"decision": "allow"}'

# The tools that a model is offered for a client that takes approvals as items.
APPROVAL_TOOLS = tuple(ToolDefinition(name) for name in PERMISSION_TOOLS.values())


@dataclass(frozen=True, slots=True)
class ClientDecision:
    approve: bool
    reason: str | None = None
    # Selects the pending request. An approval item needs none: its own id names the request.
    nonce: str | None = None


def is_approval(call: ToolCallPart) -> bool:
    return is_permission_tool(call.name)


def approval_item(call: ToolCallPart) -> JsonObject:
    return {
        "type": "mcp_approval_request",
        "id": approval_id(call),
        "server_label": _SERVER,
        "name": call.name,
        "arguments": encode_text(call.input),
    }


def approval_id(call: ToolCallPart) -> str:
    return f"{_ITEM_ID}{call.call_id}"


def is_approval_id(id_: str) -> bool:
    """Whether this is an id of ours. Other servers name their requests in the same way."""
    return id_.startswith(f"{_ITEM_ID}{NAMESPACE}")


def is_approval_item(item: JsonObject) -> bool:
    """Whether an endpoint's item is the permission request of another server of ours."""
    return item.get("type") == "mcp_approval_request" and is_approval_id(str(item.get("id")))


def decision_of_message(text: str) -> ClientDecision:
    """Read the answer of a tool message: `{"approve": true}` allows. Anything else is a refusal."""
    match _json(text):
        case {"approve": True}:
            return ClientDecision(approve=True)
        case {"reason": str(reason)}:
            return ClientDecision(approve=False, reason=reason)
        case _:
            return ClientDecision(approve=False)


def spelled_out(part: Part, grants: Grants, *, as_item: bool = False) -> Part:
    """Add the question about the pending action to the input of a permission call. Return any other part unchanged.

    `as_item`: the client gets the call as an item, and may answer by its id.
    """
    if not isinstance(part, ToolCallPart) or not is_approval(part):
        return part
    pending = grants.pending(part.input.get("nonce"))
    if pending is None:
        return part
    if as_item:
        grants.show_as_item(part.input.get("nonce"))
    action = pending.action
    question = question_about(action, pending.ask)
    shown: JsonObject = {
        "title": on_one_line(action.title),
        "kind": on_one_line(action.kind),
        "question": question.title,
        "agent": action.agent,
        "folder": on_one_line(action.folder),
        "details": question.message,
        **part.input,
    }
    if question.is_cut:
        shown["whole"] = question.whole
    return msgspec.structs.replace(part, input=shown)


def approved_call(item_id: str) -> str:
    """Return the id of the call that an approval item stands for."""
    return item_id.removeprefix(_ITEM_ID)


def as_items(
    messages: Sequence[Message], asked: AbstractSet[str], decisions: Mapping[str, ClientDecision]
) -> tuple[Message, ...]:
    """Replace permission requests and decisions of a completion by items, for the server that asked.

    `asked` has the ids of the calls that were such requests.
    """

    def as_item(part: Part) -> Part:
        match part:
            case ToolCallPart() if part.call_id in asked:
                return item_part(approval_item(part))
            case ToolResultPart() if (decision := decisions.get(part.call_id)) is not None:
                return item_part(_response_item(part.call_id, decision))
            case _:
                return part

    return tuple(
        msgspec.structs.replace(message, content=tuple(map(as_item, message.content))) for message in messages
    )


def _response_item(call_id: str, decision: ClientDecision) -> JsonObject:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": f"{_ITEM_ID}{call_id}",
        "approve": decision.approve,
        "reason": decision.reason,
    }


def decided_calls(messages: Sequence[Message], decisions: Mapping[str, ClientDecision]) -> list[str]:
    """The ids of the calls that the messages decide about since the last answer."""
    found: list[str] = []
    for message in reversed(messages):
        if message.role == "assistant":
            break
        found += [
            part.call_id
            for part in message.results
            if part.call_id in decisions or _decision(part.text) is not None
        ]
    return found


def with_proofs(
    messages: Sequence[Message], decisions: Mapping[str, ClientDecision], grants: Grants
) -> tuple[Message, ...]:
    """Replace every decision in the messages by what the bridge reads: a grant, or a refusal with its reason."""
    return tuple(
        msgspec.structs.replace(
            message, content=tuple(_proved(part, decisions, grants) for part in message.content)
        )
        if message.results
        else message
        for message in messages
    )


def _proved(part: Part, decisions: Mapping[str, ClientDecision], grants: Grants) -> Part:
    if not isinstance(part, ToolResultPart):
        return part
    by_item = decisions.get(part.call_id)
    pending = grants.of_call(part.call_id)
    if pending is None:
        if by_item is None:
            return part
        return _with_text(part, _ALLOWED if by_item.approve else _refusal(by_item))
    decision = by_item or _decision(part.text)
    if decision is None:
        return part
    if not decision.approve:
        return _with_text(part, _refusal(decision))
    nonce, permission = pending
    is_proved = grants.is_item(part.call_id) if by_item is not None else decision.nonce == nonce
    if not is_proved:
        return _with_text(part, _REFUSED)
    token = grants.issue(nonce, permission.action.permission_tool)
    return _with_text(part, token or _REFUSED)


def _decision(text: str) -> ClientDecision | None:
    match _json(text):
        case {"decision": "allow" | "deny" as decided, **more}:
            reason, nonce = more.get("reason"), more.get("nonce")
            return ClientDecision(
                decided == "allow",
                reason if isinstance(reason, str) else None,
                nonce if isinstance(nonce, str) else None,
            )
        case _:
            return None


def _json(text: str) -> object:
    try:
        return decode(text)
    except msgspec.DecodeError:
        return None


def _refusal(decision: ClientDecision) -> str:
    return f"{_REASON}{decision.reason}" if decision.reason else _REFUSED


def _with_text(part: ToolResultPart, text: str) -> ToolResultPart:
    return ToolResultPart(part.call_id, (TextPart(text),))
