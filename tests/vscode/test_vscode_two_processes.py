"""Two of our processes on one state folder, as two windows have them, and one chat in both."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fake_agent.steps import open_gate, prompt
from process.living import all_gone
from vscode.editor import Chat, editor_in, noted, returned, soon

pytestmark = pytest.mark.long


def _owners(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "dragoman.db")) as database:
        return [owner for (owner,) in database.execute("SELECT owner FROM journal_heads ORDER BY used_at")]


async def until(is_so: Callable[[], object]) -> None:
    async def look() -> None:
        while not is_so():  # noqa: ASYNC110 - a file of another process tells nobody that it changes
            await asyncio.sleep(0.02)

    await soon(look())


async def test_h29_between_two_turns_any_process_goes_on_with_the_conversation(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        first = Chat(one)
        await first.say("Which tools do you have?")
        assert _owners(tmp_path) == [""]
        # The other process began before this conversation, and knows it all the same.
        second = Chat(two, history=first.history)
        history = (await second.say("!history")).text
        assert "- user: `Which tools do you have?`" in history
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
            database.execute("UPDATE journal_heads SET leased_until = 1")
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


async def test_h29_h14_a_repeated_answer_keeps_nobody_from_going_on(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        # With a key the answer is repeated, though it has arrived.
        first = Chat(one, "fake", options={"modelOptions": {"_idempotencyKey": "the second"}})
        await first.say(prompt(["say", "hello"]))
        said = await first.say(prompt(["say", "and on"]))
        again = one.respond("fake", first.history[:-1], first.tools, **first.options)
        assert (await again.settled()).text == said.text
        assert _owners(tmp_path) == [""]
        second = Chat(two, "fake", history=list(first.history))
        assert "what now?" in (await second.say("what now?")).text
        assert len(_owners(tmp_path)) == 1


async def test_h29_c1_stopped_while_the_agent_starts_it_is_still_ours(tmp_path: Path) -> None:
    async with editor_in(tmp_path, slow="open") as (one, _):
        chat = Chat(one, "fake")
        answer = chat.begin(prompt(["say", "one"]))
        await until(lambda: noted(tmp_path, "session/new"))
        answer.cancel()
        await answer.settled()
        open_gate(tmp_path, "open")
        assert "hello" in (await chat.say("hello")).text
        assert len(noted(tmp_path, "started")) == 1, "the agent that was starting is the one that answers"
        assert [each for each in one.logged if "another process" in each["message"]] == []


async def test_h29_b1_what_an_agent_says_behind_its_turn_is_told_by_the_process_that_heard_it(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (one, _), editor_in(tmp_path) as (two, _):
        first = Chat(one, "fake")
        await first.say(prompt(["after", [["say", "late news"]]], ["say", "hello"]))
        await until(lambda: _owners(tmp_path) != [""])
        second = Chat(two, "fake", history=list(first.history))
        assert "what now?" in (await second.say("what now?")).text
        assert len(_owners(tmp_path)) == 2, "the other process goes on without it"
        assert "late news" in (await first.say(prompt(["say", "on"]))).text


async def test_i1_i7_shutdown_behind_a_first_request_settles_it_and_starts_nothing(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (one, process):
        answer = Chat(one, "fake").begin(prompt(["say", "one"], ["hang"]))
        await one.ask("shutdown", {})
        assert answer.reply is not None, "it settled before the shutdown was answered"
        started = noted(tmp_path, "started")
        await soon(process.wait())
        assert noted(tmp_path, "started") == started
        await soon(all_gone([entry["pid"] for entry in started]))
