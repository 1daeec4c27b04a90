"""R7, R9: responses over HTTP, whole and as a stream, each event checked."""

import asyncio
import json
from collections.abc import Callable
from typing import Literal

import msgspec
import pytest
from openresponses_types.types import CompactResource

from dragoman.backends.scripted import act, call, data, fail, forever, reply, say, think
from dragoman.backends.scripted.script import DEFAULT_INFO
from dragoman.config import Serve
from dragoman.lm import Features, Presentation, Stopped, Style, TextPart
from dragoman.lm.parts import STOPPED
from http_server.kit import TOOL, Answered, Json, Site, function, soon

_Make = Callable[..., Site]


def _types(answered: Answered) -> list[str]:
    return [event["type"] for event in answered.data]


def _text(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


async def test_r7_a_basic_response(site: _Make) -> None:
    items = [{"type": "message", "role": "user", "content": "Say hello in exactly 3 words."}]
    response = (await site("Hello to you.").create(input=items)).response
    assert (response["status"], _text(response)) == ("completed", "Hello to you.")
    assert response["completed_at"] >= response["created_at"]


async def test_r7_a_stream_tells_the_same_event_by_event(site: _Make) -> None:
    answered = await site(reply(think("Hm."), say("One two"))).create(input="Count.", stream=True)
    response = answered.streamed
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert _types(answered) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_r7_thinking_is_a_summary_that_clients_of_openai_know(site: _Make) -> None:
    answered = await site(reply(think("Hm."), think(" So."), say("Yes."))).create(input="x", stream=True)
    thought, _message = answered.streamed["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm. So."}]
    # A strict server takes the item back only without `content`.
    assert "content" not in thought
    told = [event for event in answered.data if "reasoning_summary" in event["type"]]
    assert {(event["item_id"], event["summary_index"]) for event in told} == {(thought["id"], 0)}
    assert "".join(event.get("delta", "") for event in told) == "Hm. So."


@pytest.mark.parametrize(
    ("setting", "name"), [("spec", "response.reasoning"), ("openai", "response.reasoning_text")]
)
async def test_r7_thinking_can_be_content_by_either_name(
    site: _Make, setting: Literal["spec", "openai"], name: str
) -> None:
    made = site(reply(think("Hm."), say("Yes.")), serve=Serve(reasoning_events=setting))
    answered = await made.create(input="x", stream=True)
    thought, _message = answered.streamed["output"]
    assert (thought["summary"], thought["content"]) == ([], [{"type": "reasoning_text", "text": "Hm."}])
    assert [each for each in _types(answered) if "reasoning" in each] == [f"{name}.delta", f"{name}.done"]


async def test_r7_system_prompts_and_histories_reach_the_model(site: _Make) -> None:
    made = site(reply("no", when=None), "Alice.")
    items = [
        {"type": "message", "role": "system", "content": "Be brief."},
        {"role": "user", "content": "My name is Alice."},
        {"type": "message", "role": "assistant", "content": "Hello Alice!", "phase": "final_answer"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is my name?"}]},
    ]
    response = (await made.create(input=items, instructions="Speak English.")).response
    assert (_text(response), response["instructions"]) == ("Alice.", "Speak English.")


async def test_r7_an_image_in_a_data_url_reaches_the_model_and_another_is_named(site: _Make) -> None:
    made = site("I see.")
    content = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "input_image", "image_url": "https://example.com/x.png"},
    ]
    answered = await made.create(input=[{"role": "user", "content": content}])
    assert answered.response["status"] == "completed"
    assert "not fetched" in answered.headers["x-dragoman-ignored"]


async def test_r7_calls_side_by_side_and_their_results(site: _Make) -> None:
    made = site(
        reply(say("Let me look."), call("look", word="a"), call("count", word="b")),
        "They said: ${result.0}, ${result.1}.",
    )
    tools = [TOOL, function("count")]
    answered = await made.create(input="Look.", tools=tools, stream=True)
    response = answered.streamed
    message, first, second = response["output"]
    assert [json.loads(item["arguments"]) for item in (first, second)] == [{"word": "a"}, {"word": "b"}]
    assert "response.function_call_arguments.delta" in _types(answered)
    history = [
        {"role": "user", "content": "Look."},
        message,
        first,
        second,
        {"type": "function_call_output", "call_id": second["call_id"], "output": "two"},
        {
            "type": "function_call_output",
            "call_id": first["call_id"],
            "output": [{"type": "input_text", "text": "one"}],
        },
    ]
    after = (await made.create(input=history, tools=tools)).response
    assert _text(after) == "They said: two, one."


