"""R9, R10: chat completions, whole and as a stream."""

from collections.abc import Callable

from dragoman.backends.scripted import call, fail, reply, say, think
from http_server.kit import Answered, Json, Site, function

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


async def test_what_cannot_be_honoured_is_named_or_refused(site: _Make) -> None:
    made = site("Yes.")
    answered = await _chat(made, "x", temperature=0.1, response_format={"type": "json_object"}, seed=3)
    assert answered.json["dragoman"]["ignored"] == ["seed", "temperature", "text"]
    assert answered.headers["x-dragoman-ignored"] == "seed, temperature, text"
    assert (await _chat(made, "x", n=2)).error["param"] == "n"
    orphan = {"role": "tool", "tool_call_id": "none", "content": "x"}
    assert (await _chat(made, "x", orphan)).error["param"] == "messages[1].tool_call_id"
    assert (await _chat(made, {"role": "wizard", "content": "x"})).error["param"] == "messages[0].role"
