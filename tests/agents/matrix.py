"""Real agents × what a person does with them. Run by `make test-agents`; `make test` does not look here.

The model server plays what the prompt says (`model_server/script.py`), so a test says in one place what the model does
and what must come of it. Order between calls is the agent's affair: what is asserted is the outcome of each.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from agents.rows import ROWS
from agents.running import TOOLS, Client, Desk, Lines, answered, at_desk, served
from dragoman.agents.catalogue import shipped
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL
from model_server import play
from vscode.editor import PERMISSIONS, Answer, Chat, image, returned, tool

Json: TypeAlias = dict[str, Any]

pytestmark = pytest.mark.asyncio(loop_scope="module")

# VS Code's own words.
SKIPPED = "The user chose to skip the tool call, they want to proceed without running it"
CANCELLED = "The user cancelled the tool call."
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=list(ROWS),
)
async def office(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Desk]:
    async with at_desk(ROWS[request.param], tmp_path_factory.mktemp(request.param)) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def desk(office: Desk, request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    yield office
    if not getattr(request.node, "went_well", False):
        office.forget_chat()


async def result(call: Json) -> Json:
    """What the consumer's tools say."""
    return returned(call, f"<{call['name']} of {call['input'].get('word')}>")


def told(word: str) -> Callable[[Json], Awaitable[Json]]:
    async def give(call: Json) -> Json:
        return returned(call, word)

    return give


def said(row: str, text: str) -> str:
    """What the model said, and whatever else there is: each once, and no more than that."""
    return re.sub(f"^{ROWS[row].preface}", "", text).strip()


def action(desk: Desk, name: str) -> tuple[str, Path]:
    """Something that the agent asks about, and the file that is there if it was done."""
    file = desk.workspace / name
    words = f"run echo yes > {name}" if desk.row.asks_about == "run" else f"write {file} yes"
    return words, file


async def asked(chat: Chat, *actions: str) -> list[Json]:
    """The agent's questions about all of these, as far as it asks for them together."""
    answer = await chat.say(play("; ".join(actions), "say After {results}."))
    assert answer.calls, answer.text
    assert all(call["name"].startswith("dragoman-agent-action-") for call in answer.calls), answer.calls
    return answer.calls


def assert_own_results(desk: Desk, script: str, *words: str) -> None:
    """The model was given, for each of its calls, what the tool said to that call and to no other."""
    given = desk.models.results(script)
    assert sorted(call.input["word"] for call, _ in given) == sorted(words)
    for call, text in given:
        said = re.findall(r"<(\w+) of (\w+)>", text)
        assert [word for _, word in said] == [call.input["word"]]
        assert call.tool.full_name.endswith(said[0][0])


async def assert_goes_on(chat: Chat, word: str) -> None:
    """The next prompt gets its own answer, and nothing else."""
    answer = await chat.say(play(f"say Own answer {word}."))
    assert said(chat.model, answer.text) == f"Own answer {word}."
    assert not answer.calls


def assert_refused(desk: Desk, answer: Answer) -> None:
    """The turn has gone on or has ended, and says so; nobody takes it for a failure of the agent."""
    print(f"{desk.row.name} after a refusal: {answer.text!r}")
    assert answer.text.strip()
    assert not answer.calls
    assert "**Error:**" not in answer.text


# Through `dragoman vscode`.


async def test_text(desk: Desk) -> None:
    answer = await desk.chat.say(play("say Hello from the model."))
    assert said(desk.row.name, answer.text) == "Hello from the model."
    assert not answer.calls


async def test_one_tool(desk: Desk) -> None:
    chat = desk.chat
    answer = await chat.say(play("say Looking.; call look_up$ word=one", "say Got {results}."))
    text, calls = await answered(chat, answer, result)
    # A call comes another way than the words before it, and may overtake them: opencode's does.
    assert text.count("Looking.") == 1
    assert [(call["name"], call["input"]) for call in calls] == [("look_up", {"word": "one"})]
    assert text.count("<look_up of one>") == 1
    # All four of the consumer's tools were offered, and none of those that are for us.
    offered = [each.full_name for each in desk.models.scripted("word=one")[0].tools]
    assert [sum(each["name"] in name for name in offered) for each in TOOLS] == [1, 1, 1, 1], offered
    assert not [name for name in offered if "dragoman" in name]


