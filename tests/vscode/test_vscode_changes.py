"""What an agent would change, through `dragoman vscode`: whole texts of the files of a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import RemoteError
from fake_agent.steps import prompt
from vscode.editor import Answer, Chat, Editor, editor_in
from vscode.edits import asks

pytestmark = pytest.mark.long


async def _changes(editor: Editor, answer: Answer) -> list[dict[str, Any]]:
    [call] = answer.calls
    assert (await editor.ask("tools/prepareInvocation", call))["hasChanges"]
    asked = await editor.ask("permissions/changes", call["input"])
    files: list[dict[str, Any]] = asked["files"]
    return files


async def test_a_question_has_the_whole_file_as_it_is_and_as_it_would_be(tmp_path: Path) -> None:
    notes, new = tmp_path / "notes.txt", tmp_path / "new.txt"
    text = "one\r\ntwo\r\n" + "x" * 90_000
    notes.write_bytes(text.encode())
    async with editor_in(tmp_path) as (editor, _):
        asked = await Chat(editor, "fake").say(prompt(asks((notes, "two", "2"), (new, None, "hello\n"))))
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
        shown = await _changes(editor, await Chat(editor, "fake").say(prompt(asks(*diffs))))
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
        [shown] = await _changes(editor, await Chat(editor, "fake").say(prompt(asks((notes, "saved", "x")))))
        assert (shown["before"], shown["after"]) == ("not saved", "not x")
