"""R9, R10: chat completions, whole and as a stream."""

import asyncio
import json
from collections.abc import Callable

import pytest

from dragoman.backends.scripted import call, fail, forever, reply, say, think
from dragoman.config import Serve
from dragoman.lm import ErrorKind
from http_server.kit import Answered, Json, Site, function, soon

_Make = Callable[..., Site]


async def _chat(made: Site, *messages: Json | str, **fields: object) -> Answered:
    given = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
    return await made.post("/v1/chat/completions", {"model": "m", "messages": given, **fields})


def _tool(name: str) -> Json:
    tool = function(name)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


async def test_r10_a_completion_whole_and_as_a_stream(site: _Make) -> None:
    made = site(reply(think("Hm."), say("Hello to you.")))
    whole = (await _chat(made, {"role": "system", "content": "Be brief."}, "Hello")).json
    message = whole["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hello to you.", "Hm.")
    assert whole["object"] == "chat.completion"
    chunks = (await _chat(made, "Hello", stream=True, stream_options={"include_usage": True})).data
    *said, end, usage = chunks
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in said) == "Hello to you."
    assert end["choices"][0]["finish_reason"] == "stop"
    assert (usage["choices"], usage["usage"]) == ([], None)
    assert len({chunk["id"] for chunk in chunks}) == 1


async def test_r10_calls_and_their_results(site: _Make) -> None:
    made = site(reply(call("look", word="a"), call("count")), "They said ${result.0} and ${result.1}.")
    tools = [_tool("look"), _tool("count")]
    chunks = (await _chat(made, "Look.", tools=tools, stream=True)).data
    calls = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in chunks[1:-1]]
    assert [(each["index"], each["function"]["name"]) for each in calls] == [(0, "look"), (1, "count")]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    whole = (await _chat(made, "Look.", tools=tools)).json["choices"][0]["message"]
    assert whole["content"] is None
    results = [
        {"role": "tool", "tool_call_id": each["id"], "content": word}
        for each, word in zip(whole["tool_calls"], ("one", "two"), strict=True)
    ]
    after = (await _chat(made, "Look.", whole, *results, tools=tools)).json
    assert after["choices"][0]["message"]["content"] == "They said one and two."


async def test_r10_errors_before_and_after_the_first_word(site: _Make) -> None:
    made = site(reply(fail("bad_request", "No.")))
    assert (await _chat(made, "x", stream=True)).status == 400
    later = site(reply(say("Half "), fail("agent_failed", "It broke.")))
    answered = await _chat(later, "x", stream=True)
    assert b'"error":{"message":"It broke' in answered.writes[-1]
    assert b"[DONE]" not in b"".join(answered.writes)
    whole = await _chat(later, "x")
    assert (whole.status, whole.error["code"]) == (500, "agent_failed")
    assert whole.json["dragoman"]["partial"]["content"] == "Half "
    # Whoever failed on the way has done something already.
    busy = await _chat(site(reply(say("Half "), fail("unavailable", "Busy."))), "x")
    assert (busy.status, busy.headers["x-should-retry"]) == (503, "false")


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        ("bad_request", 400, "invalid_request_error"),
        ("not_found", 404, "invalid_request_error"),
        ("auth_required", 403, "permission_error"),
        ("unavailable", 503, "server_error"),
        ("agent_failed", 500, "server_error"),
    ],
)
async def test_r10_errors_of_chat_completions_have_openais_types(
    site: _Make, failure: ErrorKind, status: int, kind: str
) -> None:
    made = site(reply(fail(failure, "No.")))
    refused = await _chat(made, "x")
    assert (refused.status, refused.error["type"]) == (status, kind)
    half = site(reply(say("Half "), fail(failure, "No.")))
    assert (await _chat(half, "x")).error["type"] == kind
    last = (await _chat(half, "x", stream=True)).writes[-1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["type"] == kind


async def test_r10_each_api_has_its_own_types_of_errors(site: _Make) -> None:
    made = site("Yes.", keys=("one",), serve=Serve(max_responses=1))
    body = {"model": "none", "messages": [], "input": "x"}
    paths = {
        "/v1/responses": "not_found",
        "/v1/responses/input_tokens": "not_found",
        "/v1/chat/completions": "invalid_request_error",
    }
    for path, kind in paths.items():
        refused = await made.post(path, body)
        assert (refused.status, refused.error["type"], refused.error["code"]) == (
            404,
            kind,
            "model_not_found",
        )
    for path in ("/v1/models/none", "/v1/embeddings", "/v1/nothing"):
        refused = await made.get(path)
        assert (refused.status, refused.error["type"]) == (404, "invalid_request_error")
    made.headers = {}
    for path, kind in (("/v1/models", "invalid_request_error"), ("/v1/responses/x", "invalid_request")):
        refused = await made.get(path)
        assert (refused.status, refused.error["type"], refused.error["code"]) == (
            401,
            kind,
            "invalid_api_key",
        )


async def test_r10_too_many_responses_are_a_rate_limit(site: _Make) -> None:
    made = site(reply(say("Wait."), forever()), serve=Serve(max_responses=1))
    leave, begun = asyncio.Event(), asyncio.Event()
    given = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
    first = asyncio.create_task(
        made.call(
            "POST",
            "/v1/chat/completions",
            json.dumps(given).encode(),
            leave=leave,
            heard=lambda _write: begun.set(),
        )
    )
    await soon(begun.wait())
    refused = await _chat(made, "x")
    assert (refused.status, refused.error["type"]) == (429, "rate_limit_error")
    leave.set()
    await soon(first)


async def test_what_cannot_be_honoured_is_named_or_refused(site: _Make) -> None:
    made = site("Yes.")
    answered = await _chat(made, "x", temperature=0.1, response_format={"type": "json_object"}, seed=3)
    assert answered.json["dragoman"]["ignored"] == ["seed", "temperature", "text"]
    assert answered.headers["x-dragoman-ignored"] == "seed, temperature, text"
    assert (await _chat(made, "x", n=2)).error["param"] == "n"
    orphan = {"role": "tool", "tool_call_id": "none", "content": "x"}
    assert (await _chat(made, "x", orphan)).error["param"] == "messages[1].tool_call_id"
    assert (await _chat(made, {"role": "wizard", "content": "x"})).error["param"] == "messages[0].role"