async def test_two_tools_in_a_row(desk: Desk) -> None:
    chat = desk.chat
    answer = await chat.say(play("call look_up$ word=a", "call count$ word=b", "say Got {results}."))
    text, calls = await answered(chat, answer, result)
    assert [call["name"] for call in calls] == ["look_up", "count"]
    assert text.count("<look_up of a>") == text.count("<count of b>") == 1
    assert_own_results(desk, "call count$ word=b]]", "a", "b")


async def test_three_tools_in_parallel(desk: Desk) -> None:
    chat = desk.chat
    script = play("call look_up$ word=a; call count$ word=b; call show$ word=c", "say Got {results}.")
    text, calls = await answered(chat, await chat.say(script), result)
    assert sorted(call["name"] for call in calls) == ["count", "look_up", "show"]
    assert len({call["callId"] for call in calls}) == 3
    for words in ("<look_up of a>", "<count of b>", "<show of c>"):
        assert text.count(words) == 1
    assert_own_results(desk, "call show$ word=c", "a", "b", "c")
    # And one tool three times: the calls differ in nothing but what they are given.
    script = play("call show$ word=x; call show$ word=y; call show$ word=z", "say Got {results}.")
    _, calls = await answered(chat, await chat.say(script), result)
    assert sorted(call["input"]["word"] for call in calls) == ["x", "y", "z"]
    assert_own_results(desk, "call show$ word=z", "x", "y", "z")


async def test_tools_changed(desk: Desk) -> None:
    chat = desk.chat
    await chat.say(play("say Before."))
    chat.tools = [*TOOLS[1:], tool("brand_new"), *PERMISSIONS]
    answer = await chat.say(play("call brand_new$ word=x", "say Got {results}."))
    text, calls = await answered(chat, answer, result)
    assert [call["name"] for call in calls] == ["brand_new"], text
    assert "<brand_new of x>" in text
    # What was taken away is not called, whatever the model thinks.
    answer = await chat.say(play("call look_up$ word=x", "say Not called: {results}."))
    text, calls = await answered(chat, answer, result)
    assert calls == []
    assert "No tool to call look_up" in text or "Not called: " in text


async def question(desk: Desk, call: Json) -> str:
    """What a person is shown, the dialog's title first: the call itself has only a nonce."""
    permission_requested = {"name": call["name"], "input": call["input"]}
    prepared = await desk.editor.ask("tools/prepareInvocation", permission_requested)
    shown = prepared["confirmationMessages"]
    return f"{shown['title']}\n{shown['message']}".replace("↩\n", "")


async def test_permission_allowed(desk: Desk) -> None:
    words, file = action(desk, "allowed.txt")
    [call] = await asked(desk.chat, words)
    assert call["name"].endswith("execute" if desk.row.asks_about == "run" else "edit")
    assert "allowed.txt" in await question(desk, call)
    assert not file.exists()
    answer = await desk.chat.say(await desk.editor.approve(call))
    assert file.read_text().strip() == "yes"
    assert "After" in answer.text


async def test_permission_refused(desk: Desk) -> None:
    words, file = action(desk, "refused.txt")
    [call] = await asked(desk.chat, words)
    answer = await desk.chat.say(returned(call, "No, not that.", isError=True))
    assert_refused(desk, answer)
    await assert_goes_on(desk.chat, "refused")
    assert not file.exists()


async def test_permission_skipped(desk: Desk) -> None:
    words, file = action(desk, "skipped.txt")
    [call] = await asked(desk.chat, words)
    answer = await desk.chat.say(returned(call, SKIPPED))
    assert_refused(desk, answer)
    await assert_goes_on(desk.chat, "skipped")
    assert not file.exists()


