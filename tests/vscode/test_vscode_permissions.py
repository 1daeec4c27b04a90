"""Permissions over the wire of `dragoman vscode`: the dialog, the proof, and approvals that last."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import RemoteError
from vscode.editor import Chat, Editor, editor_in

pytestmark = pytest.mark.long

SENSITIVE = "dragoman-agent-action-sensitive"
EXECUTE = "dragoman-agent-action-execute"


async def _asked(chat: Chat, words: str) -> dict[str, Any]:
    [call] = (await chat.say(words)).calls
    return call


async def _dialog(editor: Editor, call: dict[str, Any]) -> Any:
    return await editor.ask("tools/prepareInvocation", {"name": call["name"], "input": call["input"]})


async def test_a_call_for_permission_carries_a_nonce_and_nothing_else(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        call = await _asked(Chat(editor), "!run echo one")
        assert (call["name"], list(call["input"])) == (EXECUTE, ["nonce"])
        dialog = await _dialog(editor, call)
        assert (dialog["isSensitive"], dialog["isCut"]) == (False, False)
        assert "echo one" in dialog["confirmationMessages"]["message"]


@pytest.mark.parametrize("confirmed", [{}, {"confirmed": False}])
async def test_a_sensitive_action_without_a_confirmation_gets_no_token_and_is_refused(
    tmp_path: Path, confirmed: dict[str, bool]
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        call = await _asked(chat, "write `KEY=1` to `.env`")
        assert call["name"] == SENSITIVE
        assert (await _dialog(editor, call))["isSensitive"]
        asked = {"name": SENSITIVE, "input": call["input"], **confirmed}
        [part] = (await editor.ask("tools/invoke", asked))["content"]
        assert "was not confirmed" in part["value"]
        assert "dragoman-grant" not in part["value"]
        await chat.say({"type": "tool_result", "callId": call["callId"], "content": [part]})
        assert not (tmp_path / ".env").exists()


async def test_a_confirmed_sensitive_action_is_done_once(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        call = await _asked(chat, "write `KEY=1` to `.env`")
        asked = {"name": SENSITIVE, "input": call["input"], "confirmed": True}
        content = (await editor.ask("tools/invoke", asked))["content"]
        await chat.say({"type": "tool_result", "callId": call["callId"], "content": content})
        assert (tmp_path / ".env").read_text().strip() == "KEY=1"
        # There is no lasting yes for it.
        [recent] = (await editor.ask("permissions/recent", {}))["questions"]
        assert (recent["decision"], recent["levels"]) == ("allowed", [])
        with pytest.raises(RemoteError, match="cannot be allowed for longer"):
            await editor.ask("permissions/allow", {"id": recent["id"], "level": "always"})
        again = await _asked(chat, "write `KEY=2` to `.env`")
        assert again["name"] == SENSITIVE


async def test_a_recent_question_allowed_from_now_on_is_not_asked_again_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        call = await _asked(chat, "!run echo lasting >> lasting.txt")
        await chat.say(await editor.approve(call))
        [recent] = (await editor.ask("permissions/recent", {}))["questions"]
        assert recent["levels"] == ["session", "workspace", "always"]
        assert "echo lasting" in recent["covers"]
        allowed = {"id": recent["id"], "level": "workspace"}
        assert await editor.ask("permissions/allow", allowed) == {"covers": recent["covers"]}
        other = Chat(editor)
        assert (await other.say("!run echo lasting >> lasting.txt")).calls == []
        assert (tmp_path / "lasting.txt").read_text() == "lasting\n" * 2
        assert (await _asked(Chat(editor), "!run echo another"))["name"] == EXECUTE


async def test_the_whole_of_a_long_question_can_be_shown_while_it_is_open(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        words = " ".join(f"word-{number}" for number in range(1_000))
        call = await _asked(chat, f"!run echo {words} the-end")
        dialog = await _dialog(editor, call)
        assert dialog["isCut"]
        # From both ends.
        assert "word-0" in dialog["confirmationMessages"]["message"]
        assert "the-end" in dialog["confirmationMessages"]["message"]
        assert "word-500 " not in dialog["confirmationMessages"]["message"]
        shown = await editor.ask("permissions/show", call["input"])
        # Long lines are broken, with a mark.
        assert f"echo {words} the-end" in shown["text"].replace("↩\n", "")
        await chat.say({"type": "tool_result", "callId": call["callId"], "content": []})
        assert "no longer open" in (await editor.ask("permissions/show", call["input"]))["text"]
        assert "no longer open" in (await _dialog(editor, call))["confirmationMessages"]["message"]
