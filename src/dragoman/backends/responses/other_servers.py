"""What only a server of ours sends: a chain of servers must lose nothing. Values in, values out.

Such a server has items for an agent's activities, names what it ignored in the metadata of a response, and marks its
messages with ids that prove which conversation they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from dragoman.lm import ActivityPart, Consumer, DataPart, PlanPart, Request
from dragoman.lm.parts import CONVERSATION, STATEFUL_MARKER
from dragoman.lm.request import (
    IDEMPOTENCY_OPTION,
    ONE_SHOT_OPTION,
    RETRY_OPTION,
    SIDE_REQUEST_OPTION,
    WORKSPACE_OPTION,
)

__all__ = [
    "WORKSPACE_HEADER",
    "activity_of",
    "conversation_of",
    "headers_for",
    "ignored_by",
    "marker_of",
    "message_id",
]

WORKSPACE_HEADER = "x-dragoman-workspace"

_MARKED = re.compile(r"msg_\d+_([A-Za-z0-9_-]+)")
_CONVERSATION = re.compile(r"([\w-]+); evidence=([\w-]+); kind=([\w-]+)", re.ASCII)


def headers_for(request: Request, secret: bytes) -> dict[str, str]:
    """The headers that ask a server of ours for what the consumer takes. Other servers ignore them.

    The next server sees one client, and must separate ours as we do. So each has a pseudonym, a hash with our secret.
    """
    consumer, options = request.consumer, request.options.model_options
    features = consumer.features
    headers = {
        "x-dragoman-client": _pseudonym(consumer, secret),
        # Every file comes with its bytes: an address of that server need not be one for the consumer.
        "x-dragoman-files": "data",
        "x-dragoman-markdown": "true" if features.markdown else "false",
    }
    if not consumer.sees_paths:
        headers["x-dragoman-paths"] = "hidden"
    if consumer.hold_seconds is not None:
        headers["x-dragoman-hold"] = f"{consumer.hold_seconds:g}"
    if features.approvals:
        headers["x-dragoman-approvals"] = "items"
    if features.activity:
        headers["x-dragoman-activity"] = "items"
    if options.get(SIDE_REQUEST_OPTION) is True:
        headers["x-dragoman-aside"] = "true"
    if options.get(ONE_SHOT_OPTION) is True:
        headers["x-dragoman-one-shot"] = "true"
    if options.get(RETRY_OPTION) is True:
        headers["x-stainless-retry-count"] = "1"
    if isinstance(key := options.get(IDEMPOTENCY_OPTION), str):
        headers["idempotency-key"] = _pseudonym(consumer, secret, key)
    if isinstance(name := options.get("_conversationId"), str) and name.isascii() and _is_header(name):
        headers["x-conversation-id"] = name
    if isinstance(folder := options.get(WORKSPACE_OPTION), str) and _is_header(folder):
        headers[WORKSPACE_HEADER] = folder
    return headers


def _pseudonym(consumer: Consumer, secret: bytes, *names: str) -> str:
    """The name of a consumer for the next server, or of something that the consumer has a name for."""
    named = "\0".join((consumer.connection, consumer.client, *names)).encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=16, key=secret).hexdigest()


def conversation_of(headers: Mapping[str, str], consumer: Consumer) -> DataPart | None:
    """The conversation that a server of ours found, for a consumer that takes such reports."""
    found = _CONVERSATION.fullmatch(headers.get("x-dragoman-conversation", ""))
    if found is None or not consumer.features.reports:
        return None
    conversation, evidence, kind = found.groups()
    where = {"conversation": None if conversation == "-" else conversation}
    if (folder := headers.get(WORKSPACE_HEADER)) is not None:
        where["workspace"] = folder
    return DataPart.json({**where, "evidence": evidence, "kind": kind}, CONVERSATION)


def activity_of(item: object) -> ActivityPart | PlanPart | None:
    """The activity or the plan that an item is."""
    if not isinstance(item, dict):
        return None
    try:
        match item:
            case {"type": "dragoman:activity", "activity_status": status, **fields}:
                ours = {"type": "activity", "status": status, "exitStatus": fields.get("exit_status")}
                return msgspec.convert({**fields, **ours}, ActivityPart)
            case {"type": "dragoman:plan", **fields}:
                return msgspec.convert({**fields, "type": "plan"}, PlanPart)
            case _:
                return None
    except msgspec.ValidationError:
        return None


def ignored_by(response: object) -> list[str]:
    """The names of what a server of ours ignored."""
    match response:
        case {"metadata": {"dragoman.ignored": str(names)}}:
            return [name for name in names.split(", ") if name]
        case _:
            return []


def marker_of(id_: str, model_id: str) -> DataPart | None:
    """The marker in the id of a message."""
    found = _MARKED.fullmatch(id_)
    return None if found is None else DataPart(STATEFUL_MARKER, f"{model_id}\\{found[1]}".encode())


def message_id(part: DataPart) -> str:
    """The id of a message with this marker."""
    token = part.data.rpartition(b"\\")[2].decode("ascii", "replace")
    return f"msg_0_{token}"


def _is_header(value: str) -> bool:
    return value.isprintable() and value == value.strip()