async def test_permission_cancelled(desk: Desk) -> None:
    words, file = action(desk, "cancelled.txt")
    [call] = await asked(desk.chat, words)
    answer = await desk.chat.say(returned(call, CANCELLED), play("say Own answer."))
    assert said(desk.row.name, answer.text) == "Own answer."
    assert not answer.calls
    await assert_goes_on(desk.chat, "cancelled")
    assert not file.exists()


async def test_one_of_two_denied(desk: Desk) -> None:
    (first, wanted), (second, unwanted) = action(desk, "wanted.txt"), action(desk, "unwanted.txt")

    async def decide(call: Json) -> Json:
        is_wanted = unwanted.name not in await question(desk, call)
        return await desk.editor.approve(call) if is_wanted else returned(call, SKIPPED)

    chat = desk.chat
    answer = await chat.say(play(f"{first}; {second}", "say After {results}."))
    _, calls = await answered(chat, answer, decide)
    assert len(calls) == 2
    await assert_goes_on(chat, "denied")
    assert not unwanted.exists()
    assert wanted.exists()


async def test_cancel_in_mid_stream(desk: Desk) -> None:
    chat, gate = desk.chat, "mid-stream"
    answer = chat.begin(play(f"say Begin of it.; wait {gate}; say After all."))
    await desk.models.reached(gate)
    await answer.until(lambda it: "Begin" in it.text)
    answer.cancel()
    await chat.end(answer)
    assert "After" not in answer.text
    await assert_goes_on(chat, "stream")
    # The model was left, too.
    await desk.models.until(lambda models: all(ask.is_over for ask in models.scripted(gate)))
    desk.models.open(gate)


async def test_cancel_with_a_call_open(desk: Desk) -> None:
    chat = desk.chat
    answer = await chat.say(play("call look_up$ word=open", "say After {results}."))
    assert [call["name"] for call in answer.calls] == ["look_up"]
    await assert_goes_on(chat, "call")
    # And it still has its tools.
    answer = await chat.say(play("call look_up$ word=after", "say Got {results}."))
    text, _ = await answered(chat, answer, result)
    assert "<look_up of after>" in text


async def test_cancel_with_a_permission_open(desk: Desk) -> None:
    words, file = action(desk, "open.txt")
    [call] = await asked(desk.chat, words)
    await assert_goes_on(desk.chat, "permission")
    # The person says yes when it is too late.
    await desk.editor.approve(call)
    await assert_goes_on(desk.chat, "too late")
    assert not file.exists()


async def test_image(desk: Desk) -> None:
    chat = desk.chat
    words = {"type": "text", "value": play("say I see {pictures}.")}
    chat.history.append({"role": "user", "content": [image(_PIXEL), words]})
    answer = await chat.end(chat.begin())
    assert "I see 1." in answer.text


async def test_slow_person(desk: Desk) -> None:
    chat = desk.chat
    replies = ["call ask_person$ word=slow", "say Got {results}."]
    if desk.row.gets_ticket:
        # It cannot wait so long, and comes back with the ticket that it was given.
        replies.insert(1, f"call {WAIT_TOOL}$ ticket=1")
    answer = await chat.say(play(*replies))
    await asyncio.sleep(desk.row.slow_seconds)
    text, calls = await answered(chat, answer, result)
    assert [call["name"] for call in calls] == ["ask_person"]
    assert "<ask_person of slow>" in text
    assert ("ticket" in text) == desk.row.gets_ticket


async def test_agent_killed_in_mid_turn(desk: Desk) -> None:
    chat, gate = desk.new_chat(), "killed"
    answer = chat.begin(play(f"say Begin of it.; wait {gate}; say After all."))
    await desk.models.reached(gate)
    await answer.until(lambda it: "Begin of it." in it.text)
    assert desk.kill_agents()
    desk.forget_chat()
    await chat.end(answer)
    assert "Begin of it." in answer.text
    assert "Error" in answer.text
    desk.models.open(gate)
    await assert_goes_on(chat, "killed")


