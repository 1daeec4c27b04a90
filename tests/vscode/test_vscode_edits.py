"""What an agent would change, and what it has changed, through `dragoman vscode`: whole texts, review and undo."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import RemoteError
from fake_agent.steps import prompt
from vscode.editor import Answer, Chat, Editor, editor_in

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_EDITS = "application/vnd.dragoman.edits+json"


def _ask(*diffs: tuple[Path, str | None, str], kind: str = "edit", **call: object) -> list[object]:
    content = [
        {"type": "diff", "path": str(path), "oldText": old, "newText": new} for path, old, new in diffs
    ]
    return ["ask", {"toolCallId": "e", "title": "Edit", "kind": kind, "content": content, **call}, _BOTH]


async def _changes(editor: Editor, answer: Answer) -> list[dict[str, Any]]:
    [call] = answer.calls
    assert (await editor.ask("tools/prepareInvocation", call))["hasChanges"]
    asked = await editor.ask("permissions/changes", call["input"])
    files: list[dict[str, Any]] = asked["files"]
    return files


async def _approved(chat: Chat, answer: Answer) -> Answer:
    """All questions of a turn are answered with yes."""
    while answer.calls:
        answer = await chat.say(*[await chat.editor.approve(call) for call in answer.calls])
    return answer


def _news(answer: Answer) -> dict[str, Any] | None:
    found = [part for part in answer.parts if part.get("mimeType") == _EDITS]
    return json.loads(base64.b64decode(found[-1]["data"])) if found else None


async def _undo(editor: Editor, turn: str) -> tuple[list[str], dict[str, str]]:
    outcome = await editor.ask("edits/undo", {"turn": turn})
    names = [Path(path).name for path in outcome["undone"]]
    return names, {Path(left["path"]).name: left["why"] for left in outcome["left"]}


async def test_a_question_has_the_whole_file_as_it_is_and_as_it_would_be(tmp_path: Path) -> None:
    notes, new = tmp_path / "notes.txt", tmp_path / "new.txt"
    text = "one\r\ntwo\r\n" + "x" * 90_000
    notes.write_bytes(text.encode())
    async with editor_in(tmp_path) as (editor, _):
        asked = await Chat(editor, "fake").say(prompt(_ask((notes, "two", "2"), (new, None, "hello\n"))))
        assert await _changes(editor, asked) == [
            {
                "path": str(notes),
                "before": text,
                "after": text.replace("two", "2"),
                "isWhole": True,
                "why": None,
            },
            {"path": str(new), "before": None, "after": "hello\n", "isWhole": True, "why": None},
        ]


async def test_a_passage_that_does_not_say_where_is_shown_as_a_passage(tmp_path: Path) -> None:
    notes, data = tmp_path / "notes.txt", tmp_path / "data.bin"
    notes.write_text("one one")
    data.write_bytes(b"\0\1")
    diffs = ((notes, "one", "1"), (notes, "three", "3"), (data, "a", "b"))
    async with editor_in(tmp_path) as (editor, _):
        shown = await _changes(editor, await Chat(editor, "fake").say(prompt(_ask(*diffs))))
        assert [(each["before"], each["after"], each["isWhole"]) for each in shown] == [
            ("one", "1", False),
            ("three", "3", False),
            ("a", "b", False),
        ]
        why = [each["why"] for each in shown]
        assert ["more than once" in why[0], "does not have" in why[1], "not text" in why[2]] == [True] * 3


async def test_a_question_that_is_closed_has_no_changes(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        with pytest.raises(RemoteError, match="no longer open"):
            await editor.ask("permissions/changes", {"nonce": "made up"})


async def test_the_changes_of_a_question_are_against_the_editors_unsaved_text(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("saved")
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=True)
        editor.buffers[str(notes)] = "not saved"
        [shown] = await _changes(editor, await Chat(editor, "fake").say(prompt(_ask((notes, "saved", "x")))))
        assert (shown["before"], shown["after"]) == ("not saved", "not x")


async def test_an_answer_with_edits_ends_with_them_and_they_can_be_reviewed_and_undone(
    tmp_path: Path,
) -> None:
    old, new, gone = (tmp_path / name for name in ("old.txt", "new.txt", "gone.txt"))
    old.write_bytes(b"one\r\ntwo\r\n")
    gone.write_text("precious")
    steps = prompt(
        _ask((old, "two", "2"), (new, None, "hello")),
        ["put", str(old), "one\r\n2\r\n"],
        ["put", str(new), "hello"],
        _ask(kind="delete", locations=[{"path": str(gone)}]),
        ["put", str(gone)],
        ["say", "Done."],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        first = await chat.say(steps)
        assert _news(first) is None, "the turn goes on"
        news = _news(await _approved(chat, first))
        assert news is not None
        changes = {str(old): "changed", str(new): "created", str(gone): "deleted"}
        assert {file["path"]: file["change"] for file in news["files"]} == changes
        [listed] = (await editor.ask("edits/list", {}))["turns"]
        assert (listed["turn"], listed["files"]) == (news["turn"], news["files"])
        text = {"turn": news["turn"], "path": str(old)}
        assert (await editor.ask("edits/text", {**text, "side": "before"}))["text"] == "one\r\ntwo\r\n"
        assert (await editor.ask("edits/text", {**text, "side": "after"}))["text"] == "one\r\n2\r\n"
        assert await _undo(editor, news["turn"]) == (["old.txt", "new.txt", "gone.txt"], {})
        assert (old.read_bytes(), new.exists(), gone.read_text()) == (b"one\r\ntwo\r\n", False, "precious")
        assert _news(await chat.say("and now?")) is None, "no edits in this turn"
        with pytest.raises(RemoteError, match="not known any more"):
            await editor.ask("edits/undo", {"turn": news["turn"]})


async def test_edits_of_an_earlier_answer_are_no_news_of_this_one(tmp_path: Path) -> None:
    """The first was asked for in agent mode, which shows no buttons."""
    notes = tmp_path / "notes.txt"
    notes.write_text("one")
    steps = prompt(_ask((notes, "one", "two")), ["put", str(notes), "two"], ["say", "Done."])
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake", options={"modelOptions": {"_dragomanActivity": False}})
        assert _news(await _approved(chat, await chat.say(steps))) is None
        chat.options = {}
        assert _news(await chat.say("and now?")) is None
        assert len((await editor.ask("edits/list", {}))["turns"]) == 1


async def test_undo_leaves_files_alone_that_have_changed_since_and_names_them(tmp_path: Path) -> None:
    mine, theirs, dirty, open_, made = (tmp_path / f"{name}.txt" for name in "mtdon")
    diffs = []
    for path in (mine, theirs, dirty, open_):
        path.write_text("before")
        diffs.append((path, "before", "after"))
    puts = [["put", str(path), "after"] for path in (mine, theirs, dirty, open_, made)]
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True, fs=True)
        chat = Chat(editor, "fake")
        answer = await _approved(chat, await chat.say(prompt(_ask(*diffs, (made, None, "after")), *puts)))
        news = _news(answer)
        assert news is not None
        mine.write_text("after, and mine")
        made.unlink()
        editor.buffers = {str(dirty): "after, not saved", str(open_): "after"}
        undone, left = await _undo(editor, news["turn"])
        assert undone == ["t.txt", "o.txt"]
        assert {name: "changed since" in why for name, why in left.items()} == {
            "m.txt": True,
            "d.txt": True,
            "n.txt": True,
        }
        assert "not saved" in left["d.txt"]
        assert [path.read_text() for path in (mine, theirs, dirty, open_)] == [
            "after, and mine",
            "before",
            "after",
            "before",
        ]
        # The open document was changed in the editor, whose own undo works then.
        assert [params["path"] for method, params in editor.asked if method == "fs/writeTextFile"] == [
            str(open_)
        ]


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
        assert _news(await Chat(editor, "fake").say(prompt(["update", reported], ["say", "Done."]))) is None
        assert (await editor.ask("edits/list", {}))["turns"] == []


@pytest.mark.parametrize("saved", ["mine", "two, and mine"])
async def test_what_a_user_saves_during_the_turn_is_not_the_agents(tmp_path: Path, saved: str) -> None:
    notes, other = tmp_path / "notes.txt", tmp_path / "other.txt"
    notes.write_text("one")
    other.write_text("a")
    steps = prompt(
        _ask((notes, "one", "two")),
        ["put", str(notes), "two"],
        _ask((other, "a", "b")),
        ["put", str(other), "b"],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        [first] = (await chat.say(steps)).calls
        second = await chat.say(await editor.approve(first))
        # While the second question waits.
        notes.write_text(saved)
        news = _news(await _approved(chat, second))
        assert news is not None
        assert [Path(file["path"]).name for file in news["files"]] == ["other.txt"]
        await _undo(editor, news["turn"])
        assert (notes.read_text(), other.read_text()) == (saved, "a")


async def test_two_changes_of_one_file_are_taken_back_together(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one")
    steps = prompt(
        _ask((notes, "one", "two")),
        ["put", str(notes), "two"],
        _ask((notes, "two", "three")),
        ["put", str(notes), "three"],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        news = _news(await _approved(chat, await chat.say(steps)))
        assert news is not None
        assert await _undo(editor, news["turn"]) == (["notes.txt"], {})
        assert notes.read_text() == "one"


async def test_in_agent_mode_the_last_edits_are_listed_and_no_part_is_sent(tmp_path: Path) -> None:
    new = tmp_path / "new.txt"
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        steps = prompt(_ask((new, None, "x")), ["put", str(new), "x"])
        answer = await _approved(chat, await chat.say(steps))
        assert _news(answer) is None
        [turn] = (await editor.ask("edits/list", {}))["turns"]
        assert turn["files"] == [{"path": str(new), "change": "created"}]


async def test_a_refused_edit_leaves_nothing_to_review(tmp_path: Path) -> None:
    new = tmp_path / "new.txt"
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        [call] = (await chat.say(prompt(_ask((new, None, "x"))))).calls
        refused = {"type": "tool_result", "callId": call["callId"], "content": []}
        assert _news(await chat.say(refused)) is None
        assert (await editor.ask("edits/list", {}))["turns"] == []
