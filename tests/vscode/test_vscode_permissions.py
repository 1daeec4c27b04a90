"""Permissions through `dragoman vscode`: what the dialog is made of, what proves a yes, and what a lasting one covers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import RemoteError
from fake_agent.steps import prompt
from vscode.editor import Chat, Editor, editor_in, returned, soon

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_ALLOWED = "<p: the-allow_once>"


def _ask(**call: object) -> str:
    return prompt(["ask", {"toolCallId": "p", "title": "Do it", **call}, _BOTH])


def _run(command: str) -> str:
    return _ask(kind="execute", rawInput={"command": command})


async def _prepared(editor: Editor, call: dict[str, Any]) -> Any:
    return await editor.ask("tools/prepareInvocation", {"name": call["name"], "input": call["input"]})


async def test_q1_the_dialog_has_everything_and_the_call_has_only_the_nonce(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        [call] = (await chat.say(_run("make" + " " * 100 + "; rm -rf x"))).calls
        assert list(call["input"]) == ["nonce"]
        prepared = await _prepared(editor, call)
        message = prepared["confirmationMessages"]["message"].replace("↩\n", "")
        # Behind the command an empty line: VS Code's modal joins what follows to the last line of a block.
        assert message.startswith("Command:\n```sh\nmake⟨100 spaces⟩; rm -rf x\n\n```\n\n")
        assert f"\nFolder: {tmp_path}\nAgent: " in message
        assert prepared["modal"]["detail"].startswith("Command:\n    make⟨100 spaces⟩; rm -rf x\n\nFolder:\n")
        assert (prepared["isSensitive"], prepared["isCut"]) == (False, False)


async def test_q3_a_question_that_is_cut_can_be_seen_whole(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        command = f"echo {'a' * 9_000}; rm -rf x"
        [call] = (await Chat(editor, "fake").say(_run(command))).calls
        prepared = await _prepared(editor, call)
        assert prepared["isCut"]
        assert "; rm -rf x" in prepared["confirmationMessages"]["message"]
        whole = await editor.ask("permissions/show", {"nonce": call["input"]["nonce"]})
        assert command in whole["text"].replace("↩\n", "")
        assert (await editor.ask("permissions/show", {"nonce": "made up"}))["title"] == "No longer open"


@pytest.mark.parametrize("path", [".vscode/settings.json", "../outside.txt", ".env"])
async def test_d3_a_sensitive_action_is_granted_only_with_the_extensions_own_dialog(
    tmp_path: Path, path: str
) -> None:
    """In Bypass Approvals and Autopilot VS Code calls `invoke` without a dialog of its own."""
    folder = tmp_path / "ws"
    folder.mkdir()
    async with editor_in(folder) as (editor, _):
        chat = Chat(editor, "fake")
        content = [{"type": "diff", "path": str(folder / path), "oldText": None, "newText": "x"}]
        [call] = (await chat.say(_ask(kind="edit", content=content))).calls
        assert call["name"] == "dragoman-agent-action-sensitive"
        assert (await _prepared(editor, call))["isSensitive"]
        unconfirmed = await editor.ask("tools/invoke", {"name": call["name"], "input": call["input"]})
        assert "not confirmed" in unconfirmed["content"][0]["value"]
        assert _ALLOWED not in (await chat.say(returned(call, unconfirmed["content"][0]))).text
        [again] = (await chat.say(_ask(kind="edit", content=content))).calls
        asked = {"name": again["name"], "input": again["input"], "confirmed": True}
        confirmed = await editor.ask("tools/invoke", asked)
        assert _ALLOWED in (await chat.say(returned(again, confirmed["content"][0]))).text


async def test_d1_d2_a_lasting_yes_for_a_recent_question_covers_exactly_that(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        assert (await editor.ask("permissions/recent", {}))["questions"] == []
        [call] = (await chat.say(_run("make test"))).calls
        await chat.say(returned(call, "no"))
        [question] = (await editor.ask("permissions/recent", {}))["questions"]
        assert question["decision"] == "refused"
        assert question["levels"] == ["session", "workspace", "always"]
        assert "run make test" in question["covers"]
        allowed = await editor.ask("permissions/allow", {"id": question["id"], "level": "session"})
        assert allowed["covers"] == question["covers"]
        # The same in this chat is allowed before a call is made; the person sees that in one line.
        answer = await chat.say(_run("make test"))
        assert (answer.calls, _ALLOWED in answer.text) == ([], True)
        assert "approved for this session" in json.dumps(answer.parts)
        # Another command, and the same in another chat, is asked about.
        assert len((await chat.say(_run("make test-all"))).calls) == 1
        assert len((await Chat(editor, "fake").say(_run("make test"))).calls) == 1


async def test_a_lasting_yes_for_the_workspace_outlives_the_process(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        [call] = (await Chat(editor, "fake").say(_run("make"))).calls
        [question] = (await editor.ask("permissions/recent", {}))["questions"]
        await editor.ask("permissions/allow", {"id": question["id"], "level": "workspace"})
        assert call["name"] == "dragoman-agent-action-execute"
    async with editor_in(tmp_path) as (editor, _):
        assert _ALLOWED in (await Chat(editor, "fake").say(_run("make"))).text


async def test_what_can_only_be_allowed_once_gets_no_lasting_yes(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        await Chat(editor, "fake").say(_run("cat .env"))
        [question] = (await editor.ask("permissions/recent", {}))["questions"]
        assert question["levels"] == []
        with pytest.raises(RemoteError, match="cannot be allowed"):
            await editor.ask("permissions/allow", {"id": question["id"], "level": "always"})


async def test_d6_a_rule_of_a_recent_question_is_written_and_holds_at_once(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        [call] = (await chat.say(_run("git log --oneline"))).calls
        await chat.say(returned(call, "no"))
        [question] = (await editor.ask("permissions/recent", {}))["questions"]
        exact, wide = question["rules"]
        assert exact["words"] == "always allow exactly `git log --oneline` here"
        config = tmp_path / "dragoman.toml"
        before = config.read_text()
        assert exact["file"] == wide["file"] == str(config)
        added = await editor.ask("permissions/addRule", {"id": question["id"], "toml": wide["toml"]})
        assert added == {"file": str(config), "line": before.count("\n") + 2}
        assert config.read_text() == f"{before}\n{wide['toml']}"
        answer = await chat.say(_run("git log -3"))
        assert (answer.calls, _ALLOWED in answer.text) == ([], True)
        # Without the backslashes of Markdown.
        shown = json.dumps(answer.parts).replace("\\", "")
        assert f"allowed by the rule at {config}:{added['line']}" in shown
        assert len((await chat.say(_run("git log --output=x"))).calls) == 1


async def test_only_a_rule_that_is_offered_is_written(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        await Chat(editor, "fake").say(_run("git log"))
        await Chat(editor, "fake").say(_run("cat .env"))
        sensitive, question = (await editor.ask("permissions/recent", {}))["questions"]
        assert sensitive["rules"] == []
        before = (tmp_path / "dragoman.toml").read_text()
        toml = question["rules"][0]["toml"]
        for asked in (
            {"id": question["id"], "toml": '[[policy]]\ndecision = "allow"\n'},
            {"id": sensitive["id"], "toml": toml},
            {"id": "q99", "toml": toml},
        ):
            with pytest.raises(RemoteError, match="not offered any more"):
                await editor.ask("permissions/addRule", asked)
        (tmp_path / "dragoman.toml").write_text("broken =")
        with pytest.raises(RemoteError, match=r"The rule was not written\. .*dragoman\.toml:1"):
            await editor.ask("permissions/addRule", {"id": question["id"], "toml": toml})
        assert before
        assert (tmp_path / "dragoman.toml").read_text() == "broken ="


async def test_d4_d6_a_rule_counts_as_soon_as_it_is_written_and_asks_with_the_extensions_own_dialog(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor, "fake")
        await chat.say(prompt(["say", "hello"]))
        config = tmp_path / "dragoman.toml"
        before = config.read_text()
        rules = (
            '[[policy]]\ndecision = "ask"\ncommand = ["make"]\nreason = "It takes long."\n'
            '[[policy]]\ndecision = "deny"\ncommand = ["rm"]\nargs = "any"\nreason = "Nothing is deleted."\n'
            '[[policy]]\ndecision = "allow"\ncommand = ["ls"]\n'
        )
        # The editor is told of the model, and so we know that the file was read.
        config.write_text(
            f'{before}{rules}[models.new]\nkind = "acp"\nagent = "claude"\ncommand = ["true"]\n'
        )
        await soon(editor.models_changed.wait())
        allowed = await chat.say(_run("ls"))
        assert (allowed.calls, _ALLOWED in allowed.text) == ([], True)
        line = before.count("\n") + 10
        shown = json.dumps(allowed.parts, ensure_ascii=False).replace("\\", "")
        assert f"allowed by the rule at {config}:{line}" in shown
        refused = await chat.say(_run("rm x"))
        assert (refused.calls, "Nothing is deleted." in refused.text) == ([], True)
        [call] = (await chat.say(_run("make"))).calls
        prepared = await _prepared(editor, call)
        assert prepared["isSensitive"]
        assert prepared["modal"]["detail"].startswith("A rule, so you are asked:\n")
        assert "It takes long." in prepared["modal"]["detail"].replace("↩\n    ", "")
        # A mode of VS Code that skips the chat's dialog does not skip this one.
        unconfirmed = await editor.ask("tools/invoke", {"name": call["name"], "input": call["input"]})
        assert "not confirmed" in unconfirmed["content"][0]["value"]
        recent = (await editor.ask("permissions/recent", {}))["questions"]
        assert recent[0]["levels"] == []
