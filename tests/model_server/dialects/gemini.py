"""Gemini's generateContent and streamGenerateContent."""

from __future__ import annotations

from collections.abc import AsyncIterator

from model_server.asked import Ask, Json, Reply, Tool, flat
from model_server.dialects.sse import Pass, event, words
from model_server.script import has_script

__all__ = ["addressed", "error", "read", "stream", "whole"]

_USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
_STREAMING = "streamGenerateContent"


def addressed(body: Json, address: str) -> Json:
    """The body with what only its address says: `NAME:generateContent`."""
    model, _, method = address.rpartition(":")
    return body | {"model": model, "stream": method == _STREAMING}


def read(body: Json) -> Ask:
    contents: list[Json] = body.get("contents") or []
    # The results of tools are the user's contents too.
    users = [at for at, each in enumerate(contents) if each.get("role") == "user" and _words(each)]
    scripted = [at for at in users if has_script(_words(contents[at]))]
    at = (scripted or users or [0])[-1]
    since = contents[at + 1 :]
    declared = [each for group in body.get("tools") or () for each in group.get("functionDeclarations") or ()]
    return Ask(
        dialect="gemini",
        model=str(body.get("model")),
        is_streaming=bool(body.get("stream")),
        tools=tuple(Tool(each["name"], each.get("parametersJsonSchema") or {}) for each in declared),
        text=_words(contents[at]) if contents else "",
        turn=len(scripted),
        rounds=sum(bool(_parts(each, "functionCall")) for each in since),
        results={
            answer["id"]: _result(answer["response"])
            for each in since
            for answer in _parts(each, "functionResponse")
        },
        pictures=len(_parts(contents[at], "inlineData")) if contents else 0,
        body=body,
    )


def whole(reply: Reply, ask: Ask) -> Json:
    text: list[Json] = [{"text": reply.text}] if reply.said else []
    return _response(ask, [*text, *_calls(reply)], "STOP")


async def stream(reply: Reply, ask: Ask, pass_gate: Pass) -> AsyncIterator[bytes]:
    async for word in words(reply, pass_gate):
        yield event(_response(ask, [{"text": word}]))
    yield event(_response(ask, _calls(reply) or [{"text": ""}], "STOP"))


def error(status: int) -> Json:
    return {
        "error": {"code": status, "message": f"The script says {status}.", "status": "FAILED_PRECONDITION"}
    }


def _response(ask: Ask, parts: list[Json], finish: str | None = None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": _USAGE,
        "modelVersion": ask.model,
        "responseId": ask.id,
    }


def _calls(reply: Reply) -> list[Json]:
    return [
        {"functionCall": {"id": call.id, "name": call.tool.name, "args": call.input}} for call in reply.calls
    ]


def _parts(content: Json, kind: str) -> list[Json]:
    return [part[kind] for part in content.get("parts") or () if kind in part]


def _words(content: Json) -> str:
    return flat(content.get("parts") or [])


def _result(response: Json) -> str:
    return str(response.get("output") or response.get("error") or "")
