"""The view of conversations: list, show, continue and delete what the journal has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import RemoteError
from fake_agent.steps import prompt
from vscode.editor import Chat, Editor, editor_here, editor_in, noted, soon


async def _listed(editor: Editor) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await editor.ask("conversations/list", {}))["conversations"]
    return found


async def test_a_conversation_is_listed_and_shown(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        assert await _listed(editor) == []
        await Chat(editor, "fake").say("Where is the milk?")
        [row] = await _listed(editor)
        assert (row["title"], row["modelId"], row["state"]) == ("Where is the milk?", "fake", "idle")
        assert row["keepsMemory"] is True
        shown = await editor.ask("conversations/show", {"id": row["id"]})
        assert shown["title"] == "Where is the milk?"
        assert "## You\n\nWhere is the milk?\n\n## Agent\n\necho:" in shown["text"]


async def test_conversations_of_other_folders_are_not_this_editors(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        await Chat(editor, "fake").say("Where is the milk?")
        [row] = await _listed(editor)
        editor.peer.notify("workspace/didChangeFolders", {"workspaceFolders": [str(tmp_path / "other")]})
        assert await _listed(editor) == []
        for method in ("show", "messages", "delete"):
            with pytest.raises(RemoteError, match="There is no conversation") as refused:
                await editor.ask(f"conversations/{method}", {"id": row["id"]})
            assert isinstance(refused.value.data, dict)
            assert refused.value.data["kind"] == "not_found"
        # Its folder may be any of them. Only in the first one does the agent go on with its memory.
        folders = [str(tmp_path / "other"), str(tmp_path)]
        editor.peer.notify("workspace/didChangeFolders", {"workspaceFolders": folders})
        [still] = await _listed(editor)
        assert (still["id"], still["keepsMemory"]) == (row["id"], False)
        assert "milk" in (await editor.ask("conversations/show", {"id": row["id"]}))["text"]


async def _told(editor: Editor) -> None:
    await soon(editor.conversations_changed.wait())
    editor.conversations_changed.clear()


async def _states(editor: Editor, *wanted: str) -> None:
    """What a view does: it reads the list again each time it is told to."""
    while [row["state"] for row in await _listed(editor)] != [*wanted]:
        await _told(editor)


async def test_the_editor_is_told_when_its_list_has_changed(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        chat = Chat(editor, "fake")
        await _states(editor)
        await chat.say("Where is the milk?")
        await _states(editor, "idle")
        running = chat.begin(prompt(["say", "so"], ["hang"]))
        await _states(editor, "answering")
        running.cancel()
        await _states(editor, "idle")
        [row] = await _listed(editor)
        await editor.ask("conversations/delete", {"id": row["id"]})
        await _states(editor)


async def test_an_editor_that_does_not_read_the_list_again_is_told_once(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        chat = Chat(editor, "fake")
        await chat.say("No list was read yet.")
        await _listed(editor)
        await chat.say("hello")
        await _told(editor)
        await chat.say("hello")
        await chat.say("hello")
        assert editor.conversation_changes == 1
        await _listed(editor)
        await chat.say("hello")
        await _told(editor)
        assert editor.conversation_changes == 2


async def test_what_another_process_stores_is_news_as_well(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor, editor_in(tmp_path) as (other, _):
        await _states(editor)
        await Chat(other, "fake").say("Where is the milk?")
        while not await _listed(editor):
            await _told(editor)


@pytest.mark.long
async def test_a_conversation_goes_on_after_a_restart_with_the_agents_memory(tmp_path: Path) -> None:
    async with editor_in(tmp_path, resume=True) as (editor, _):
        await Chat(editor, "fake").say(prompt(["say", "It is white."]))
    async with editor_in(tmp_path, resume=True) as (editor, _):
        [row] = await _listed(editor)
        assert row["state"] == "stored"
        stored = await editor.ask("conversations/messages", {"id": row["id"]})
        assert (stored["modelId"], stored["keepsMemory"]) == ("fake", True)
        assert stored["messages"][-1]["content"][-1] == {"type": "text", "value": "It is white."}
        chat = Chat(editor, "fake", history=stored["messages"])
        assert (await chat.say("And the butter?")).text == 'echo: ["And the butter?"]'
        # The agent took its own session up: nothing was replayed.
        [resumed] = noted(tmp_path, "session/resume")
        assert noted(tmp_path, "session/prompt")[-1]["sessionId"] == resumed["sessionId"]
        assert len(await _listed(editor)) == 1
        await chat.say("Thanks.")
        assert len(await _listed(editor)) == 1


async def test_without_stored_content_a_conversation_still_goes_on(tmp_path: Path) -> None:
    metadata = "[journal]\ncontent = 'metadata'\n"
    async with editor_here(tmp_path, resume=True, configured=metadata) as editor:
        await Chat(editor, "fake").say(prompt(["say", "It is white."]))
        [row] = await _listed(editor)
        shown = await editor.ask("conversations/show", {"id": row["id"]})
        assert "not stored" in shown["text"]
        assert "white" not in shown["text"]
        stored = await editor.ask("conversations/messages", {"id": row["id"]})
        chat = Chat(editor, "fake", history=stored["messages"])
        assert (await chat.say("And the butter?")).text == 'echo: ["And the butter?"]'
        assert len(await _listed(editor)) == 1


async def test_a_conversation_is_deleted_unless_it_is_under_way(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        chat = Chat(editor, "fake")
        await chat.say("hello")
        running = chat.begin(prompt(["say", "so"], ["hang"]))
        await running.until(lambda answer: answer.text)
        [row] = await _listed(editor)
        assert row["state"] == "answering"
        with pytest.raises(RemoteError, match="under way"):
            await editor.ask("conversations/delete", {"id": row["id"]})
        running.cancel()
        await running.settled()
        await _states(editor, "idle")
        assert await editor.ask("conversations/delete", {"id": row["id"]}) == {}
        assert await _listed(editor) == []
        with pytest.raises(RemoteError, match="There is no conversation"):
            await editor.ask("conversations/show", {"id": row["id"]})
