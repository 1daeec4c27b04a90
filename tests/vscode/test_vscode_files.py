"""Files of an agent through the editor: unsaved documents, questions against them, and an editor that does not help."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_agent.steps import prompt
from vscode.editor import Answer, Chat, editor_in, noted

pytestmark = pytest.mark.long


def _writes(chat: Chat) -> list[str]:
    return [method for method, _ in chat.editor.asked if method == "fs/writeTextFile"]


async def _question(chat: Chat, answer: Answer) -> str:
    [call] = answer.calls
    prepared = await chat.editor.ask("tools/prepareInvocation", call)
    message: str = prepared["confirmationMessages"]["message"]
    return message


async def _yes(chat: Chat, answer: Answer) -> Answer:
    [call] = answer.calls
    return await chat.say(await chat.editor.approve(call))


async def test_an_agent_reads_the_unsaved_text_and_the_disk_where_there_is_none(tmp_path: Path) -> None:
    dirty, clean = tmp_path / "dirty.txt", tmp_path / "clean.txt"
    dirty.write_text("saved\n")
    clean.write_text("on the disk\n")
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=True)
        editor.buffers[str(dirty)] = "one\nnot saved\n"
        steps = prompt(["read", str(dirty)], ["read", str(dirty), {"line": 2}], ["read", str(clean)])
        await Chat(editor, "fake").say(steps)
        contents = [each["content"] for each in noted(tmp_path, "file")]
        assert contents == ["one\nnot saved\n", "not saved\n", "on the disk\n"]


@pytest.mark.parametrize("declares", [False, True])
async def test_files_are_offered_where_the_editor_has_them(tmp_path: Path, *, declares: bool) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=declares)
        await Chat(editor, "fake").say("hello")
        [sent] = noted(tmp_path, "initialize")
        offered = {"readTextFile": declares, "writeTextFile": declares}
        assert sent["clientCapabilities"]["fs"] == offered


async def test_a_write_is_asked_about_against_the_unsaved_text_and_made_in_the_editor(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\ntwo\n")
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=True, activity=True)
        editor.buffers[str(notes)] = "one\nTWO, not saved\n"
        chat = Chat(editor, "fake")
        answer = await chat.say(prompt(["write", str(notes), "one\nthree\n"]))
        assert "TWO, not saved" in await _question(chat, answer)
        assert (notes.read_text(), _writes(chat)) == ("one\ntwo\n", []), "nothing before the yes"
        assert "done" in (await _yes(chat, answer)).text
        assert (notes.read_text(), editor.buffers[str(notes)]) == ("one\nthree\n", "one\nthree\n")
        [turn] = (await editor.ask("edits/list", {}))["turns"]
        before = {"turn": turn["turn"], "path": str(notes), "side": "before"}
        assert (await editor.ask("edits/text", before))["text"] == "one\nTWO, not saved\n"


async def test_a_text_that_changes_while_the_question_is_open_stays(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one")
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=True)
        chat = Chat(editor, "fake")
        answer = await chat.say(prompt(["write", str(notes), "two"]))
        editor.buffers[str(notes)] = "typed meanwhile"
        assert "not what it was when the change was shown" in (await _yes(chat, answer)).text
        assert (notes.read_text(), editor.buffers[str(notes)]) == ("one", "typed meanwhile")
        answer = await chat.say(prompt(["write", str(notes), "two"]))
        notes.write_text("changed on the disk")
        assert "not what it was when the change was shown" in (await _yes(chat, answer)).text
        assert notes.read_text() == "changed on the disk"


async def test_checks_come_before_the_editor_is_asked(tmp_path: Path) -> None:
    folder, outside = tmp_path / "ws", tmp_path / "outside.txt"
    folder.mkdir()
    outside.write_text("secret")
    (folder / "link.txt").symlink_to(outside)
    async with editor_in(folder, initialized=False) as (editor, _):
        await editor.initialize(folder, fs=True)
        chat = Chat(editor, "fake")
        for path in (outside, folder / "link.txt"):
            answer = await chat.say(prompt(["write", str(path), "mine"]))
            assert (answer.calls, "outside the workspace" in answer.text) == ([], True)
        [call] = (await chat.say(prompt(["write", str(folder / "new.txt"), "x"]))).calls
        refused = {"type": "tool_result", "callId": call["callId"], "content": []}
        assert "refused it" in (await chat.say(refused)).text
        assert (_writes(chat), outside.read_text()) == ([], "secret")


async def test_an_editor_that_refuses_is_an_error_for_the_agent_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one")
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=True)
        editor.refuses["fs/writeTextFile"] = "The file could not be saved."
        chat = Chat(editor, "fake")
        answer = await _yes(chat, await chat.say(prompt(["write", str(notes), "two"])))
        assert "The editor refused: The file could not be saved." in answer.text
        assert notes.read_text() == "one"


async def test_a_new_file_is_created_by_the_editor(tmp_path: Path) -> None:
    new = tmp_path / "deep" / "new.txt"
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, fs=True)
        chat = Chat(editor, "fake")
        await _yes(chat, await chat.say(prompt(["write", str(new), "hello"])))
        assert new.read_text() == "hello"
        asked = [params for method, params in editor.asked if method == "fs/writeTextFile"]
        assert asked == [{"path": str(new), "text": "hello", "expected": None}]
