"""Structured output and required calls over HTTP, with a real agent process: both APIs, streams, and the `openai` client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import openai
import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel

from bridge.consumer import Bridge
from fake_agent.steps import COMMAND, prompt
from http_server.kit import DEADLINE, Answered, Held, Json, Site, function, scripted, site_of, soon
from process.living import all_gone

pytestmark = pytest.mark.long

_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
_FORMAT = {"type": "json_schema", "name": "city", "schema": _SCHEMA, "strict": True}
_CHAT_FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": _SCHEMA}}
_GOOD = '{"city": "Bonn", "people": 3}'
_WRONG_TWICE = prompt(["say", "No."], ["again", [["say", "Never."]]])
_AGAIN = prompt(["think", "hm"], ["say", "No."], ["again", [["say", f"So:\n```json\n{_GOOD}\n```"]]])


class City(BaseModel):
    city: str
    people: int


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    made = Bridge(tmp_path)
    yield made
    await made.close()
    await soon(all_gone(made.pids))


@pytest.fixture
def site(bridge: Bridge, tmp_path: Path) -> Iterator[Site]:
    bridge.chat()
    assert bridge.model is not None
    yield from site_of(Held(bridge.permissions, m=bridge.model), store=tmp_path / "state")


def _text(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


async def _chat(site: Site, text: str, **fields: object) -> Answered:
    messages = [{"role": "user", "content": text}]
    return await site.post("/v1/chat/completions", {"model": "m", "messages": messages, **fields})


def _chunks(answered: Answered) -> list[Json]:
    return [
        json.loads(write.decode().removeprefix("data: "))
        for write in answered.writes
        if b"[DONE]" not in write
    ]


# Responses.


@pytest.mark.parametrize("streams", [False, True])
async def test_a_response_has_only_the_json_and_all_else_is_reasoning(site: Site, *, streams: bool) -> None:
    text = {"format": _FORMAT, "verbosity": "low"}
    answered = await site.create(input=_AGAIN, text=text, temperature=0.3, stream=streams)
    response = answered.streamed if streams else answered.response
    assert _text(response) == _GOOD
    assert response["status"] == "completed"
    assert response["text"] == {**text, "format": {**_FORMAT, "description": None}}
    assert [item["type"] for item in response["output"]][-1] == "message"
    assert answered.headers["x-dragoman-ignored"] == "text.verbosity, temperature"


async def test_a_form_that_is_not_kept_is_an_error_that_no_client_repeats(site: Site, bridge: Bridge) -> None:
    answered = await site.create(input=_WRONG_TWICE, text={"format": _FORMAT})
    assert (answered.status, answered.headers["x-should-retry"]) == (500, "false")
    assert (answered.error["type"], answered.error["code"]) == ("model_error", "agent_failed")
    assert "the answer has no JSON value. It said: Never." in answered.error["message"]
    assert len(bridge.noted("session/prompt")) == 2


async def test_in_a_stream_a_form_that_is_not_kept_fails_the_response(site: Site) -> None:
    answered = await site.create(input=_WRONG_TWICE, text={"format": _FORMAT}, stream=True)
    response = answered.streamed
    assert response["status"] == "failed"
    assert "Never." in response["error"]["message"]
    assert _text(response) == ""
    assert [event["type"] for event in answered.data][-1] == "response.failed"


async def test_the_next_request_needs_no_marker(site: Site) -> None:
    first = await site.create(input=_AGAIN, text={"format": _FORMAT})
    history = [
        {"role": "user", "content": _AGAIN},
        {"role": "assistant", "content": _text(first.response)},
        {"role": "user", "content": prompt(["say", "two"])},
    ]
    second = await site.create(input=history)
    assert _text(second.response) == "two"
    place = second.headers["x-dragoman-conversation"]
    assert place == first.headers["x-dragoman-conversation"].split(";")[0] + "; evidence=prefix; kind=prompt"


@pytest.mark.parametrize(
    ("format_", "words"),
    [
        ({"type": "json_schema", "name": "x"}, "must be a JSON object"),
        ({"type": "json_schema", "name": "x", "schema": []}, "must be a JSON object"),
        ({"type": "json_schema", "name": "x", "schema": {"type": "objet"}}, "expected one of"),
        ({"type": "json_schema", "name": "x", "schema": {"$ref": "#/$defs/a"}}, "not in this schema"),
        ({"type": "json_schema", "name": "x", "schema": {"$ref": "http://127.0.0.1/a"}}, "not fetched"),
        ({"type": "json_schema", "name": "x", "schema": {"pattern": "("}}, "is not a 'regex'"),
        ({"type": "grammar"}, "`text`, `json_object` or `json_schema`"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_before_the_agent_is_asked(
    site: Site, bridge: Bridge, format_: Json, words: str
) -> None:
    for streams in (False, True):
        answered = await site.create(input="x", text={"format": format_}, stream=streams)
        assert answered.status == 400
        assert words in answered.error["message"]
        assert answered.error["param"].startswith("text.format")
    assert bridge.noted("session/prompt") == []


async def test_functions_come_first_and_the_last_response_has_the_form(site: Site) -> None:
    steps = prompt(["say", "I ask."], ["call", "look", {}], ["update", _STEP], ["say", _GOOD])
    fields: Json = {"tools": [function("look")], "text": {"format": _FORMAT}}
    first = (await site.create(input=steps, **fields)).response
    call = first["output"][-1]
    assert call["type"] == "function_call"
    assert _text(first) == ""
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}
    second = await site.create(input=[output], previous_response_id=first["id"], **fields)
    assert _text(second.response) == _GOOD


_STEP = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "kind": "execute"}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "look"}])
async def test_a_required_call_is_made_or_the_response_fails(site: Site, choice: object) -> None:
    fields: Json = {"tools": [function("look"), function("count")], "tool_choice": choice}
    steps = prompt(["say", "No need."], ["again", [["call", "look", {"word": "a"}], ["say", "Done."]]])
    first = (await site.create(input=steps, **fields)).response
    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call"]
    output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "seen"}
    # Required again, as pydantic-ai sends it.
    second = await site.create(input=[output], previous_response_id=first["id"], **fields)
    assert second.status == 500
    assert "A function call is required, but Fake made none" in second.error["message"]


async def test_a_side_request_has_the_form(site: Site, bridge: Bridge) -> None:
    answered = await site.create(
        input=_AGAIN, text={"format": {"type": "json_object"}}, headers={"x_dragoman_aside": "true"}
    )
    assert _text(answered.response) == _GOOD
    assert answered.headers["x-dragoman-conversation"].startswith("-;")
    assert len(bridge.noted("session/new")) == 1


async def test_a_script_ignores_the_form_as_before() -> None:
    for made in site_of(Held(m=scripted("prose"))):
        answered = await made.create(input="x", text={"format": _FORMAT})
        assert _text(answered.response) == "prose"
        assert answered.headers["x-dragoman-ignored"] == "text"


# Chat completions.


async def test_a_chat_completion_has_the_form(site: Site) -> None:
    answered = await _chat(site, _AGAIN, response_format=_CHAT_FORMAT)
    (choice,) = answered.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (_GOOD, "stop")
    assert "x-dragoman-ignored" not in answered.headers


@pytest.mark.parametrize("path", ["responses", "chat/completions"])
async def test_a_picture_beside_the_answer_is_no_part_of_the_json(site: Site, path: str) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    show = ["update", {"sessionUpdate": "agent_message_chunk", "content": picture}]
    steps = prompt(["say", "Look:"], show, ["say", _GOOD])
    if path == "responses":
        answered = await site.create(input=steps, text={"format": _FORMAT})
        assert _text(answered.json) == _GOOD
        assert "image_generation_call" in [item["type"] for item in answered.json["output"]]
    else:
        answered = await _chat(site, steps, response_format=_CHAT_FORMAT)
        message = answered.json["choices"][0]["message"]
        assert message["content"] == _GOOD
        assert "/files/" in message["reasoning_content"]


async def test_a_stream_of_a_chat_completion_has_the_form(site: Site) -> None:
    answered = await _chat(site, _AGAIN, response_format={"type": "json_object"}, stream=True)
    deltas = [choice["delta"] for chunk in _chunks(answered) for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == _GOOD
    assert "No." in "".join(delta.get("reasoning_content") or "" for delta in deltas)


async def test_a_chat_completion_without_its_form_is_an_error(site: Site) -> None:
    answered = await _chat(site, _WRONG_TWICE, response_format=_CHAT_FORMAT)
    assert (answered.status, answered.headers["x-should-retry"]) == (500, "false")
    assert "Never." in answered.json["error"]["message"]
    streamed = await _chat(site, _WRONG_TWICE, response_format=_CHAT_FORMAT, stream=True)
    assert "Never." in _chunks(streamed)[-1]["error"]["message"]
    refused = await _chat(site, "x", response_format={"type": "json_schema", "json_schema": {"name": "x"}})
    assert refused.status == 400


# The official client.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    command = json.dumps([*COMMAND, json.dumps({"folder": str(folder)})])
    (folder / "dragoman.toml").write_text(f'[models.m]\nkind = "acp"\nname = "Fake"\ncommand = {command}\n')
    named = ("--config", str(folder / "dragoman.toml"), "--state-dir", str(folder / "state"))
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--port", "0", *named],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ,
    )
    assert process.stderr is not None
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(DEADLINE)
        process.stderr.close()


@pytest.fixture
async def client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=2) as made:
        yield made


async def test_the_official_client_parses_a_response(client: openai.AsyncOpenAI) -> None:
    response = await client.responses.parse(model="m", input=_AGAIN, text_format=City)
    assert response.output_parsed == City(city="Bonn", people=3)
    async with client.responses.stream(model="m", input=_AGAIN, text_format=City) as stream:
        final = await stream.get_final_response()
    assert final.output_parsed == City(city="Bonn", people=3)


async def test_the_official_client_parses_a_chat_completion(client: openai.AsyncOpenAI) -> None:
    messages = [{"role": "user", "content": _AGAIN}]
    completion = await client.chat.completions.parse(model="m", messages=messages, response_format=City)  # type: ignore[arg-type]
    assert completion.choices[0].message.parsed == City(city="Bonn", people=3)


async def test_the_official_client_raises_when_the_form_is_not_kept(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="does not have the requested form"):
        await client.responses.parse(model="m", input=_WRONG_TWICE, text_format=City)


async def test_the_official_client_gets_the_function_that_it_requires(client: openai.AsyncOpenAI) -> None:
    steps = prompt(["say", "No."], ["again", [["call", "City", json.loads(_GOOD)]]])
    completion = await client.chat.completions.parse(
        model="m",
        messages=[{"role": "user", "content": steps}],
        tools=[pydantic_function_tool(City)],
        tool_choice={"type": "function", "function": {"name": "City"}},
    )
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    (call,) = calls
    assert call.function.parsed_arguments == City(city="Bonn", people=3)
