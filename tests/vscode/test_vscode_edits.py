"""What an agent has changed in a turn, through `dragoman vscode`: what is offered for review, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_agent.steps import prompt
from vscode.editor import Chat, editor_in
from vscode.edits import approved, asks, edits_of, undo

pytestmark = pytest.mark.long


async def test_an_answer_with_edits_ends_with_them_and_they_can_be_reviewed(tmp_path: Path) -> None:
    old, new, gone = (tmp_path / name for name in ("old.txt", "new.txt", "gone.txt"))
    old.write_bytes(b"one\r\ntwo\r\n")
    gone.write_text("precious")
    steps = prompt(
        asks((old, "two", "2"), (new, None, "hello")),
        ["put", str(old), "one\r\n2\r\n"],
        ["put", str(new), "hello"],
        asks(kind="delete", locations=[{"path": str(gone)}]),
        ["put", str(gone)],
        ["say", "Done."],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        first = await chat.say(steps)
        assert edits_of(first) is None, "the turn goes on"
        news = edits_of(await approved(chat, first))
        assert news is not None
        changes = {str(old): "changed", str(new): "created", str(gone): "deleted"}
        assert {file["path"]: file["change"] for file in news["files"]} == changes
        [listed] = (await editor.ask("edits/list", {}))["turns"]
        assert (listed["turn"], listed["files"]) == (news["turn"], news["files"])
        assert (await editor.ask("edits/list", {"turn": news["turn"]}))["turns"] == [listed]
        text = {"turn": news["turn"], "path": str(old)}
        assert (await editor.ask("edits/text", {**text, "side": "before"}))["text"] == "one\r\ntwo\r\n"
        assert (await editor.ask("edits/text", {**text, "side": "after"}))["text"] == "one\r\n2\r\n"
        assert edits_of(await chat.say("and now?")) is None, "no edits in this turn"


async def test_edits_of_an_earlier_answer_are_no_news_of_this_one(tmp_path: Path) -> None:
    """The first was asked for in agent mode, which shows no buttons."""
    notes = tmp_path / "notes.txt"
    notes.write_text("one")
    steps = prompt(asks((notes, "one", "two")), ["put", str(notes), "two"], ["say", "Done."])
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake", options={"modelOptions": {"_dragomanActivity": False}})
        assert edits_of(await approved(chat, await chat.say(steps))) is None
        chat.options = {}
        assert edits_of(await chat.say("and now?")) is None
        assert len((await editor.ask("edits/list", {}))["turns"]) == 1


@pytest.mark.parametrize("old", ["evil", None])
async def test_what_an_agent_only_reports_is_not_offered_to_undo(tmp_path: Path, old: str | None) -> None:
    """Undo would write the agent's words into any file, or delete it."""
    precious = tmp_path / "precious.txt"
    precious.write_text("new")
    diff = {"type": "diff", "path": str(precious), "oldText": old, "newText": "new"}
    reported = {
        "sessionUpdate": "tool_call",
        "toolCallId": "w",
        "title": "Write",
        "kind": "edit",
        "status": "completed",
        "content": [diff],
    }
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        assert (
            edits_of(await Chat(editor, "fake").say(prompt(["update", reported], ["say", "Done."]))) is None
        )
        assert (await editor.ask("edits/list", {}))["turns"] == []


@pytest.mark.parametrize("saved", ["mine", "two, and mine"])
async def test_what_a_user_saves_during_the_turn_is_not_the_agents(tmp_path: Path, saved: str) -> None:
    notes, other = tmp_path / "notes.txt", tmp_path / "other.txt"
    notes.write_text("one")
    other.write_text("a")
    steps = prompt(
        asks((notes, "one", "two")),
        ["put", str(notes), "two"],
        asks((other, "a", "b")),
        ["put", str(other), "b"],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        [first] = (await chat.say(steps)).calls
        second = await chat.say(await editor.approve(first))
        # While the second question waits.
        notes.write_text(saved)
        news = edits_of(await approved(chat, second))
        assert news is not None
        assert [Path(file["path"]).name for file in news["files"]] == ["other.txt"]
        await undo(editor, news["turn"])
        assert (notes.read_text(), other.read_text()) == (saved, "a")


async def test_in_agent_mode_the_last_edits_are_listed_and_no_part_is_sent(tmp_path: Path) -> None:
    new = tmp_path / "new.txt"
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        steps = prompt(asks((new, None, "x")), ["put", str(new), "x"])
        answer = await approved(chat, await chat.say(steps))
        assert edits_of(answer) is None
        [turn] = (await editor.ask("edits/list", {}))["turns"]
        assert turn["files"] == [{"path": str(new), "change": "created"}]


async def test_a_refused_edit_leaves_nothing_to_review(tmp_path: Path) -> None:
    new = tmp_path / "new.txt"
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        [call] = (await chat.say(prompt(asks((new, None, "x"))))).calls
        refused = {"type": "tool_result", "callId": call["callId"], "content": []}
        assert edits_of(await chat.say(refused)) is None
        assert (await editor.ask("edits/list", {}))["turns"] == []
