"""Chat completions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from model_server.asked import Ask, Call, Json, Reply, Tool, flat, pictures
from model_server.dialects.sse import Pass, event, words
from model_server.script import has_script

__all__ = ["error", "read", "stream", "whole"]

_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def read(body: Json) -> Ask:
    messages: list[Json] = body.get("messages") or []
    users = [at for at, each in enumerate(messages) if each.get("role") == "user"]
    scripted = [at for at in users if has_script(flat(messages[at].get("content")))]
    at = (scripted or users or [0])[-1]
    since = messages[at + 1 :]
    content = messages[at].get("content") if messages else ""
    functions = [each["function"] for each in body.get("tools") or () if each.get("type") == "function"]
    return Ask(
        dialect="chat",
        model=str(body.get("model")),
        is_streaming=bool(body.get("stream")),
        tools=tuple(Tool(each["name"], each.get("parameters") or {}) for each in functions),
        text=flat(content),
        turn=len(scripted),
        rounds=sum(bool(each.get("tool_calls")) for each in since),
        results={
            each["tool_call_id"]: flat(each.get("content")) for each in since if each.get("role") == "tool"
        },
        pictures=pictures(content),
        body=body,
    )


def whole(reply: Reply, ask: Ask) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return _head(ask, "chat.completion") | {"choices": [choice], "usage": _USAGE}


async def stream(reply: Reply, ask: Ask, pass_gate: Pass) -> AsyncIterator[bytes]:
    head = _head(ask, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    async for word in words(reply, pass_gate):
        yield chunk({"content": word})
    for index, call in enumerate(reply.calls):
        yield chunk({"tool_calls": [{"index": index} | _call(call)]})
    yield chunk({}, _finish(reply))
    yield event(head | {"choices": [], "usage": _USAGE})
    yield b"data: [DONE]\n\n"


def error(status: int) -> Json:
    return {"error": {"message": f"The script says {status}.", "type": "invalid_request_error", "code": None}}


def _head(ask: Ask, kind: str) -> Json:
    return {"id": f"chatcmpl-{ask.id}", "object": kind, "created": 0, "model": ask.model}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _call(call: Call) -> Json:
    function = {"name": call.tool.name, "arguments": json.dumps(call.input)}
    return {"id": call.id, "type": "function", "function": function}
