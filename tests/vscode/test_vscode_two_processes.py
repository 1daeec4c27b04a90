"""Two of our processes on one state folder, as two windows have them, and one chat in both."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fake_agent.steps import open_gate, prompt
from vscode.editor import Chat, editor_in, noted, returned

pytestmark = pytest.mark.long


def _owners(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "dragoman.db")) as database:
        return [owner for (owner,) in database.execute("SELECT owner FROM conversations ORDER BY used_at")]


async def test_h29_between_two_turns_any_process_goes_on_with_the_conversation(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        first = Chat(one)
        await first.say("!tools")
        assert _owners(tmp_path) == [""]
        # The other process began before this conversation, and knows it all the same.
        second = Chat(two, history=first.history)
        history = (await second.say("!history")).text
        assert "- user: `!tools`" in history
        assert "conversation-so-far" not in history, "the agent was told again what it knew"
        await second.say("!say in the second window")
        # Back in the first one, whose own agent has not heard of that.
        third = Chat(one, history=second.history)
        assert "in the second window" in (await third.say("!history")).text
        assert _owners(tmp_path) == [""], "it is still one conversation"


async def test_h29_a_conversation_under_way_in_one_process_is_forked_by_the_other(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        first = Chat(one, "fake")
        await first.say(prompt(["say", "hello"]))
        before = list(first.history)
        streaming = first.begin(prompt(["say", "in the first"], ["gate", "go on"], ["say", ", and on"]))
        await streaming.until(lambda answer: "in the first" in answer.text)
        assert [owner != "" for owner in _owners(tmp_path)] == [True]
        second = Chat(two, "fake", history=before)
        forked = await second.say("what now?")
        assert "what now?" in forked.text
        assert "hello" in forked.text, "it was told what came before"
        open_gate(tmp_path, "go on")
        assert (await first.end(streaming)).text == "in the first, and on", "the owner was not disturbed"
        assert _owners(tmp_path) == ["", ""]


async def test_h29_whoever_waits_gets_the_conversation_when_it_is_released(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        first = Chat(one)
        [call] = (await first.say('!call look_up {"word": "dragoman"}')).calls
        second = Chat(two, history=list(first.history))
        answer = second.begin(returned(call, "an interpreter"))
        # The window that had it is closed, as when an editor starts anew.
        await one.ask("shutdown", {})
        await second.end(answer)
        assert answer.text.strip()
        history = (await second.say("!history")).text
        assert "an interpreter" in history
        assert "!call look_up" in history
        assert _owners(tmp_path) == [""]


async def test_h29_a_lease_that_ran_out_is_as_good_as_a_release(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        first = Chat(one, "fake")
        await first.say(prompt(["say", "hello"]))
        streaming = first.begin(prompt(["say", "in the first"], ["gate", "go on"]))
        await streaming.until(lambda answer: "in the first" in answer.text)
        with closing(sqlite3.connect(tmp_path / "dragoman.db")) as database:
            database.execute("UPDATE conversations SET leased_until = 1")
            database.commit()
        second = Chat(two, "fake", history=[*first.history, streaming.message])
        assert "what now?" in (await second.say("what now?")).text
        assert len(_owners(tmp_path)) == 1, "it was taken over, not forked"
        # The one that had it notices when it wants to keep what was said, and lets go; its answer settles.
        open_gate(tmp_path, "go on")
        await streaming.settled()
        assert len(noted(tmp_path, "started")) == 2
        third = Chat(one, "fake", history=second.history)
        assert "still there?" in (await third.say("still there?")).text
        assert len(_owners(tmp_path)) == 1
