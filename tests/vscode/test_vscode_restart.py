"""The bridge is killed in mid-chat and started again: the chat goes on as if nothing had happened."""

import os
import signal
from pathlib import Path

from vscode.editor import Chat, editor_in, returned, soon


async def test_h21_f13_after_a_kill_the_next_request_goes_on_where_the_chat_was(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        before = Chat(editor)
        await before.say("!tools")
        other = Chat(editor)
        await other.say("another chat altogether")
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, history=before.history)
        history = (await chat.say("!history")).text
        # Taken up by the agent itself, which has its session on disk: nothing had to be told again.
        assert "- user: `!tools`" in history
        assert "conversation-so-far" not in history
        assert "another chat" not in history


async def test_h21_f13_a_result_for_a_call_whose_agent_was_killed_reaches_the_next_one(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, process):
        before = Chat(editor)
        [call] = (await before.say('!call look_up {"word": "dragoman"}')).calls
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, history=before.history)
        answer = await chat.say(returned(call, "an interpreter"))
        assert answer.text.strip()
        history = (await chat.say("!history")).text
        assert "an interpreter" in history
        # A call of the new process has an id that no call of the old one had.
        [again] = (await chat.say("!call look_up")).calls
        assert again["callId"] != call["callId"]


async def test_h21_a_permission_that_was_open_is_asked_for_again_and_its_approval_is_worth_nothing(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, process):
        before = Chat(editor)
        [call] = (await before.say("!run touch made")).calls
        approved = await editor.approve(call)
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, history=before.history)
        await chat.say(approved)
        assert not (tmp_path / "made").exists()
