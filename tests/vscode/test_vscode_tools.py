"""T through `dragoman vscode`: the editor's tools in the hands of an agent, over both ways to reach our tool server."""

import json
from pathlib import Path

import pytest

from fake_agent.steps import prompt
from vscode.editor import PERMISSIONS, Chat, editor_in, noted, returned, tool

pytestmark = pytest.mark.long

over_http_and_stdio = pytest.mark.parametrize(
    ("http", "transport"), [(True, "HttpServer"), (False, "StdioServer")], ids=["http", "stdio"]
)


@over_http_and_stdio
async def test_t4_t18_t23_rounds_of_parallel_calls_among_50_tools(
    tmp_path: Path, transport: str, *, http: bool
) -> None:
    async with editor_in(tmp_path, http=http) as (editor, _):
        many = [tool(f"tool_{number}") for number in range(50)]
        chat = Chat(editor, "fake", tools=[*many, *PERMISSIONS])
        rounds = [(0, 1, 2), (3,), (4, 20, 49)]
        steps = [
            ["all", [["call", f"tool_{number}", {"word": str(number)}] for number in numbers]]
            for numbers in rounds
        ]
        answer = await chat.say(prompt(["tools"], *steps, ["say", " done"]))
        said, seen = answer.text, []
        while answer.calls:
            seen.append([int(call["input"]["word"]) for call in answer.calls])
            # In reverse order: each result finds its own call.
            answer = await chat.say(
                *(returned(call, f"result {call['input']['word']}") for call in reversed(answer.calls))
            )
            said += answer.text
        called = [number for numbers in rounds for number in numbers]
        assert sorted(number for numbers in seen for number in numbers) == called
        # Several at once; how many of a round come together is the machine's affair.
        assert len(rounds) <= len(seen) < len(called)
        for number in called:
            assert said.count(f"<tool_{number} returned: result {number}>") == 1
        assert said.endswith(" done")
        offered = json.loads(said.partition("tools: ")[2].partition("]")[0] + "]")
        assert offered == [each["name"] for each in many]
        assert noted(tmp_path, "transport") == [{"kind": transport}]


async def test_t14_a_required_call_is_asked_for_once_more_and_then_an_error(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake", options={"toolMode": "required"})
        again = ["again", [["call", "look_up", {}], ["say", "seen"]]]
        [call] = (await chat.say(prompt(["say", "No need."], again))).calls
        assert len(noted(tmp_path, "session/prompt")) == 2
        # The editor drops what a failed response has said, so the error is text.
        answer = await chat.say(returned(call, "a result"))
        assert "A function call is required" in answer.text
        # The same chat without it goes on.
        chat.options = {"toolMode": "auto"}
        assert (await chat.say("hello")).text == 'echo: ["hello"]'


@over_http_and_stdio
async def test_t22_a_result_of_five_megabytes_is_cut_with_a_notice_and_no_pipe_dies(
    tmp_path: Path, transport: str, *, http: bool
) -> None:
    async with editor_in(tmp_path, http=http) as (editor, _):
        chat = Chat(editor, "fake")
        [call] = (await chat.say(prompt(["call", "look_up", {}]))).calls
        answer = await chat.say(returned(call, "12345" * 1_048_576))
        assert "This result was cut: it has 5,242,880 bytes" in answer.text
        # With all of it in the history, again and again.
        [call] = (await chat.say(prompt(["call", "look_up", {}]))).calls
        assert (await chat.say(returned(call, "short"))).text == "<look_up returned: short>"
        assert noted(tmp_path, "transport") == [{"kind": transport}]
