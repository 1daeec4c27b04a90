"""The bridge is killed in mid-chat and started again: the chat goes on as if nothing had happened."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from dragoman.process import Ledger, ProcessIdentity
from process.living import all_gone
from vscode.editor import Chat, editor_in, returned, soon

pytestmark = pytest.mark.long


async def test_h21_f13_after_a_kill_the_next_request_goes_on_where_the_chat_was(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        before = Chat(editor)
        await before.say("Which tools do you have?")
        other = Chat(editor)
        await other.say("another chat altogether")
        os.kill(process.pid, signal.SIGKILL)
        await soon(process.wait())
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, history=before.history)
        history = (await chat.say("!history")).text
        # Taken up by the agent itself, which has its session on disk: nothing had to be told again.
        assert "- user: `Which tools do you have?`" in history
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


async def test_i7_agents_are_written_down_and_what_a_crash_left_behind_is_ended(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "run" / "processes")
    left = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(600)", start_new_session=True
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    process, dead = ProcessIdentity.of(left.pid), ProcessIdentity.of(owner.pid)
    assert process is not None
    assert dead is not None
    # As a process of ours would have written it that is dead by now.
    ledger._owner = dead
    ledger.record(process, ("an-agent",))
    owner.kill()
    await owner.wait()
    try:
        async with editor_in(tmp_path) as (editor, _):
            await Chat(editor).say("hello")
            assert await soon(left.wait()) == -signal.SIGTERM
            [entry] = ledger.entries()
            assert entry.process.lives()
            await editor.ask("shutdown", {})
            assert ledger.entries() == []
            await soon(all_gone([entry.process.pid]))
    finally:
        if left.returncode is None:
            left.kill()