@pytest.mark.parametrize(
    ("reason", "told"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
async def test_r9_an_answer_that_stopped_early_is_incomplete(site: _Make, reason: str, told: str) -> None:
    stopped = {"reason": reason, "words": "It would not go on."}
    made = site(reply(say("Half an"), data(stopped, STOPPED)))
    answered = await made.create(input="x", stream=True)
    response = answered.streamed
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": told})
    assert response["output"][-1]["status"] == "incomplete"
    refusals = [part for item in response["output"] for part in item["content"] if part["type"] == "refusal"]
    assert [part["refusal"] for part in refusals] == (
        ["It would not go on."] if reason == "content_filter" else []
    )
    chat = await made.post(
        "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    )
    choice = chat.json["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == (reason, "Half an")


async def test_r9_an_answer_that_never_came_is_not_called_an_empty_one(site: _Make) -> None:
    made = site(reply(data({"reason": "length", "words": "Too long."}, STOPPED)))
    response = (await made.create(input="x", stream=True)).streamed
    assert (response["status"], response["output"]) == ("incomplete", [])


def test_r9_a_stop_is_told_to_a_person_in_words_and_to_a_program_by_its_name() -> None:
    part = Stopped("length", "That was all.").part
    assert list(Presentation(Features(reports=True), Style()).present(part)) == [part]
    (shown,) = Presentation(Features(data=True), Style()).present(part)
    assert isinstance(shown, TextPart)
    assert "That was all." in shown.value
    # What no program has a name for is said to everybody.
    (shown,) = Presentation(Features(reports=True), Style()).present(Stopped("other", "Enough.").part)
    assert isinstance(shown, TextPart)


async def test_r7_errors_have_a_status_before_the_first_word_and_are_events_after(site: _Make) -> None:
    made = site(reply(fail("unavailable", "Busy.", retry_after=3)), say("never"))
    answered = await made.create(input="x", stream=True)
    assert (answered.status, answered.error["type"]) == (503, "server_error")
    assert (answered.headers["retry-after"], answered.headers["x-should-retry"]) == ("3", "true")
    later = site(reply(say("Half "), fail("agent_failed", "It broke.")))
    streamed = await later.create(input="x", stream=True)
    response = streamed.streamed
    assert (response["status"], response["error"]["code"]) == ("failed", "agent_failed")
    assert _text(response) == "Half "


async def test_r7_an_answer_that_breaks_off_keeps_what_was_said_also_where_it_is_not_streamed(
    site: _Make,
) -> None:
    made = site(reply(say("Half "), fail("agent_failed", "It broke.")))
    whole = (await made.create(input="x")).response
    assert (whole["status"], _text(whole), whole["completed_at"]) == ("failed", "Half ", None)
    assert (whole["error"]["code"], whole["output"][-1]["status"]) == ("agent_failed", "incomplete")
    assert "It broke" in whole["error"]["message"]
    assert 'outcome="failed"} 1' in (await made.get("/metrics")).writes[0].decode()
    # Nothing was said: then the status tells.
    silent = await site(reply(fail("agent_failed", "It broke."))).create(input="x")
    assert (silent.status, silent.error["type"], silent.headers["x-should-retry"]) == (
        500,
        "model_error",
        "false",
    )


async def test_r7_a_client_that_goes_away_cancels(site: _Make) -> None:
    leave, cancelled = asyncio.Event(), asyncio.Event()
    made = site(reply(say("Wait. "), forever(), act(cancelled.set)))

    def heard(write: bytes) -> None:
        if b"Wait" in write:
            leave.set()

    body = json.dumps({"model": "m", "input": "x", "stream": True}).encode()
    answered = await made.call("POST", "/v1/responses", body, leave=leave, heard=heard)
    assert b"response.completed" not in b"".join(answered.writes)
    assert b"[DONE]" not in b"".join(answered.writes)
    assert 'outcome="cancelled"' in (await made.get("/metrics")).writes[0].decode()
    assert "dragoman_responses_under_way 0" in (await made.get("/metrics")).writes[0].decode()


async def test_r7_a_client_that_goes_away_before_the_first_word_cancels_too(site: _Make) -> None:
    leave = asyncio.Event()
    made = site(reply(act(leave.set), forever()))
    body = json.dumps({"model": "m", "input": "x"}).encode()
    await made.call("POST", "/v1/responses", body, leave=leave)
    assert 'outcome="cancelled"' in (await made.get("/metrics")).writes[0].decode()


async def test_what_a_model_cannot_honour_is_named(site: _Make) -> None:
    answered = await site("Yes.").create(
        input="x", temperature=0.2, top_p=None, parallel_tool_calls=True, metadata={"mine": "1"}, nonsense=1
    )
    odd = await site("Yes.").create(input="x", **{"a\r\nb: ü": 1})
    assert odd.headers["x-dragoman-ignored"] == "a??b: ?"
    assert answered.headers["x-dragoman-ignored"] == "nonsense, temperature"
    assert answered.response["metadata"] == {"mine": "1", "dragoman.ignored": "nonsense, temperature"}


async def test_a_request_of_which_nothing_is_left_names_what_is_not_supported(site: _Make) -> None:
    made = site("Yes.")
    refused = await made.create(input=[{"type": "zzz"}])
    assert (refused.status, refused.error["param"]) == (400, "input")
    assert refused.error["message"].endswith("Not supported here: input[0] (zzz).")
    refused = await made.create(prompt={"id": "pmpt_1"})
    assert refused.error["message"].endswith("Not supported here: prompt.")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": "x", "model": None}, "model"),
        ({"input": []}, None),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call_output", "call_id": "none", "output": ""}]}, "input[0].call_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0]"),
        ({"input": "x", "temperature": 9}, "temperature"),
        ({"input": "x", "background": True, "store": False}, "background"),
        ({"input": "x", "tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"input": "x", "tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"input": "x", "tool_choice": "sometimes"}, "tool_choice"),
        ({"input": "x", "tool_choice": {"type": "function", "name": "gone"}}, "tool_choice"),
        ({"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
        ({"input": [{"type": "compaction", "encrypted_content": "dg1.AAAA"}]}, "input[0]"),
        ({"input": "x", "conversation": "a", "headers": {"x_conversation_id": "b"}}, "conversation"),
    ],
)
async def test_r7_what_cannot_be_honoured_is_refused_and_named(
    site: _Make, fields: Json, param: str | None
) -> None:
    answered = await site("Yes.").create(**fields)
    assert (answered.status, answered.error["type"]) == (400, "invalid_request")
    assert answered.error["param"] == param


async def test_t14_a_choice_is_kept_by_a_model_that_can_be_made_to_call(site: _Make) -> None:
    made = site(call("look"))
    tools = [TOOL, function("count")]
    chosen = {"type": "function", "name": "look"}
    response = (await made.create(input="x", tools=tools, tool_choice=chosen)).response
    assert (response["output"][0]["name"], response["tool_choice"]) == ("look", chosen)
    # Only what was chosen is offered, so this model breaks a rule, and that is told.
    refused = await made.create(input="x", tools=tools, tool_choice={"type": "function", "name": "count"})
    assert (refused.status, "S5" in refused.error["message"]) == (500, True)
    unoffered = await made.create(input="x", tools=tools, tool_choice="none")
    assert (unoffered.status, "S5" in unoffered.error["message"]) == (500, True)


async def test_t14_a_model_that_decides_for_itself_is_not_asked(site: _Make) -> None:
    made = site(call("look"), info=msgspec.structs.replace(DEFAULT_INFO, required_calls=False))
    refused = await made.create(input="x", tools=[TOOL], tool_choice="required")
    assert (refused.status, refused.error["type"]) == (400, "invalid_request")
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}
    assert (await made.create(input="x", tools=[TOOL, function("b")], tool_choice=allowed)).response["output"]


async def test_r7_compaction_packs_a_history_that_goes_on(site: _Make) -> None:
    made = site("First.", "You said: ${prompt}")
    items = [{"role": "user", "content": "Remember cobalt."}, {"role": "assistant", "content": "OK."}]
    packed = (await made.post("/v1/responses/compact", {"model": "m", "input": items})).json
    assert (packed["object"], [item["type"] for item in packed["output"]]) == (
        "response.compaction",
        ["compaction"],
    )
    CompactResource.model_validate(packed)
    after = await made.create(input=[*packed["output"], {"role": "user", "content": "Go on."}])
    assert _text(after.response) == "You said: Go on."
    # And once more, with the first inside.
    again = (await made.post("/v1/responses/compact", {"model": "m", "input": packed["output"]})).json
    assert (await made.create(input=[*again["output"], {"role": "user", "content": "x"}])).status == 200
    missing = await made.post("/v1/responses/compact", {"input": items})
    assert (missing.status, missing.error["param"]) == (400, "model")


async def test_r7_many_at_once_are_told_apart_and_too_many_are_turned_away(site: _Make) -> None:
    gate = asyncio.Event()
    made = site(reply(act(gate.wait), say("${prompt}")), serve=Serve(max_responses=2))
    asked = [asyncio.create_task(made.create(input=f"number {n}", stream=True)) for n in range(3)]
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = [task.result() for task in done]
    assert (refused.status, refused.error["type"]) == (429, "too_many_requests")
    gate.set()
    answered = [await soon(task) for task in asked if task not in done]
    assert len({_text(each.streamed) for each in answered}) == 2


async def test_r7_a_stream_that_is_silent_for_long_says_that_it_is_still_there(
    site: _Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.frontends.event_streams.EventStream.beat_seconds", 0.01)
    gate = asyncio.Event()
    made = site(reply(say("Wait. "), act(gate.wait), say("Done.")))

    def heard(write: bytes) -> None:
        if write == b": still working\n\n":
            gate.set()

    body = json.dumps({"model": "m", "input": "x", "stream": True}).encode()
    answered = await made.call("POST", "/v1/responses", body, heard=heard)
    answered.writes = [write for write in answered.writes if not write.startswith(b":")]
    assert _text(answered.streamed) == "Wait. Done."


async def test_r7_a_response_was_created_when_it_was_asked_for(
    site: _Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("dragoman.frontends.http.service.time.time", lambda: now[0])

    def later() -> None:
        now[0] += 60

    made = site(reply(act(later), say("Yes.")))
    response = (await made.create(input="x")).response
    assert (response["created_at"], response["completed_at"]) == (1_000, 1_060)
