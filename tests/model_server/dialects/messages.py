"""Anthropic messages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from model_server.asked import Ask, Json, Reply, Tool, flat, pictures
from model_server.dialects.sse import Pass, event, words
from model_server.script import has_script

__all__ = ["error", "read", "stream", "whole"]

_USAGE = {
    "input_tokens": 100,
    "output_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def read(body: Json) -> Ask:
    messages: list[Json] = body.get("messages") or []
    users = [at for at, each in enumerate(messages) if each.get("role") == "user"]
    scripted = [at for at in users if has_script(_words(messages[at]))]
    at = (scripted or users or [0])[-1]
    since = messages[at + 1 :]
    return Ask(
        dialect="messages",
        model=str(body.get("model")),
        is_streaming=bool(body.get("stream")),
        tools=tuple(Tool(each["name"], each.get("input_schema") or {}) for each in body.get("tools") or ()),
        text=_words(messages[at]) if messages else "",
        turn=len(scripted),
        rounds=sum(bool(_blocks(each, "tool_use")) for each in since),
        results={
            result["tool_use_id"]: flat(result) for each in since for result in _blocks(each, "tool_result")
        },
        pictures=pictures(messages[at].get("content")) if messages else 0,
        body=body,
    )


def whole(reply: Reply, ask: Ask) -> Json:
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.said else []
    content += [
        {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.input}
        for call in reply.calls
    ]
    return _head(ask) | {"content": content, "stop_reason": _stop(reply), "usage": _USAGE}


async def stream(reply: Reply, ask: Ask, pass_gate: Pass) -> AsyncIterator[bytes]:
    def named(kind: str, **fields: object) -> bytes:
        return event({"type": kind} | fields, kind)

    yield named("message_start", message=_head(ask) | {"content": [], "stop_reason": None, "usage": _USAGE})
    index = 0
    if reply.said:
        yield named("content_block_start", index=index, content_block={"type": "text", "text": ""})
        async for word in words(reply, pass_gate):
            yield named("content_block_delta", index=index, delta={"type": "text_delta", "text": word})
        yield named("content_block_stop", index=index)
        index += 1
    for call in reply.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": {}}
        yield named("content_block_start", index=index, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.input)}
        yield named("content_block_delta", index=index, delta=delta)
        yield named("content_block_stop", index=index)
        index += 1
    yield named(
        "message_delta",
        delta={"stop_reason": _stop(reply), "stop_sequence": None},
        usage={"output_tokens": _USAGE["output_tokens"]},
    )
    yield named("message_stop")


def error(status: int) -> Json:
    return {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": f"The script says {status}."},
    }


def _head(ask: Ask) -> Json:
    return {
        "id": f"msg_{ask.id}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "stop_sequence": None,
    }


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _blocks(message: Json, kind: str) -> list[Json]:
    content = message.get("content")
    return [part for part in content if part.get("type") == kind] if isinstance(content, list) else []


def _words(message: Json) -> str:
    """Without the results of tools, which are the user's messages here too."""
    content = message.get("content")
    return flat(_blocks(message, "text") if isinstance(content, list) else content)
