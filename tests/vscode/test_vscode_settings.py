"""Settings of the editor that a running backend takes over, and what its agents inherit of the editor."""

from pathlib import Path

import pytest

from fake_agent.steps import open_gate, prompt
from vscode.editor import PERMISSIONS, Chat, editor_here, editor_in


async def test_settings_change_under_an_answer_which_goes_on(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        running = Chat(editor, "fake").begin(prompt(["think", "One."], ["gate", "go"], ["think", "Two."]))
        await running.until(lambda answer: answer.parts)
        editor.peer.notify("settings/didChange", {"features": {"data": True}, "logLevel": "debug"})
        quoted = await Chat(editor, "fake").say(prompt(["think", "Three."], ["say", "Done."]))
        open_gate(tmp_path, "go")
        await running.settled()
        thought = [part["value"] for part in running.parts if part["type"] == "thinking"]
        assert thought == ["One.", "Two."], "it keeps the features that it began with"
        assert "thinking" not in {part["type"] for part in quoted.parts}
        assert "Three." in quoted.text
        assert any(each["level"] == "debug" for each in editor.logged)
        before = len(editor.logged)
        editor.peer.notify("settings/didChange", {"logLevel": "error"})
        again = await Chat(editor, "fake").say(prompt(["think", "Four."], ["say", "Done."]))
        assert "Four." in again.text, "what is left out stays as it is"
        assert [each for each in editor.logged[before:] if each["level"] == "debug"] == []
        assert process.exit is None


async def test_agents_do_not_inherit_the_editors_own_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELECTRON_RUN_AS_NODE", "1")
    monkeypatch.setenv("VSCODE_IPC_HOOK", "/run/hook")
    monkeypatch.setenv("FOR_THE_AGENT", "yes")
    async with editor_here(tmp_path) as editor:
        chat = Chat(editor, tools=PERMISSIONS)
        asked = await chat.say("!run env")
        [call] = asked.calls
        answer = await chat.say(await editor.approve(call))
        assert "FOR_THE_AGENT=yes" in answer.text
        assert "VSCODE_" not in answer.text
        assert "ELECTRON_RUN_AS_NODE" not in answer.text
