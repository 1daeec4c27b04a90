"""R10: the `openai` client against `dragoman serve`, with the demo agent and a script behind it."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.backends.responses.model import EndpointModel
from dragoman.backends.responses.settings import EndpointSettings
from dragoman.config import Config, load
from dragoman.lm import (
    CancellationToken,
    Consumer,
    Features,
    GuardedModel,
    LanguageModel,
    Message,
    ModelInfo,
    Part,
    Request,
    RequestOptions,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    user,
)
from dragoman.models import Models
from fake_agent.demo import COMMAND
from http_server.kit import DEADLINE, KEY, function, soon
from http_server.stream_check import check_events

pytestmark = pytest.mark.long

_CONFIG = """
[serve]
api_keys = ["$SERVE_KEY"]

[models.tape]
kind = "script"
path = "tape.jsonl"

[models.demo]
kind = "acp"
agent = "demo"
command = COMMAND
"""
_TAPE = """
{"when": {"prompt": "fail"}, "do": [{"fail": "bad_request", "message": "No."}]}
{"when": {"prompt": "break"}, "do": [{"say": "Half "}, {"fail": "agent_failed", "message": "It broke."}]}
{"when": {"prompt": "wait"}, "do": [{"say": "Waiting. "}, {"wait": "forever"}]}
{"do": [{"think": "Hm."}, {"say": "You said ${prompt}."}]}
"""


class Running:
    """`dragoman serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = json.dumps([*COMMAND, "--sessions", str(folder / "sessions")])
        (folder / "dragoman.toml").write_text(_CONFIG.replace("COMMAND", command))
        (folder / "tape.jsonl").write_text(_TAPE)
        self.folder = folder
        named = ("--config", str(folder / "dragoman.toml"), "--state-dir", str(folder / "state"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "serve", "--port", "0", *named],
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "SERVE_KEY": KEY},
        )
        assert self.process.stderr is not None
        self.url = self.process.stderr.readline().split()[-1]

    @property
    def port(self) -> int:
        return int(self.url.removesuffix("/v1").rpartition(":")[2])

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(DEADLINE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return status


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    served = Running(tmp_path_factory.mktemp("served"))
    yield served
    # Drained, and ended well.
    assert served.stop() == 0


@pytest.fixture
async def client(running: Running) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=running.url, api_key=KEY, max_retries=0) as made:
        yield made


async def _events(stream: Any) -> list[dict[str, Any]]:
    return [event.model_dump(mode="json", by_alias=True, exclude_unset=True) async for event in stream]


@pytest.mark.parametrize("model", ["tape", "demo"])
async def test_r10_create_and_stream(client: openai.AsyncOpenAI, model: str) -> None:
    whole = await soon(client.responses.create(model=model, input="hello there"))
    assert (whole.status, bool(whole.output_text)) == ("completed", True)
    stream = await soon(client.responses.create(model=model, input="hello there", stream=True))
    told = check_events(await soon(_events(stream)))
    text = "".join(
        part["text"] for item in told["output"] if item["type"] == "message" for part in item["content"]
    )
    assert text == whole.output_text


async def test_r10_tools_over_several_turns_by_previous_response_id(client: openai.AsyncOpenAI) -> None:
    tools: Any = [function("look_up"), function("count"), function("show")]
    first = await soon(client.responses.create(model="demo", input="three in parallel", tools=tools))
    calls = [item for item in first.output if item.type == "function_call"]
    assert len({call.call_id for call in calls}) == 3
    results: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"result {number}"}
        for number, call in enumerate(calls)
    ]
    second = await soon(
        client.responses.create(model="demo", input=results, previous_response_id=first.id, tools=tools)
    )
    assert all(f"result {number}" in second.output_text for number in range(3))
    raw = await soon(
        client.responses.with_raw_response.create(
            model="demo", input="What did I say?", previous_response_id=second.id, tools=tools
        )
    )
    assert "evidence=marker; kind=prompt" in raw.headers["x-dragoman-conversation"]
    assert "three in parallel" in raw.parse().output_text
    again = await soon(client.responses.retrieve(second.id))
    assert again.output_text == second.output_text
    await soon(client.responses.delete(second.id))
    with pytest.raises(openai.NotFoundError):
        await soon(client.responses.retrieve(second.id))


async def test_r10_a_row_of_calls_with_the_whole_history_each_time(client: openai.AsyncOpenAI) -> None:
    tools: Any = [function("look_up"), function("count")]
    history: list[Any] = [{"role": "user", "content": "two in a row"}]
    said = ""
    for number in range(3):
        answer = await soon(client.responses.create(model="demo", input=history, tools=tools, store=False))
        said = answer.output_text
        history += [item.model_dump(mode="json", exclude_none=True) for item in answer.output]
        for call in (item for item in answer.output if item.type == "function_call"):
            output = f"result {number}"
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    assert "And the second: result 1" in said


async def test_r10_chat_completions(client: openai.AsyncOpenAI) -> None:
    tools: Any = [
        {"type": "function", "function": {"name": "look_up", "parameters": function("look_up")["parameters"]}}
    ]
    messages: list[Any] = [{"role": "user", "content": "one in between"}]
    first = await soon(client.chat.completions.create(model="demo", messages=messages, tools=tools))
    (choice,) = first.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    messages.append(choice.message.model_dump(mode="json", exclude_none=True))
    call_id = choice.message.tool_calls[0].id
    messages.append({"role": "tool", "tool_call_id": call_id, "content": "forty-two"})
    stream = await soon(
        client.chat.completions.create(model="demo", messages=messages, tools=tools, stream=True)
    )
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert "This is after the call, which said: forty-two" in text


async def test_r10_errors(client: openai.AsyncOpenAI, running: Running) -> None:
    with pytest.raises(openai.BadRequestError, match="No"):
        await soon(client.responses.create(model="tape", input="fail"))
    with pytest.raises(openai.NotFoundError):
        await soon(client.responses.create(model="gone", input="x"))
    with pytest.raises(openai.BadRequestError) as caught:
        await soon(client.responses.create(model="tape", input="x", previous_response_id="resp_none"))
    assert caught.value.code == "previous_response_not_found"
    stream = await soon(client.responses.create(model="tape", input="break", stream=True))
    with pytest.raises(openai.APIError, match="It broke"):
        await soon(_events(stream))
    half = await soon(client.responses.create(model="tape", input="break"))
    assert (half.status, half.output_text) == ("failed", "Half ")
    assert half.error is not None
    assert "It broke" in half.error.message
    messages: Any = [{"role": "user", "content": "break"}]
    with pytest.raises(openai.BadRequestError) as wrong:
        await soon(client.chat.completions.create(model="tape", messages=messages, n=2))
    assert wrong.value.type == "invalid_request_error"
    with pytest.raises(openai.InternalServerError, match="It broke") as broken:
        await soon(client.chat.completions.create(model="tape", messages=messages))
    assert broken.value.response.json()["dragoman"]["partial"]["content"] == "Half "
    async with openai.AsyncOpenAI(base_url=running.url, api_key="other", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            await soon(stranger.models.list())


@pytest.mark.parametrize(("model", "prompt"), [("tape", "wait"), ("demo", "!slow 100000")])
async def test_r10_a_stream_that_is_closed_cancels(
    client: openai.AsyncOpenAI, model: str, prompt: str
) -> None:
    stream = await soon(client.responses.create(model=model, input=prompt, stream=True))
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    await soon(stream.close())
    # It is counted when the model has stopped: ask until it is.
    while True:
        metrics = await soon(client.get("../metrics", cast_to=str))
        if f'dragoman_responses_total{{model="{model}",outcome="cancelled"}} 1' in metrics:
            break
    # The model is there for the next.
    assert (await soon(client.responses.create(model=model, input="hello there"))).status == "completed"


async def test_r10_what_a_response_was_asked_with_is_listed_and_what_is_over_is_not_cancelled(
    client: openai.AsyncOpenAI,
) -> None:
    given: Any = [{"role": "user", "content": f"number {number}"} for number in range(5)]
    response = await soon(client.responses.create(model="tape", input=given))
    # More than one page, which the client turns by itself.
    listed = [item async for item in client.responses.input_items.list(response.id, limit=2, order="asc")]
    texts = [item.content[0].text for item in listed if item.type == "message"]  # type: ignore[union-attr]
    assert texts == [f"number {number}" for number in range(5)]
    with pytest.raises(openai.BadRequestError, match="close its connection"):
        await soon(client.responses.cancel(response.id))
    with pytest.raises(openai.NotFoundError):
        await soon(client.responses.cancel("resp_none"))
    with pytest.raises(openai.NotFoundError):
        await soon(client.responses.input_items.list("resp_none"))
    with pytest.raises(openai.BadRequestError, match="background: true"):
        await soon(client.responses.retrieve(response.id, stream=True))


# The client's helper warns of items that it has no class for, and takes them.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_r10_the_official_client_takes_items_of_steps_and_plans(client: openai.AsyncOpenAI) -> None:
    asks = {"x-dragoman-activity": "items"}
    whole = await soon(client.responses.create(model="demo", input="make a plan", extra_headers=asks))
    kinds = ["dragoman:plan", "reasoning", "message"]
    assert [item.type for item in whole.output] == kinds
    assert whole.output_text.startswith("That was the plan")
    # Its helper puts the response together from the events.
    async with client.responses.stream(model="demo", input="make a plan", extra_headers=asks) as stream:
        events = [event async for event in stream]
        streamed = await soon(stream.get_final_response())
    assert "dragoman:plan.updated" in {str(event.type) for event in events}
    assert ([item.type for item in streamed.output], streamed.output_text) == (kinds, whole.output_text)
    # Given back as they came.
    given: Any = [item.model_dump(mode="json", exclude_none=True) for item in streamed.output]
    asked: Any = {"role": "user", "content": "make a plan"}
    more: Any = {"role": "user", "content": "hello"}
    answered = await soon(
        client.responses.with_raw_response.create(model="demo", input=[asked, *given, more])
    )
    assert "x-dragoman-ignored" not in answered.headers
    assert "evidence=marker; kind=prompt" in answered.headers["x-dragoman-conversation"]


async def test_r10_the_stream_helper_takes_thinking(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="tape", input="hello") as stream:
        kinds = [event.type async for event in stream]
        whole = await soon(stream.get_final_response())
    assert "response.reasoning_summary_text.delta" in kinds
    (thought,) = [item for item in whole.output if item.type == "reasoning"]
    assert [part.text for part in thought.summary] == ["Hm."]
    assert whole.output_text == "You said hello."


async def test_r10_a_tool_loop_by_references_as_the_ai_sdk_sends_it(client: openai.AsyncOpenAI) -> None:
    tools: Any = [function("look_up"), function("count")]
    history: list[Any] = [{"role": "user", "content": "two in a row"}]
    said, evidence = "", ""
    for number in range(3):
        raw = await soon(client.responses.with_raw_response.create(model="demo", input=history, tools=tools))
        answer, evidence = raw.parse(), raw.headers["x-dragoman-conversation"]
        said = answer.output_text
        history += [{"type": "item_reference", "id": item.id} for item in answer.output]
        for call in (item for item in answer.output if item.type == "function_call"):
            output = f"result {number}"
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    assert "And the second: result 1" in said
    assert "kind=results" in evidence
    gone: Any = [{"type": "item_reference", "id": "msg_none"}]
    with pytest.raises(openai.NotFoundError) as caught:
        await soon(client.responses.create(model="demo", input=gone))
    assert (caught.value.code, caught.value.param) == ("item_not_found", "input[0]")


async def test_r10_input_tokens_are_counted(client: openai.AsyncOpenAI) -> None:
    short, long = [
        await soon(client.responses.input_tokens.count(model="demo", input=text)) for text in ("a", "a" * 400)
    ]
    assert short.object == "response.input_tokens"
    assert long.input_tokens - short.input_tokens == 99


async def test_r10_a_websocket_of_the_official_client_takes_the_fields_of_http(
    client: openai.AsyncOpenAI,
) -> None:
    async with client.responses.connect() as connection:
        await connection.send(
            {
                "type": "response.create",
                "model": "tape",
                "input": "hello",
                "stream": True,
                "background": False,
            }
        )
        kinds: list[str] = []
        while "response.completed" not in kinds:
            kinds.append((await soon(connection.recv())).type)
    assert "error" not in kinds


async def test_r10_permissions_on_chat_completions_with_the_official_client(
    client: openai.AsyncOpenAI,
) -> None:
    asks = {"x-dragoman-approvals": "items"}
    messages: list[Any] = [{"role": "user", "content": "two permissions"}]
    while True:
        async with client.chat.completions.stream(
            model="demo", messages=messages, extra_headers=asks
        ) as stream:
            answer = (await soon(stream.get_final_completion())).choices[0].message
        messages.append(answer.model_dump(mode="json", exclude_none=True))
        if not answer.tool_calls:
            break
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": '{"approve": true}'}
            for call in answer.tool_calls
        ]
    roles = [message["role"] for message in messages]
    assert roles.count("tool") == 2
    assert "Both are done" in str(messages[-1]["content"])


async def test_r10_models_are_listed(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["tape", "demo"]


# The pair: our own client in front of our own server says the same as the agent itself.

_PROMPTS = ("hello", "think about it", "three in parallel", "make a plan")
_TOOLS = tuple(
    ToolDefinition(name, f"The tool {name}.", {"type": "object", "properties": {}})
    for name in ("look_up", "count", "show")
)
_FEATURES = Features(thinking=True, data=True, markdown=False)


async def _heard(model: LanguageModel, prompt: str) -> list[tuple[str, str]]:
    """All that a conversation of up to three answers says, each stretch of a kind in one piece."""
    history: list[Message] = [user(prompt)]
    found: list[tuple[str, str]] = []
    for _ in range(3):
        sink = Response()
        consumer = Consumer("http", "pair", features=_FEATURES)
        request = Request(tuple(history), RequestOptions(_TOOLS), consumer)
        await soon(model.respond(request, sink, CancellationToken()))
        found += _told(sink.parts)
        history.append(sink.message())
        if not sink.calls:
            break
        results = (ToolResultPart(call.call_id, (TextPart(f"<{call.name}>"),)) for call in sink.calls)
        history.append(Message("user", tuple(results)))
    return found


def _told(parts: list[Part]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for part in parts:
        match part:
            case TextPart(value=text):
                kind, words = "text", text
            case ThinkingPart():
                kind, words = "thinking", part.text
            case ToolCallPart(name=name, input=arguments):
                found.append(("call", f"{name} {json.dumps(arguments)}"))
                continue
            case _:
                continue
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + words)
        else:
            found.append((kind, words))
    return [(kind, words.strip()) for kind, words in found if words.strip()]


@pytest.mark.parametrize("prompt", _PROMPTS)
async def test_r10_our_client_on_our_server_hears_what_the_agent_says(running: Running, prompt: str) -> None:
    info = ModelInfo("pair", "Pair", "pair", "1", 1_000, 1_000, takes_options=True)
    settings = EndpointSettings("pair", "Pair", running.url, "demo", KEY)
    through = EndpointModel(info, settings)
    config: Config = load(running.folder / "dragoman.toml")
    direct = Models(config)
    try:
        assert await _heard(GuardedModel(through), prompt) == await _heard(direct.get("demo"), prompt)
    finally:
        await through.close()
        await direct.close()


async def test_r10_a_chain_goes_on_after_the_server_was_started_anew(tmp_path: Path) -> None:
    served = Running(tmp_path)
    async with openai.AsyncOpenAI(base_url=served.url, api_key=KEY, max_retries=0) as client:
        first = await soon(
            client.responses.with_raw_response.create(model="demo", input="My name is Alice. hello")
        )
    assert served.stop() == 0
    served = Running(tmp_path)
    async with openai.AsyncOpenAI(base_url=served.url, api_key=KEY, max_retries=0) as client:
        second = await soon(
            client.responses.with_raw_response.create(
                model="demo", input="What did I say?", previous_response_id=first.parse().id
            )
        )
    assert served.stop() == 0
    conversation = first.headers["x-dragoman-conversation"].partition(";")[0]
    assert second.headers["x-dragoman-conversation"] == f"{conversation}; evidence=marker; kind=prompt"
    assert "My name is Alice" in second.parse().output_text
