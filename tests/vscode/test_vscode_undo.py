"""Undo of what an agent has changed, through `dragoman vscode`."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.jsonrpc import RemoteError
from fake_agent.steps import prompt
from vscode.editor import Answer, Chat, editor_in
from vscode.edits import approved, asks, edits_of, undo

pytestmark = pytest.mark.long


def _turn(answer: Answer) -> str:
    edits = edits_of(answer)
    assert edits is not None
    return str(edits["turn"])


def _edit(*paths: Path) -> list[Sequence[object]]:
    """The steps of an agent that asks about these files, and makes `after` of them."""
    diffs = [(path, "before" if path.exists() else None, "after") for path in paths]
    return [asks(*diffs), *(["put", str(path), "after"] for path in paths), ["say", "Done."]]


async def test_files_are_as_they_were_before_the_turn(tmp_path: Path) -> None:
    old, new, gone = (tmp_path / name for name in ("old.txt", "new.txt", "gone.sh"))
    old.write_bytes(b"one\r\ntwo\r\n")
    gone.write_text("precious")
    gone.chmod(0o750)
    steps = prompt(
        asks((old, "two", "2"), (new, None, "hello")),
        ["put", str(old), "one\r\n2\r\n"],
        ["put", str(new), "hello"],
        asks(kind="delete", locations=[{"path": str(gone)}]),
        ["put", str(gone)],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        turn = _turn(await approved(chat, await chat.say(steps)))
        assert await undo(editor, turn) == (["old.txt", "new.txt", "gone.sh"], {})
        assert (old.read_bytes(), new.exists(), gone.read_text()) == (b"one\r\ntwo\r\n", False, "precious")
        # A script that comes back can be run again.
        assert stat.S_IMODE(gone.stat().st_mode) == 0o750


async def test_a_second_undo_says_that_nothing_is_left_to_undo(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        turn = _turn(await approved(chat, await chat.say(prompt(*_edit(tmp_path / "new.txt")))))
        assert await undo(editor, turn) == (["new.txt"], {})
        for method in ("edits/undo", "edits/list"):
            with pytest.raises(RemoteError, match="were undone already: nothing is left to undo"):
                await editor.ask(method, {"turn": turn})
            with pytest.raises(RemoteError, match="not known any more"):
                await editor.ask(method, {"turn": "of an earlier process"})


async def test_files_that_have_changed_since_are_left_alone_and_named(tmp_path: Path) -> None:
    mine, theirs, dirty, made = (tmp_path / f"{name}.txt" for name in "mtdn")
    for path in (mine, theirs, dirty):
        path.write_text("before")
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True, fs=True)
        chat = Chat(editor, "fake")
        turn = _turn(await approved(chat, await chat.say(prompt(*_edit(mine, theirs, dirty, made)))))
        mine.write_text("after, and mine")
        made.unlink()
        editor.buffers = {str(dirty): "after, not saved"}
        undone, left = await undo(editor, turn)
        assert undone == ["t.txt"]
        assert [name for name, why in left.items() if "changed since" in why] == ["m.txt", "d.txt", "n.txt"]
        assert "not saved" in left["d.txt"]
        assert [path.read_text() for path in (mine, theirs, dirty)] == ["after, and mine", "before", "after"]


@pytest.mark.parametrize(
    ("before", "after", "is_in_editor"),
    [
        ("before\n", "after\n", True),
        ("one\r\n", "two\r\n", True),
        # An editor would make one kind of line end of two.
        ("one\r\ntwo\n", "1\r\ntwo\n", False),
        ("one\r\n", "two\n", False),
    ],
)
async def test_a_document_that_is_open_and_saved_is_changed_in_the_editor(
    tmp_path: Path, before: str, after: str, *, is_in_editor: bool
) -> None:
    """So its undo works, and it is not a file that has changed behind the editor's back."""
    shown, closed = tmp_path / "shown.txt", tmp_path / "closed.txt"
    for path in (shown, closed):
        path.write_bytes(before.encode())
    steps = [asks((shown, None, after), (closed, None, after))]
    puts = [["put", str(path), after] for path in (shown, closed)]
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True, fs=True)
        chat = Chat(editor, "fake")
        turn = _turn(await approved(chat, await chat.say(prompt(*steps, *puts))))
        editor.buffers = {str(shown): after}
        assert await undo(editor, turn) == (["shown.txt", "closed.txt"], {})
        assert [path.read_bytes().decode() for path in (shown, closed)] == [before, before]
        written = [params["path"] for method, params in editor.asked if method == "fs/writeTextFile"]
        assert written == ([str(shown)] if is_in_editor else [])


async def test_two_changes_of_one_file_are_taken_back_together(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one")
    steps = prompt(
        asks((notes, "one", "two")),
        ["put", str(notes), "two"],
        asks((notes, "two", "three")),
        ["put", str(notes), "three"],
    )
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake")
        news = edits_of(await approved(chat, await chat.say(steps)))
        assert news is not None
        assert await undo(editor, news["turn"]) == (["notes.txt"], {})
        assert notes.read_text() == "one"
