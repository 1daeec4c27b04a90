"""Each dialect as its client sees it: the request in its words, the stream in its events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman.cli.agent_probe.examine import FIRST
from dragoman.cli.agent_probe.page import ProbePage
from dragoman.cli.agent_probe.trials import Trials
from model_server import ModelServer, model_server, play

pytestmark = pytest.mark.long

Json = dict[str, Any]
_SHELL = {"type": "object", "properties": {"command": {"type": "string"}, "why": {}}, "required": ["why"]}
_LOOK = {"type": "object", "properties": {"word": {"type": "string"}}}
_PICTURE = "iVBORw0KGgo="


class Dialect:
    """A client of one dialect: it keeps the history, and takes the events apart."""

    path = ""

    def __init__(self, server: ModelServer, http: httpx2.AsyncClient) -> None:
        self.server = server
        self.http = http
        self.history: list[Json] = []

    async def post(self, body: Json) -> httpx2.Response:
        return await self.http.post(self.server.url + self.path, json=body)

    def body(self, *, stream: bool, tools: bool = True) -> Json:
        raise NotImplementedError

    def user(self, text: str, *, picture: bool = False) -> None:
        raise NotImplementedError

    def read(self, events: list[Json]) -> tuple[str, list[tuple[str, str, Json]]]:
        """Text and calls of a stream; asserts its form."""
        raise NotImplementedError

    def read_whole(self, answer: Json) -> tuple[str, list[tuple[str, str, Json]]]:
        raise NotImplementedError

    def keep(self, text: str, calls: list[tuple[str, str, Json]], results: Iterable[str]) -> None:
        raise NotImplementedError

    async def ask(self, *, tools: bool = True) -> tuple[str, list[tuple[str, str, Json]]]:
        answer = await self.post(self.body(stream=True, tools=tools))
        assert answer.headers["content-type"].startswith("text/event-stream")
        return self.read(events_in(answer.text))

    async def run(self, script: str, *results: str) -> tuple[str, list[tuple[str, str, Json]]]:
        """One turn with one result for every call, in order."""
        self.user(script)
        left = list(results)
        text, calls = await self.ask()
        every = list(calls)
        while calls:
            self.keep(text, calls, [left.pop(0) for _ in calls])
            text, calls = await self.ask()
            every += calls
        return text, every


class Chat(Dialect):
    path = "/v1/chat/completions"

    def body(self, *, stream: bool, tools: bool = True) -> Json:
        offered = [("shell", _SHELL), ("dg-1_look_up", _LOOK)] if tools else []
        functions = [{"type": "function", "function": {"name": n, "parameters": p}} for n, p in offered]
        return {"model": "m", "messages": self.history, "tools": functions, "stream": stream}

    def user(self, text: str, *, picture: bool = False) -> None:
        image = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PICTURE}"}}]
        content = [*(image if picture else []), {"type": "text", "text": text}]
        self.history.append({"role": "user", "content": content})

    def read(self, events: list[Json]) -> tuple[str, list[tuple[str, str, Json]]]:
        *chunks, usage = events
        assert usage["choices"] == []
        assert usage["usage"]["total_tokens"] == 110
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[0]["role"] == "assistant"
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        assert [call["index"] for call in calls] == list(range(len(calls)))
        assert chunks[-1]["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")
        return "".join(delta.get("content", "") for delta in deltas), list(map(_function, calls))

    def read_whole(self, answer: Json) -> tuple[str, list[tuple[str, str, Json]]]:
        message = answer["choices"][0]["message"]
        return message["content"], list(map(_function, message.get("tool_calls", ())))

    def keep(self, text: str, calls: list[tuple[str, str, Json]], results: Iterable[str]) -> None:
        made = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for id_, name, given in calls
        ]
        self.history.append({"role": "assistant", "content": text, "tool_calls": made})
        for (id_, *_), result in zip(calls, results, strict=True):
            self.history.append({"role": "tool", "tool_call_id": id_, "content": result})


class Messages(Dialect):
    path = "/v1/messages"

    def body(self, *, stream: bool, tools: bool = True) -> Json:
        offered = [("Bash", _SHELL), ("mcp__dg-1__look_up", _LOOK)] if tools else []
        declared = [{"name": name, "input_schema": schema} for name, schema in offered]
        return {"model": "m", "messages": self.history, "tools": declared, "stream": stream}

    def user(self, text: str, *, picture: bool = False) -> None:
        source = {"type": "base64", "media_type": "image/png", "data": _PICTURE}
        content: list[Json] = [{"type": "image", "source": source}] if picture else []
        self.history.append({"role": "user", "content": [*content, {"type": "text", "text": text}]})

    def read(self, events: list[Json]) -> tuple[str, list[tuple[str, str, Json]]]:
        assert [event["type"] for event in (events[0], *events[-2:])] == [
            "message_start",
            "message_delta",
            "message_stop",
        ]
        text, calls = "", []
        inner = iter(events[1:-2])
        for expected, start in enumerate(inner):
            assert (start["type"], start["index"]) == ("content_block_start", expected)
            block, partial = start["content_block"], ""
            for event in inner:
                assert event["index"] == expected
                if event["type"] == "content_block_stop":
                    break
                partial += event["delta"].get("text", "") + event["delta"].get("partial_json", "")
            if block["type"] == "text":
                text += partial
            else:
                calls.append((block["id"], block["name"], json.loads(partial)))
        assert events[-2]["delta"]["stop_reason"] == ("tool_use" if calls else "end_turn")
        return text, calls

    def read_whole(self, answer: Json) -> tuple[str, list[tuple[str, str, Json]]]:
        blocks = answer["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return text, [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]

    def keep(self, text: str, calls: list[tuple[str, str, Json]], results: Iterable[str]) -> None:
        uses = [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in calls]
        self.history.append({"role": "assistant", "content": [{"type": "text", "text": text}, *uses]})
        given_back = [
            {"type": "tool_result", "tool_use_id": id_, "content": [{"type": "text", "text": result}]}
            for (id_, *_), result in zip(calls, results, strict=True)
        ]
        self.history.append({"role": "user", "content": given_back})


class Responses(Dialect):
    path = "/v1/responses"

    def body(self, *, stream: bool, tools: bool = True) -> Json:
        grouped = {"type": "function", "name": "look_up", "parameters": _LOOK}
        offered = [
            {"type": "function", "name": "exec_command", "parameters": _SHELL},
            {"type": "namespace", "name": "mcp__dg_1__", "tools": [grouped]},
            {"type": "custom", "name": "apply_patch"},
        ]
        return {"model": "m", "input": self.history, "tools": offered if tools else [], "stream": stream}

    def user(self, text: str, *, picture: bool = False) -> None:
        image = [{"type": "input_image", "image_url": f"data:image/png;base64,{_PICTURE}"}]
        content = [*(image if picture else []), {"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": "user", "content": content})

    def read(self, events: list[Json]) -> tuple[str, list[tuple[str, str, Json]]]:
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[0]["type"] == "response.created"
        assert events[-1]["type"] == "response.completed"
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        added = [event for event in events if event["type"] == "response.output_item.added"]
        assert [event["output_index"] for event in added] == list(range(len(done)))
        output = events[-1]["response"]["output"]
        assert output == done
        deltas = [event["delta"] for event in events if event["type"].endswith("output_text.delta")]
        text, calls = self.read_whole({"output": output})
        assert "".join(deltas) == text
        return text, calls

    def read_whole(self, answer: Json) -> tuple[str, list[tuple[str, str, Json]]]:
        text, calls = "", []
        for item in answer["output"]:
            match item["type"]:
                case "message":
                    text += item["content"][0]["text"]
                case "custom_tool_call":
                    calls.append((item["call_id"], item["name"], {"input": item["input"]}))
                case "function_call":
                    name = item.get("namespace", "") + item["name"]
                    calls.append((item["call_id"], name, json.loads(item["arguments"])))
        return text, calls

    def keep(self, text: str, calls: list[tuple[str, str, Json]], results: Iterable[str]) -> None:
        for (id_, name, given), result in zip(calls, results, strict=True):
            self.history += [
                {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(given)},
                {"type": "function_call_output", "call_id": id_, "output": result},
            ]


class Gemini(Dialect):
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"

    async def post(self, body: Json) -> httpx2.Response:
        path = self.path if body.pop("stream") else "/v1beta/models/m:generateContent"
        return await self.http.post(self.server.url + path, json=body)

    def body(self, *, stream: bool, tools: bool = True) -> Json:
        offered = [("run_shell_command", _SHELL), ("mcp_dg-1_look_up", _LOOK)] if tools else []
        declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in offered]
        return {
            "contents": self.history,
            "tools": [{"functionDeclarations": declared}] if tools else [],
            "stream": stream,
        }

    def user(self, text: str, *, picture: bool = False) -> None:
        data = [{"inlineData": {"mimeType": "image/png", "data": _PICTURE}}]
        self.history.append({"role": "user", "parts": [*(data if picture else []), {"text": text}]})

    def read(self, events: list[Json]) -> tuple[str, list[tuple[str, str, Json]]]:
        assert [event["candidates"][0].get("finishReason") for event in events] == [
            *[None] * (len(events) - 1),
            "STOP",
        ]
        assert {event["responseId"] for event in events} == {events[0]["responseId"]}
        read = [self.read_whole(event) for event in events]
        assert not any(calls for _, calls in read[:-1])
        return "".join(text for text, _ in read), read[-1][1]

    def read_whole(self, answer: Json) -> tuple[str, list[tuple[str, str, Json]]]:
        assert answer["usageMetadata"]["totalTokenCount"] == 110
        parts = answer["candidates"][0]["content"]["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts)
        return text, [(call["id"], call["name"], call["args"]) for call in calls]

    def keep(self, text: str, calls: list[tuple[str, str, Json]], results: Iterable[str]) -> None:
        made = [{"functionCall": {"id": id_, "name": name, "args": given}} for id_, name, given in calls]
        self.history.append({"role": "model", "parts": [{"text": text}, *made]})
        answers = [
            {"functionResponse": {"id": id_, "name": name, "response": {"output": result}}}
            for (id_, name, _), result in zip(calls, results, strict=True)
        ]
        self.history.append({"role": "user", "parts": answers})


def events_in(stream: str) -> list[Json]:
    datas = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [json.loads(data) for data in datas if data != "[DONE]"]


def _function(call: Json) -> tuple[str, str, Json]:
    return call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


@pytest.fixture(params=[Chat, Messages, Responses, Gemini])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Dialect]:
    kind: type[Dialect] = request.param
    async with model_server() as server, httpx2.AsyncClient(timeout=30) as http:
        yield kind(server, http)


async def test_text_comes_word_by_word(client: Dialect) -> None:
    assert await client.run(play("say One two three.")) == ("One two three. ", [])


async def test_a_tool_is_found_by_pattern(client: Dialect) -> None:
    text, [(_, name, given)] = await client.run(
        play("say Looking.; call look_up$ word=one n=2", "say Got {results}."), "three"
    )
    assert name.endswith("look_up")
    assert given == {"word": "one", "n": 2}
    assert text == "Got three. "


async def test_parallel_calls_and_several_in_a_row(client: Dialect) -> None:
    script = play("call look_up word=a; call look_up word=b", "call look_up word=c", "say {results}")
    text, calls = await client.run(script, "1", "2", "3")
    assert [given["word"] for _, _, given in calls] == ["a", "b", "c"]
    assert len({id_ for id_, *_ in calls}) == 3
    assert text == "1 | 2 | 3 "


async def test_the_agents_own_shell_gets_all_that_it_requires(client: Dialect) -> None:
    _, [(_, name, given)] = await client.run(play("run echo yes; say I ran."), "done")
    assert name in {"shell", "Bash", "exec_command", "run_shell_command"}
    assert given == {"command": "echo yes", "why": "a command of the test"}


async def test_a_tool_that_is_not_offered_is_told(client: Dialect) -> None:
    text, calls = await client.run(play("call nothing_like_it"))
    assert calls == []
    assert "No tool to call nothing_like_it. Offered: " in text


async def test_a_stream_stands_at_a_gate(client: Dialect) -> None:
    client.user(play("say Before.; wait here; say After."))
    body = client.body(stream=True)
    async with client.http.stream("POST", client.server.url + client.path, json=body) as answer:
        lines = answer.aiter_lines()
        heard = ""
        while "Before." not in heard:
            heard += await anext(lines)
        await client.server.reached("here")
        assert "After." not in heard
        client.server.open("here")
        assert "After." in "".join([line async for line in lines])


async def test_a_stream_that_is_left_is_noted(client: Dialect) -> None:
    client.user(play("say Before.; wait never"))
    body = client.body(stream=True)
    async with client.http.stream("POST", client.server.url + client.path, json=body):
        await client.server.reached("never")
        assert not client.server.asks[0].is_over
    await client.server.until(lambda server: server.asks[0].is_over)
    assert client.server.asks[0].was_cut


async def test_an_error(client: Dialect) -> None:
    client.user(play("fail 429"))
    answer = await client.post(client.body(stream=True))
    assert answer.status_code == 429
    assert answer.json()["error"]["message"] == "The script says 429."


async def test_a_request_that_does_not_stream(client: Dialect) -> None:
    client.user(play("say Hello.; call look_up word=one"))
    answer = await client.post(client.body(stream=False))
    text, [(_, _, given)] = client.read_whole(answer.json())
    assert (text, given) == ("Hello.", {"word": "one"})


async def test_the_last_script_counts(client: Dialect) -> None:
    assert (await client.run(play("say One {turn}.")))[0] == "One 1. "
    client.user(f"An old one: {play('say Old.')} and now {play('say Two {turn}.')}")
    assert (await client.ask())[0] == "Two 2. "
    client.user("And no script, as agents add it.")
    assert (await client.ask())[0] == "Two 2. "


async def test_whoever_asks_for_a_title_gets_something_harmless(client: Dialect) -> None:
    client.user(f"A title for: {play('call look_up', 'say No.')}")
    assert await client.ask(tools=False) == ("Noted. ", [])


async def test_what_the_doctor_asks_for_is_understood(client: Dialect, tmp_path: Path) -> None:
    async with ProbePage() as page:
        words = Trials(tmp_path, page).prompt(*FIRST)
    client.user(f"<context>As agents add it.</context>\n{words}")
    text, calls = await client.ask()
    # Here nobody offers its tool.
    assert text.startswith("Hello. No tool to call dragoman_check$.")
    assert calls == []


async def test_pictures_are_counted(client: Dialect) -> None:
    client.user(play("say I see {pictures}."), picture=True)
    assert (await client.ask())[0] == "I see 1. "


async def test_every_request_is_kept(client: Dialect) -> None:
    _, [(id_, *_)] = await client.run(play("call look_up word=one", "say Done."), "two")
    first, second = client.server.scripted("look_up")
    assert (first.rounds, second.rounds) == (0, 1)
    assert second.results == {id_: "two"}
    assert first.id != second.id
    [(call, result)] = client.server.results("look_up")
    assert (call.id, call.input, result) == (id_, {"word": "one"}, "two")
    assert [tool.full_name for tool in first.tools][1].endswith("look_up")


async def test_what_is_no_model_is_noted_as_well() -> None:
    async with model_server() as server, httpx2.AsyncClient() as http:
        assert (await http.get(f"{server.url}/v1/models")).json()["data"][0]["id"] == "scripted"
        assert (await http.post(f"{server.url}/telemetry")).status_code == 404
        assert server.strays == ["POST /telemetry"]


async def test_a_gate_is_opened_by_hand() -> None:
    async with model_server() as server, httpx2.AsyncClient() as http:
        passing = asyncio.create_task(server._pass("a"))
        await server.reached("a")
        assert (await http.post(f"{server.url}/gates/a")).status_code == 204
        await asyncio.wait_for(passing, 10)
