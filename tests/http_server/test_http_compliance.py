"""The cases of the public compliance suite of Open Responses, against `dragoman serve` with the demo agent.

The suite checks schemas and little else. Here every stream is also held against the rules for events, and every case runs
with each set of names for the events of thinking.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args, get_type_hints

import httpx2
import pytest
from openresponses_types import types as spec
from websockets.asyncio.client import ClientConnection, connect

from dragoman.cli.agent_probe.stripes import Stripes
from dragoman.config import Serve
from http_server.kit import DEADLINE, Answered, Json, soon
from http_server.stream_check import check_events, check_resource

pytestmark = pytest.mark.long

_REASONING_EVENTS = get_args(get_type_hints(Serve)["reasoning_events"])
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "City and state, e.g. San Francisco, CA"}
        },
        "required": ["location"],
    },
}


class Served:
    """`dragoman serve` in a process of its own, and clients of it."""

    def __init__(self, folder: Path, reasoning_events: str) -> None:
        state = ["--state-dir", str(folder / "state")]
        agent = [sys.executable, "-m", "dragoman", "demo-agent", "--pace", "instant", *state]
        config = folder / "dragoman.toml"
        config.write_text(
            f'[serve]\nreasoning_events = "{reasoning_events}"\n'
            f'[models.demo]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps(agent)}\n'
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--config", str(config), *state],
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        assert self.process.stderr is not None
        self.url = next(line for line in self.process.stderr if "serving at" in line).split()[-1]

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(DEADLINE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return status

    async def post(self, path: str, **fields: object) -> Answered:
        async with httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as client:
            answer = await client.post(f"{self.url}{path}", json=fields)
        events = [f"{event}\n\n".encode() for event in answer.text.split("\n\n") if event]
        is_stream = "event-stream" in answer.headers["content-type"]
        return Answered(answer.status_code, dict(answer.headers), events if is_stream else [answer.content])

    async def create(self, **fields: object) -> Json:
        return (await self.post("/responses", model="demo", **fields)).response

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[Socket]:
        address = f"{self.url.replace('http', 'ws', 1)}/responses"
        async with connect(address, proxy=None) as connection:
            yield Socket(connection)


class Socket:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def create(self, **fields: object) -> Json:
        """One turn: its response, with every event checked."""
        events = await self._turn(fields)
        assert events[-1]["type"] in _ENDS, events[-1]
        return check_events(events)

    async def fail(self, **fields: object) -> Json:
        """One turn that is refused: the error."""
        [event] = await self._turn(fields)
        spec.ErrorStreamingEvent.model_validate({"sequence_number": 0, **event})
        error: Json = event["error"]
        return error

    async def _turn(self, fields: Json) -> list[Json]:
        await self._connection.send(json.dumps({"type": "response.create", "model": "demo", **fields}))
        events: list[Json] = []
        while not events or events[-1]["type"] not in (*_ENDS, "error"):
            events.append(json.loads(await soon(self._connection.recv())))
        return events


@pytest.fixture(scope="module", params=_REASONING_EVENTS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    started = Served(tmp_path_factory.mktemp("served"), request.param)
    yield started
    assert started.stop() == 0


def _message(role: str, content: object, **more: object) -> Json:
    return {"type": "message", "role": role, "content": content, **more}


def _text(response: Json) -> str:
    assert response["status"] == "completed"
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for message in messages for part in message["content"])


# Over HTTP.


async def test_a_text_is_answered_with_a_text(served: Served) -> None:
    response = await served.create(input=[_message("user", "Say hello in three words.")])
    assert "Hello" in _text(response)


async def test_a_stream_tells_what_its_response_has(served: Served) -> None:
    answer = await served.post(
        "/responses", model="demo", stream=True, input=[_message("user", "Count from 1 to 5.")]
    )
    assert _text(answer.streamed) == "1, 2, 3, 4, 5.\n"


async def test_a_stream_with_thinking_has_an_item_of_it_before_the_answer(served: Served) -> None:
    answer = await served.post("/responses", model="demo", stream=True, input="Think about the weather.")
    kinds = [item["type"] for item in answer.streamed["output"]]
    assert kinds == ["reasoning", "message"]
    assert any("reasoning" in event["type"] and "delta" in event for event in answer.data)


async def test_a_system_message_is_context_and_not_the_prompt(served: Served) -> None:
    response = await served.create(
        input=[_message("system", "You are a pirate. Count from 1 to 3."), _message("user", "Say hello.")]
    )
    assert _text(response) == "Hello, I am the demo agent.\n"


async def test_the_weather_question_is_a_call_of_the_offered_function(served: Served) -> None:
    question = [_message("user", "What's the weather like in San Francisco?")]
    response = await served.create(input=question, tools=[_WEATHER])
    [call] = [item for item in response["output"] if item["type"] == "function_call"]
    assert (call["name"], call["status"]) == ("get_weather", "completed")
    assert json.loads(call["arguments"]) == {"location": "San Francisco, CA"}
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Fog, 14 degrees."}
    answer = await served.create(input=[result], previous_response_id=response["id"], tools=[_WEATHER])
    assert "Fog, 14 degrees." in _text(answer)


async def test_a_streamed_call_has_events_for_its_arguments(served: Served) -> None:
    question = "What's the weather like in San Francisco?"
    answer = await served.post("/responses", model="demo", input=question, tools=[_WEATHER], stream=True)
    assert answer.streamed["output"][-1]["type"] == "function_call"
    pieces = [
        event["delta"] for event in answer.data if event["type"] == "response.function_call_arguments.delta"
    ]
    [done] = [event for event in answer.data if event["type"] == "response.function_call_arguments.done"]
    assert "".join(pieces) == done["arguments"]


async def test_a_picture_is_seen(served: Served) -> None:
    stripes = Stripes.random()
    url = f"data:image/png;base64,{base64.b64encode(stripes.png).decode()}"
    content = [
        {"type": "input_text", "text": "Which colours do you see in this image?"},
        {"type": "input_image", "image_url": url},
    ]
    assert _text(await served.create(input=[_message("user", content)])).strip() == ", ".join(stripes.colours)


async def test_a_history_is_known_to_the_agent(served: Served) -> None:
    history = [_message("user", "My name is Alice."), _message("assistant", "Hello Alice! How can I help?")]
    response = await served.create(input=[*history, _message("user", "What did I say?")])
    assert "My name is Alice." in _text(response)


async def test_assistant_messages_may_have_phases(served: Served) -> None:
    history = [
        _message("assistant", "I look at the saved number.", phase="commentary"),
        _message("assistant", "The number is four.", phase="final_answer"),
    ]
    response = await served.create(input=[*history, _message("user", "What was said before?")])
    assert "The number is four." in _text(response)


async def test_a_response_with_phases_is_one_of_the_specification_and_may_come_back(served: Served) -> None:
    response = await served.create(input="Say hello.")
    [message] = response["output"]
    labelled = [{**message, "id": "msg_note", "phase": "commentary"}, {**message, "phase": "final_answer"}]
    check_resource({**response, "output": labelled})
    again = await served.create(
        input=[_message("user", "Say hello."), *labelled, _message("user", "Say hello.")]
    )
    assert "Hello" in _text(again)


async def test_a_history_is_compacted(served: Served) -> None:
    history = [_message("user", "We launch on Tuesday."), _message("assistant", "Understood: Tuesday.")]
    answer = await served.post("/responses/compact", model="demo", prompt_cache_key="k", input=history)
    assert answer.status == 200
    compacted = spec.CompactResource.model_validate(answer.json)
    assert compacted.object.value == "response.compaction"
    assert "compaction" in [item["type"] for item in answer.json["output"]]


async def test_compaction_without_a_model_is_refused(served: Served) -> None:
    answer = await served.post("/responses/compact", input=[_message("user", "Compact this.")])
    assert answer.status == 400
    assert answer.error["param"] == "model"


# Over a WebSocket.


async def test_a_response_over_a_websocket(served: Served) -> None:
    async with served.socket() as socket:
        response = await socket.create(input=[_message("user", "Count from 1 to 3.")])
    assert _text(response) == "1, 2, 3.\n"


async def test_responses_come_one_after_the_other_on_one_websocket(served: Served) -> None:
    async with served.socket() as socket:
        first = await socket.create(input="Count from 1 to 2.", store=False)
        second = await socket.create(input="Count from 3 to 4.", store=False)
    assert [_text(first), _text(second)] == ["1, 2.\n", "3, 4.\n"]


async def test_a_response_that_is_not_stored_goes_on_over_its_websocket(served: Served) -> None:
    async with served.socket() as socket:
        first = await socket.create(input="The code word is cobalt.", store=False)
        second = await socket.create(input="What did I say?", store=False, previous_response_id=first["id"])
    assert "cobalt" in _text(second)


async def test_a_response_that_is_not_stored_is_unknown_over_another_websocket(served: Served) -> None:
    async with served.socket() as socket:
        first = await socket.create(input="The code word is copper.", store=False)
    async with served.socket() as socket:
        error = await socket.fail(input="Go on.", store=False, previous_response_id=first["id"])
        assert error["code"] == "previous_response_not_found"
        assert "Hello" in _text(await socket.create(input="Say hello.", store=False))


async def test_an_id_that_was_never_given_is_not_found(served: Served) -> None:
    async with served.socket() as socket:
        error = await socket.fail(input="Go on.", store=False, previous_response_id="resp_missing")
    assert error["code"] == "previous_response_not_found"


async def test_a_continuation_that_fails_makes_the_response_before_it_unknown(served: Served) -> None:
    output = {"type": "function_call_output", "call_id": "call_missing", "output": "There was no such call."}
    async with served.socket() as socket:
        first = await socket.create(input="The code word is ember.", store=False)
        await socket.fail(input=[output], store=False, previous_response_id=first["id"])
        error = await socket.fail(input="Go on.", store=False, previous_response_id=first["id"])
    assert error["code"] == "previous_response_not_found"


async def test_a_compacted_history_begins_a_new_chain(served: Served) -> None:
    history = [_message("user", "The code word is slate."), _message("assistant", "OK.")]
    compacted = (await served.post("/responses/compact", model="demo", input=history)).json["output"]
    async with served.socket() as socket:
        response = await socket.create(
            input=[*compacted, _message("user", "What did I say?")], store=False, tools=[]
        )
    assert "slate" in _text(response)
