"""Responses."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator

from model_server.asked import Ask, Call, Json, Reply, Tool, flat, pictures
from model_server.dialects.sse import Pass, event, words
from model_server.script import has_script

__all__ = ["error", "read", "stream", "whole"]

_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 110,
}


def read(body: Json) -> Ask:
    given = body.get("input") or []
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    users = [at for at, item in enumerate(items) if item.get("role") == "user"]
    scripted = [at for at in users if has_script(flat(items[at].get("content")))]
    at = (scripted or users or [0])[-1]
    since = items[at + 1 :]
    content = items[at].get("content") if items else ""
    # The items of one reply stand side by side with others: our own call ids say which reply they are of.
    rounds = [int(found[1]) for each in since if (found := re.match(r"call_(\d+)_", each.get("call_id", "")))]
    return Ask(
        dialect="responses",
        model=str(body.get("model")),
        is_streaming=bool(body.get("stream")),
        tools=tuple(_tools(body.get("tools") or [])),
        text=flat(content),
        turn=len(scripted),
        rounds=max(rounds) + 1 if rounds else 0,
        results={each["call_id"]: flat(each["output"]) for each in since if "output" in each},
        pictures=pictures(content),
        body=body,
    )


def whole(reply: Reply, ask: Ask) -> Json:
    return _response(ask, "completed", [*_message(reply, ask), *map(_call, reply.calls)])


async def stream(reply: Reply, ask: Ask, pass_gate: Pass) -> AsyncIterator[bytes]:
    sequence = 0

    def named(kind: str, **fields: object) -> bytes:
        nonlocal sequence
        sequence += 1
        return event({"type": kind, "sequence_number": sequence - 1} | fields, kind)

    yield named("response.created", response=_response(ask, "in_progress", []))
    output = list(_message(reply, ask))
    for message in output:
        place = {"item_id": message["id"], "output_index": 0, "content_index": 0}
        yield named(
            "response.output_item.added",
            output_index=0,
            item=message | {"status": "in_progress", "content": []},
        )
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield named("response.content_part.added", **place, part=empty)
        text = ""
        async for word in words(reply, pass_gate):
            text += word
            yield named("response.output_text.delta", **place, delta=word)
        message["content"][0]["text"] = text
        yield named("response.output_text.done", **place, text=text)
        yield named("response.content_part.done", **place, part=message["content"][0])
        yield named("response.output_item.done", output_index=0, item=message)
    for item in map(_call, reply.calls):
        index = len(output)
        output.append(item)
        field, kind = (
            ("input", "custom_tool_call_input")
            if item["type"] == "custom_tool_call"
            else ("arguments", "function_call_arguments")
        )
        begun = item | {"status": "in_progress", field: ""}
        yield named("response.output_item.added", output_index=index, item=begun)
        place = {"item_id": item["id"], "output_index": index}
        yield named(f"response.{kind}.delta", **place, delta=item[field])
        yield named(f"response.{kind}.done", **place, **{field: item[field]})
        yield named("response.output_item.done", output_index=index, item=item)
    yield named("response.completed", response=_response(ask, "completed", output))


def error(status: int) -> Json:
    return {"error": {"message": f"The script says {status}.", "type": "invalid_request_error", "code": None}}


def _tools(offered: list[Json]) -> Iterator[Tool]:
    for each in offered:
        match each:
            case {"type": "function", "name": name}:
                yield Tool(name, each.get("parameters") or {})
            case {"type": "custom", "name": name}:
                yield Tool(name, is_custom=True)
            case {"type": "namespace", "name": name, "tools": inner}:
                for tool in inner:
                    yield Tool(tool["name"], tool.get("parameters") or {}, namespace=name)


def _message(reply: Reply, ask: Ask) -> Iterator[Json]:
    if reply.said:
        yield {
            "type": "message",
            "id": f"msg_{ask.id}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }


def _call(call: Call) -> Json:
    tool = call.tool
    common = {"id": f"item_{call.id}", "call_id": call.id, "name": tool.name, "status": "completed"}
    if tool.is_custom:
        return common | {"type": "custom_tool_call", "input": call.input["input"]}
    item = common | {"type": "function_call", "arguments": json.dumps(call.input)}
    return item if tool.namespace is None else item | {"namespace": tool.namespace}


def _response(ask: Ask, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{ask.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": ask.model,
        "output": output,
        "usage": _USAGE if status == "completed" else None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "temperature": 1,
        "top_p": 1,
    }