async def test_taken_up_after_a_restart(desk: Desk) -> None:
    before = desk.new_chat()
    answer = await before.say(play("call look_up$ word=remember", "say Got {results}."))
    await answered(before, answer, result)
    await asyncio.sleep(desk.row.rest_seconds)
    await desk.open_again()
    chat = desk.new_chat(before.history)
    answer = await chat.say(play("call count$ word=again", "say Turn {turn} got {results}."))
    text, calls = await answered(chat, answer, result)
    assert [call["name"] for call in calls] == ["count"], text
    assert "<count of again>" in text
    # Nothing of the turn before is in this answer.
    assert text.count("Got ") == 0, text
    # The agent knows what was said before, by itself or because it was told.
    last = desk.models.scripted("word=again")[-1]
    assert "<look_up of remember>" in str(last.body)
    # It is told only if it cannot take a session up.
    facts = shipped()[desk.row.agent].facts if desk.row.agent else None
    takes_up = facts is None or facts.resumes or facts.loads
    assert ("conversation-so-far" in str(last.body)) != takes_up


# Through `dragoman serve`.


def items(output: list[Json], kind: str) -> list[Json]:
    return [item for item in output if item["type"] == kind]


async def test_http_function(desk: Desk) -> None:
    async with served(desk) as http:
        # One name is the beginning of the other.
        client = Client(http, desk.row.name, "look_up", "look_up_all")
        # A client that could show a question, and one that could not: neither is asked about its own functions.
        for tool, headers in (("look_up", {"x-dragoman-approvals": "items"}), ("look_up_all", {})):
            output = await client.create(play(f"call {tool}$ word=http", "say Got {results}."), **headers)
            assert {item["type"] for item in output} <= {"message", "function_call", "reasoning"}, output
            [call] = items(output, "function_call")
            assert (call["name"], json.loads(call["arguments"])) == (tool, {"word": "http"})
            given = {
                "type": "function_call_output",
                "call_id": call["call_id"],
                "output": f"<{tool} of http>",
            }
            output = await client.create([given], **headers)
            assert not items(output, "function_call")
            text = "".join(part["text"] for item in items(output, "message") for part in item["content"])
            assert text.count(f"<{tool} of http>") == 1


# Through `dragoman chat --json`.


def always(decision: str) -> Callable[[Json], str]:
    return lambda _event: decision


def outcomes(lines: Lines) -> list[str]:
    return sorted(event["result"]["outcome"] for event in lines.of("tool_finished"))


async def test_chat_tools(desk: Desk) -> None:
    for name in ("one", "two", "three", "four", "five"):
        (desk.workspace / f"{name}.txt").write_text(f"<the word {name}>")
    lines = Lines(
        desk,
        play(
            # Ours: some agents have a `read_file`, too.
            "say Reading.; call dg.+read_file$ path=one.txt",
            "call dg.+read_file$ path=two.txt",
            "call dg.+read_file$ path=three.txt; call dg.+read_file$ path=four.txt; call dg.+read_file$ path=five.txt",
            "say Got {results}.",
        ),
        always("allow"),
    )
    assert await lines.run() == 0
    assert lines.text.count("Reading.") == 1
    for call, text in desk.models.results("path=five.txt"):
        assert f"<the word {call.input['path'].removesuffix('.txt')}>" in text
    for name in ("one", "two", "three", "four", "five"):
        assert lines.text.count(f"<the word {name}>") == 1
    assert outcomes(lines) == ["ok"] * 5
    assert lines.of("ended")


async def test_chat_permission_allowed(desk: Desk) -> None:
    words, file = action(desk, "chat-allowed.txt")
    lines = Lines(desk, play(words, "say After {results}."), always("allow"))
    assert await lines.run() == 0
    assert len(lines.of("asked")) == 1
    assert file.read_text().strip() == "yes"
    assert "After" in lines.text


async def test_chat_permission_refused(desk: Desk) -> None:
    words, file = action(desk, "chat-refused.txt")
    lines = Lines(desk, play(words, "say After {results}."), always("deny"))
    await lines.run()
    assert len(lines.of("asked")) == 1
    assert outcomes(lines) == ["denied"]
    assert not file.exists()
