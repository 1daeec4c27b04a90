"""Chats through `dragoman vscode` with the demo agent: whole process trees, as a user has them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from vscode.editor import PERMISSIONS, TOOLS, Chat, editor_in, image, returned, tool

_SKIP = "The user chose to skip the tool call, they want to proceed without running it"

_DISABLED = (
    "ERROR while calling tool: Tool {} is currently disabled by the user, and cannot be called.\n"
    "Please check your input and try again."
)


def _by_name(calls: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {call["name"]: call for call in calls}


async def test_h1_t1_t3_t9_t13_a_conversation_with_tools(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        # T1: one call ends the response; the result reaches the agent, and the stream goes on.
        asked = await chat.say('!call look_up {"word": "dragoman"}')
        [call] = asked.calls
        assert (call["name"], call["input"]) == ("look_up", {"word": "dragoman"})
        answer = await chat.say(returned(call, "an interpreter"))
        assert answer.text.strip() == "ok: an interpreter"

        # T3 and T13: three at once, each with its own result, kept as it is.
        asked = await chat.say("!call look_up\n!call count\n!call show")
        calls = _by_name(asked.calls)
        assert set(calls) == {"look_up", "count", "show"}
        answer = await chat.say(
            returned(calls["show"], "a picture", image(b"\x89PNG")),
            returned(calls["count"], "it broke", isError=True),
            returned(calls["look_up"], "first"),
        )
        lines = answer.text.split("\n")
        assert lines[:2] == ["ok: first", "error: it broke"]
        assert lines[2].startswith("ok: a picture")

        # T9: a result and new words in one request: the turn goes on, then the words are prompted, once.
        [call] = (await chat.say("!call look_up")).calls
        answer = await chat.say(returned(call, "steered"), "what did I say before?")
        assert answer.text.startswith("ok: steered")
        assert answer.text.count("You said to me") == 1

        # H1: only what is new was prompted, each time.
        history = (await chat.say("!history")).text
        assert history.count("- user: `!call look_up {") == 1
        assert history.count("- user: `what did I say before?") == 1
        assert "conversation-so-far" not in history


@pytest.mark.long
async def test_t18_t23_50_tools_over_several_rounds(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        many = [tool(f"tool_{number}") for number in range(50)]
        chat = Chat(editor, tools=[*many, *PERMISSIONS])
        offered = await chat.say("Which tools do you have?")
        assert "50 of them yours" in offered.text
        assert "dragoman-agent-action" not in offered.text
        rounds = "\n!then\n".join(
            "\n".join(f'!call tool_{number} {{"word": "{number}"}}' for number in numbers)
            for numbers in ((0, 1), (2,), (3, 4, 49))
        )
        answer = await chat.say(rounds)
        seen: list[str] = []
        while answer.calls:
            seen += [call["name"] for call in answer.calls]
            answer = await chat.say(
                *(returned(call, f"result {call['input']['word']}") for call in answer.calls)
            )
        assert sorted(seen) == sorted(f"tool_{number}" for number in (0, 1, 2, 3, 4, 49))
        assert answer.text.split() == ["ok:", "result", "3", "ok:", "result", "4", "ok:", "result", "49"]


async def test_p1_p2_p3_p4_p8_permissions(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        ran = tmp_path / "ran"
        # P1: approved, run once.
        [call] = (await chat.say(f"!run echo x >> {ran}")).calls
        assert call["name"] == "dragoman-agent-action-execute"
        prepared = await editor.ask("tools/prepareInvocation", {"name": call["name"], "input": call["input"]})
        message = prepared["confirmationMessages"]["message"].replace("↩\n", "")
        assert message.startswith(f"Command:\n```sh\necho x >> {ran}\n\n```")
        assert str(tmp_path) in message.partition("Folder:")[2]
        assert list(call["input"]) == ["nonce"]
        granted = await editor.approve(call)
        assert "ok:" in (await chat.say(granted)).text
        assert ran.read_text() == "x\n"

        # P2: Skip is an ordinary result.
        [call] = (await chat.say(f"!run echo y >> {ran}")).calls
        answer = await chat.say(returned(call, _SKIP))
        assert "refused" in answer.text.lower() or "denied" in answer.text.lower()

        # Of one of the editor's own tools it is an error; and one that is off was never asked about.
        [call] = (await chat.say("!call look_up")).calls
        assert (await chat.say(returned(call, _SKIP))).text.startswith(f"error: {_SKIP}")
        [call] = (await chat.say(f"!run echo y >> {ran}")).calls
        answer = await chat.say(returned(call, _DISABLED.format(call["name"])))
        assert "You were not asked" in answer.text
        assert "denied by user" not in answer.text

        # P3: an old token, another call's token, an error with the token's shape, an edited input.
        [call] = (await chat.say(f"!run echo z >> {ran}")).calls
        stale = granted["content"][0]["value"]
        answer = await chat.say(returned(call, stale))
        assert "ok:" not in answer.text
        [call] = (await chat.say(f"!run echo z >> {ran}")).calls
        edited = await editor.approve(call, nonce="another")
        assert "ok:" not in (await chat.say(edited)).text
        # Of an edited input only the nonce counts: the dialog and what runs are the agent's own.
        [call] = (await chat.say(f"!run echo w >> {ran}")).calls
        innocent = {**call["input"], "title": "echo hello", "details": "harmless"}
        prepared = await editor.ask("tools/prepareInvocation", {"name": call["name"], "input": innocent})
        assert f"echo w >> {ran}" in prepared["confirmationMessages"]["message"].replace("↩\n", "")

        # P4: a new message instead of an answer: the turn is cancelled, then the message prompted.
        answer = await chat.say("Which tools do you have?")
        assert "I have" in answer.text

        # P8: two permissions and a call at once, answered independently.
        command = json.dumps({"command": f"echo v >> {ran}"})
        written = json.dumps({"path": "made.txt", "content": "made"})
        asked = await chat.say(f"!call look_up\n!call run_command {command}\n!call write_file {written}")
        calls = _by_name(asked.calls)
        assert set(calls) == {"dragoman-agent-action-execute", "dragoman-agent-action-edit", "look_up"}
        answer = await chat.say(
            returned(calls["dragoman-agent-action-execute"], _SKIP),
            await editor.approve(calls["dragoman-agent-action-edit"]),
            returned(calls["look_up"], "seen"),
        )
        assert (tmp_path / "made.txt").read_text() == "made"
        assert "denied" in answer.text
        assert "ok: seen" in answer.text
        # I4: what was refused, in whatever way, has not run.
        assert ran.read_text() == "x\n"


@pytest.mark.long
async def test_p6_without_permission_tools_the_policy_decides_and_is_told(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, tools=TOOLS)
        ran = tmp_path / "ran"
        answer = await chat.say(f"!run touch {ran}")
        assert "No person can be asked here." in answer.text
        assert not ran.exists()


async def test_c2_c3_c4_c5_c10_cancel_in_every_state_then_the_next_prompt_has_its_own_answer(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        await chat.say("Which tools do you have?")
        # C2: before the first token.
        silent = chat.begin("!hang")
        silent.cancel()
        await chat.end(silent)
        assert "I have" in (await chat.say("Which tools do you have?")).text
        # C3: in mid-stream.
        streaming = chat.begin("!slow")
        await streaming.until(lambda answer: "2" in answer.text)
        streaming.cancel()
        await chat.end(streaming)
        assert streaming.text.startswith("1 2")
        after = await chat.say("!history")
        assert "The history has" in after.text
        # C4: while a result is awaited there is no request: the person says something else.
        assert (await chat.say("!call look_up")).calls
        assert "I have" in (await chat.say("Which tools do you have?")).text
        # C5: the same while a permission is.
        [call] = (await chat.say(f"!run touch {tmp_path}/ran")).calls
        assert "I have" in (await chat.say("Which tools do you have?")).text
        late = await editor.approve(call)
        assert "nothing was allowed" in late["content"][0]["value"]
        assert not (tmp_path / "ran").exists()


@pytest.mark.long
async def test_h9_h10_i3_several_requests_in_two_conversations(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chats = [Chat(editor), Chat(editor)]
        # The same first words, at the same time: two conversations, each with its own agent.
        answers = [chat.begin("!call look_up") for chat in chats]
        counting = editor.ask("lm/provideTokenCount", {"modelId": "demo", "text": "words"})
        first, second = await asyncio.gather(
            *(chat.end(answer) for chat, answer in zip(chats, answers, strict=True))
        )
        assert await counting > 0
        assert first.calls[0]["callId"] != second.calls[0]["callId"]
        # Answered in the other order, and crosswise in time.
        later = chats[1].begin(returned(second.calls[0], "for the second"))
        sooner = chats[0].begin(returned(first.calls[0], "for the first"))
        assert (await chats[0].end(sooner)).text.strip() == "ok: for the first"
        assert (await chats[1].end(later)).text.strip() == "ok: for the second"
        for chat, own in zip(chats, ("for the first", "for the second"), strict=True):
            history = (await chat.say("!history")).text
            assert own in history
            assert history.count("!call look_up") == 1
            assert history.count("[result:") == 1


@pytest.mark.long
async def test_t12_tools_that_change_are_known_before_the_agent_goes_on(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        assert "look_up" in (await chat.say("Which tools do you have?")).text
        # Between prompts.
        chat.tools = [tool("appeared"), *PERMISSIONS]
        offered = (await chat.say("Which tools do you have?")).text
        assert "appeared" in offered
        assert "look_up" not in offered
        # Only a description.
        chat.tools = [{**tool("appeared"), "description": "Now it says more."}, *PERMISSIONS]
        assert "Now it says more" in (await chat.say("Which tools do you have?")).text
        # In a continuation.
        [call] = (await chat.say("!call appeared\n!then\n!call unlocked")).calls
        chat.tools = [*chat.tools, tool("unlocked")]
        answer = await chat.say(returned(call, "opened"))
        assert [call["name"] for call in answer.calls] == ["unlocked"]


async def test_h11_a_participant_without_tools_has_a_conversation_and_only_known_forms_are_side_requests(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, tools=[])
        await chat.say("my word is cobalt")
        # Refused, because an editor has no console, and the answer says so.
        answer = await chat.say(f"!run touch {tmp_path / 'ran'}")
        assert "No person can be asked here." in answer.text
        history = (await chat.say("!history")).text
        assert "my word is cobalt" in history
        assert "conversation-so-far" not in history, "it is one session"
        # What VS Code's own chat asks for beside it is no conversation.
        system = {"type": "text", "value": "Here are some examples of good titles:\n- Tree view"}
        wish = "Please write a brief title for the following request:\n\n!run touch x"
        title = Chat(editor, tools=[], history=[{"role": "system", "content": [system]}])
        answer = await title.say(wish)
        assert not any(part.get("mimeType") == "stateful_marker" for part in answer.parts)
        assert not (tmp_path / "ran").exists()
