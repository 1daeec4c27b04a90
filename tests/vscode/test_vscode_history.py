"""H through `dragoman vscode`: what an editor's history may look like, and where each request goes."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fake_agent.steps import open_gate, prompt
from vscode.editor import Chat, editor_in, noted, returned, soon

pytestmark = pytest.mark.long


def _sessions(folder: Path) -> list[object]:
    """The session that each prompt to a fake agent went to."""
    return [params["sessionId"] for params in noted(folder, "session/prompt")]


def _heard(text: str) -> list[str]:
    """What the fake agent says that it heard."""
    heard: list[str] = json.loads(text.removeprefix("echo: "))
    return heard


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a consumer gives it back that knows nothing of our markers."""
    return {**message, "content": [part for part in message["content"] if part["type"] != "data"]}


async def test_h10_h14_chats_that_begin_alike_both_stream_to_their_end(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        words = prompt(["say", "one "], ["gate", "on"], ["say", "two"])
        first, second = Chat(editor, "fake"), Chat(editor, "fake")
        streaming = first.begin(words)
        await streaming.until(lambda answer: answer.text)
        other = second.begin(words)
        await other.until(lambda answer: answer.text)
        open_gate(tmp_path, "on")
        assert (await first.end(streaming)).text == (await second.end(other)).text == "one two"
        # Each is still its own.
        for chat in (first, second):
            assert _heard((await chat.say("and?")).text) == ["and?"]
        sessions = _sessions(tmp_path)
        assert len(set(sessions)) == 2
        assert sessions[:2] == sessions[2:]


async def test_h14_the_identical_request_is_prompted_once_and_both_settle_alike(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        await chat.say("hello")
        first = chat.begin(prompt(["say", "one "], ["gate", "on"], ["say", "two"]))
        await first.until(lambda answer: answer.text)
        again = chat.begin()
        await again.until(lambda answer: answer.text)
        open_gate(tmp_path, "on")
        await again.settled()
        await chat.end(first)
        assert first.parts == again.parts
        assert first.text == "one two"
        assert len(noted(tmp_path, "session/prompt")) == 2


async def test_h15_redo_right_after_the_answer_gives_another_one(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        await chat.say("hello")
        await chat.say(prompt(["say", "one"]))
        for prompted in (3, 4):
            chat.history.pop()
            assert (await chat.end(chat.begin())).text == "one"
            assert len(noted(tmp_path, "session/prompt")) == prompted
        # Each time by an agent that does not know the answer that was thrown away.
        first, second, third, fourth = _sessions(tmp_path)
        assert first == second
        assert len({first, third, fourth}) == 3


async def test_h15_redo_right_after_stop_gives_another_answer_and_not_the_piece_there_was(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        await chat.say("hello")
        stopped = chat.begin(prompt(["say", "one "], ["gate", "on"], ["say", "two"]))
        await stopped.until(lambda answer: answer.text)
        stopped.cancel()
        await stopped.settled()
        open_gate(tmp_path, "on")
        assert (await chat.end(chat.begin())).text == "one two"
        assert len(noted(tmp_path, "session/prompt")) == 3


async def test_h17_h26_the_editors_own_id_is_shared_by_sub_agents_and_summaries(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        shared = {"modelOptions": {"_conversationId": "the chat's"}}
        parent = Chat(editor, "fake", options=shared)
        [call] = (await parent.say(prompt(["call", "look_up", {}], ["say", " and done"]))).calls
        # H26: a sub-agent's request while the parent awaits a result.
        child = Chat(editor, "fake", options=shared)
        [own] = (await child.say(prompt(["call", "count", {}]))).calls
        assert (await child.say(returned(own, "7"))).text == "<count returned: 7>"
        answer = await parent.say(returned(call, "what the child found"))
        assert answer.text == "<look_up returned: what the child found> and done"
        assert noted(tmp_path, "session/cancel") == []
        assert len(set(_sessions(tmp_path))) == 2

        # H17: a chat of which only a summary is left; the agent gets it, and knows nothing else.
        other = Chat(editor, "fake", options={"modelOptions": {"_conversationId": "another chat's"}})
        await other.say("hello")
        summary = "<conversation-summary>\nThe milk was spoken of.\n</conversation-summary>"
        other.history = [{"role": "user", "content": [{"type": "text", "value": summary}]}]
        heard = _heard((await other.say("go on")).text)
        assert any("The milk was spoken of." in text for text in heard)
        assert heard[-1] == "go on"
        assert not any("hello" in text for text in heard)


async def test_h18_a_history_that_ends_with_an_answer_is_a_bad_request(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        await chat.say("hello")
        refused = await chat.begin().settled()
        assert (refused.kind, refused.parts) == ("bad_request", [])
        assert len(noted(tmp_path, "session/prompt")) == 1


async def test_h19_from_one_model_to_another_and_back(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        [call] = (await chat.say(prompt(["say", "I look."], ["call", "look_up", {"word": "milk"}]))).calls
        await chat.say(returned(call, "it is white"))
        # The other model knows all of it.
        chat.model = "demo"
        told = (await chat.say("what did I say before?")).text
        for piece in ("I look.", "look_up", "milk", "it is white"):
            assert piece in told
        [theirs] = (await chat.say("!call look_up")).calls
        await chat.say(returned(theirs, "white and sour"))
        # And the first what happened meanwhile, but not again what it knows.
        chat.model = "fake"
        heard = " ".join(_heard((await chat.say("and now?")).text))
        for piece in ("what did I say before?", "Before I joined", "white and sour", "and now?"):
            assert piece in heard
        assert noted(tmp_path, "session/prompt")[-1]["prompt"][-1]["text"] == "and now?"
        assert len(set(_sessions(tmp_path))) == 1


async def test_h20_the_same_prompt_in_two_workspaces_is_two_conversations(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chats = []
        for name in ("here", "there"):
            folder = tmp_path / name
            folder.mkdir()
            editor.peer.notify("workspace/didChangeFolders", {"workspaceFolders": [str(folder)]})
            chats.append(Chat(editor, "fake"))
            await chats[-1].say("hello")
        assert [params["cwd"] for params in noted(tmp_path, "session/new")] == [
            str(tmp_path / "here"),
            str(tmp_path / "there"),
        ]
        # The first one's own marker is worth nothing in the second folder.
        stranger = Chat(editor, "fake", history=[chats[0].history[-1]])
        await stranger.say("go on")
        assert len(set(_sessions(tmp_path))) == 3


async def test_h21_an_agent_that_keeps_nothing_is_told_everything_after_a_restart(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        before = Chat(editor, "fake")
        await before.say(prompt(["say", "remember the milk"]))
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake", history=before.history)
        heard = _heard((await chat.say("what was it?")).text)
        assert heard[-1] == "what was it?"
        assert "remember the milk" in heard[0]
        # From here on only what is new.
        assert _heard((await chat.say("thanks")).text) == ["thanks"]
        assert len(noted(tmp_path, "session/new")) == 2


async def test_h21_h28_an_agent_that_loads_its_session_says_nothing_of_it_again(tmp_path: Path) -> None:
    async with editor_in(tmp_path, load=True) as (editor, process):
        before = Chat(editor, "fake")
        await before.say(prompt(["say", "remember the milk"]))
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    async with editor_in(tmp_path, load=True) as (editor, _):
        chat = Chat(editor, "fake", history=before.history)
        assert (await chat.say("what was it?")).text == 'echo: ["what was it?"]'
        assert len(noted(tmp_path, "session/load")) == 1
        assert len(noted(tmp_path, "session/new")) == 1


async def test_h25_h27_refused_in_the_first_turn_or_stopped_in_mid_answer_the_chat_goes_on(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        # H25: the turn vanishes from the history, but for the words that opened it.
        chat = Chat(editor, "fake")
        assert (await chat.say(prompt(["call", "look_up", {}], ["say", "never said"]))).calls
        del chat.history[1:]
        assert (await chat.say("something else")).text == 'echo: ["something else"]'
        # H27: stopped; the editor has the beginning, with the first marker or without any.
        for keeps_markers in (True, False):
            stopped = chat.begin(prompt(["say", "one two "], ["hang"]))
            await stopped.until(lambda answer: answer.text)
            stopped.cancel()
            await stopped.settled()
            marker, _ = stopped.message["content"]
            chat.history.append({"role": "assistant", "content": [marker, {"type": "text", "value": "one"}]})
            if not keeps_markers:
                chat.history = list(map(_plain, chat.history))
            assert (await chat.say("and on")).text == 'echo: ["and on"]'
        assert len(set(_sessions(tmp_path))) == 1
        assert len(noted(tmp_path, "session/cancel")) == 3
