"""What belongs to the agent, in the editor: modes and options, commands, the login, its context."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import REQUEST_CANCELLED, ErrorResponse, RemoteError, RpcReply
from fake_agent.steps import COMMAND, prompt
from faults.world import is_alive, until
from vscode.editor import Chat, Editor, editor_here, noted, soon

_MODES = {
    "currentModeId": "default",
    "availableModes": [
        {"id": "default", "name": "Ask", "description": "Asks before it changes anything"},
        {"id": "plan", "name": "Plan"},
        {"id": "yolo", "name": "Full access", "description": "Bypasses all permission checks"},
    ],
}
_MODEL = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "small",
    "options": [
        {"group": "g", "name": "Group", "options": [{"value": "small", "name": "Small"}]},
        {"value": "opus", "name": "Opus", "description": "The large one"},
    ],
}
_FAST = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False}
_STATE = {"modes": _MODES, "configOptions": [_MODEL, _FAST]}
_COMMANDS = [
    {"name": "review", "description": "Review the changes", "input": {"hint": "[branch]"}},
    {"name": "status", "description": "Show the state", "input": None},
]


def _chosen(editor: Editor, **values: object) -> Chat:
    return Chat(editor, "fake", options={"modelConfiguration": values})


def _set(folder: Path) -> list[object]:
    return [
        *(params["modeId"] for params in noted(folder, "session/set_mode")),
        *(f"{params['configId']}={params['value']}" for params in noted(folder, "session/set_config_option")),
    ]


async def _offer(editor: Editor, *, look: bool = False) -> dict[str, Any]:
    offer = await editor.ask("agent/options", {"modelId": "fake", "look": look})
    assert isinstance(offer, dict)
    return offer


async def test_a_mode_and_a_model_are_set_before_the_prompt_and_only_once(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE) as editor:
        chat = _chosen(editor, mode="plan", model="opus", fast=True)
        assert (await chat.say("hello")).text == 'echo: ["hello"]'
        await chat.say("again")
        assert _set(tmp_path) == ["plan", "model=opus", "fast=True"]
        lines = (tmp_path / "journal").read_text().splitlines()
        order = [entry["method"] for entry in map(json.loads, lines)]
        assert order.index("session/set_mode") < order.index("session/prompt")


async def test_without_a_choice_the_session_gets_back_what_it_had(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE) as editor:
        chat = _chosen(editor, mode="plan", model="opus")
        await chat.say("hello")
        chat.options = {}
        await chat.say("and now?")
        assert _set(tmp_path) == ["plan", "default", "model=opus", "model=small"]


async def test_a_mode_that_the_agent_left_itself_is_set_again(tmp_path: Path) -> None:
    left = {"sessionUpdate": "current_mode_update", "currentModeId": "default"}
    async with editor_here(tmp_path, state=_STATE) as editor:
        chat = _chosen(editor, mode="plan")
        await chat.say(prompt(["update", left], ["say", "done"]))
        await chat.say("on")
        assert _set(tmp_path) == ["plan", "plan"]


def _sent(folder: Path) -> list[str]:
    return [block["text"] for params in noted(folder, "session/prompt") for block in params["prompt"]]


async def test_an_option_that_the_agent_does_not_have_is_told_in_one_line_and_once(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE) as editor:
        chat = _chosen(editor, depth="deep")
        answer = await chat.say("hello")
        [told] = [line for line in answer.text.splitlines() if "did not take" in line]
        assert "deep" in told
        assert answer.text.endswith('echo: ["hello"]')
        assert (await chat.say("again")).text == 'echo: ["again"]'


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"mode": "plan"}, ("“Plan” (plan) for Mode", "is still “Ask” (default)", "plan is not for you")),
        ({"model": "tiny"}, ("“tiny” for Model", "is still “Small” (small)", "does not offer that value")),
    ],
)
async def test_a_value_that_cannot_be_set_fails_the_turn(
    tmp_path: Path, chosen: dict[str, object], said: tuple[str, ...]
) -> None:
    async with editor_here(tmp_path, state=_STATE, takes_not=["plan"]) as editor:
        chat = _chosen(editor, **chosen)
        for text in ("hello", "again"):
            failed = await chat.begin(text).settled()
            assert failed.kind == "agent_failed"
            message = failed.error.error.message
            assert all(words in message for words in (*said, "was not sent", "start a new chat")), message
        assert _sent(tmp_path) == []
        # The choice is taken back, and the session is as it was.
        chat.options = {}
        assert "and now?" in (await chat.say("and now?")).text


async def test_no_prompt_is_sent_in_a_mode_that_the_user_has_left(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE, takes_not=["default"]) as editor:
        chat = _chosen(editor, mode="yolo")
        await chat.say("hello")
        chat.options = {}
        for text in ("delete it", "delete it now"):
            failed = await chat.begin(text).settled()
            assert failed.kind == "agent_failed"
            message = failed.error.error.message
            assert "did not take “Ask” (default) for Mode, which is still “Full access” (yolo)" in message
        # Each prompt has tried again.
        assert _set(tmp_path) == ["yolo", "default", "default"]
        assert _sent(tmp_path) == ["hello"]
        chat.options = {"modelConfiguration": {"mode": "plan"}}
        await chat.say("look at it")
        assert _set(tmp_path)[-1] == "plan"
        assert len(noted(tmp_path, "session/prompt")) == 2


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"mode": "plan"}, "“Plan” (plan) for Mode, which is still “Full access” (yolo)"),
        ({"model": "opus"}, "“Opus” (opus) for Model, which is still “Small” (small)"),
    ],
)
async def test_a_value_that_the_agent_reports_counts_more_than_its_answer(
    tmp_path: Path, chosen: dict[str, object], said: str
) -> None:
    """It answers that the value is set, and reports that it has another one."""
    async with editor_here(tmp_path, state=_STATE, swaps={"plan": "yolo", "opus": "small"}) as editor:
        chat = _chosen(editor, **chosen)
        for text in ("hello", "again"):
            failed = await chat.begin(text).settled()
            assert failed.kind == "agent_failed"
            assert said in failed.error.error.message
        assert _sent(tmp_path) == []
        assert len(_set(tmp_path)) == 2
        # The choice is taken back, and the session gets what it had.
        chat.options = {}
        await chat.say("and now?")
        assert _set(tmp_path)[2:] == (["default"] if "mode" in chosen else [])


async def test_a_mode_that_the_user_has_left_and_the_agent_reports_again_is_left_again(
    tmp_path: Path,
) -> None:
    again = {"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}
    own = {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}
    async with editor_here(tmp_path, state=_STATE) as editor:
        chat = _chosen(editor, mode="yolo")
        await chat.say("hello")
        chat.options = {}
        await chat.say(prompt(["update", again], ["say", "done"]))
        await chat.say(prompt(["update", own], ["say", "done"]))
        assert _set(tmp_path) == ["yolo", "default", "default"]
        # A mode that the user never chose is the agent's own affair.
        await chat.say("on")
        assert _set(tmp_path) == ["yolo", "default", "default"]


async def test_a_mode_that_the_agent_does_not_report_is_set_once_and_cannot_be_left_unnoticed(
    tmp_path: Path,
) -> None:
    """What it had before is not known. So there is nothing to go back to, and no prompt is sent."""
    async with editor_here(tmp_path) as editor:
        chat = _chosen(editor, mode="yolo")
        await chat.say("hello")
        await chat.say("again")
        assert _set(tmp_path) == ["yolo"]
        chat.options = {}
        failed = await chat.begin("delete it").settled()
        assert failed.kind == "agent_failed"
        assert "still in “yolo” for mode" in failed.error.error.message
        assert "delete it" not in _sent(tmp_path)
        chat.options = {"modelConfiguration": {"mode": "ask"}}
        await chat.say("look at it")
        assert _set(tmp_path) == ["yolo", "ask"]


@pytest.mark.parametrize("configured", ['mode = "plan"', 'options = { model = "opus" }'])
async def test_a_configured_value_that_the_agent_does_not_keep_is_an_error(
    tmp_path: Path, configured: str
) -> None:
    agent = json.dumps({"folder": str(tmp_path), "state": _STATE, "swaps": {"plan": "yolo", "opus": "small"}})
    model = f'[models.strict]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps([*COMMAND, agent])}\n{configured}\n'
    async with editor_here(tmp_path, configured=model) as editor:
        failed = await Chat(editor, "strict").begin("hello").settled()
        assert failed.kind == "bad_request"
        assert "reports" in failed.error.error.message
        assert "`mode` and `options`" in failed.error.error.message
        assert _sent(tmp_path) == []


async def test_a_prompt_that_is_cancelled_before_its_mode_is_set_is_not_sent(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE, lost=["default"]) as editor:
        chat = _chosen(editor, mode="yolo")
        await chat.say("hello")
        chat.options = {}
        answer = chat.begin("delete it")
        await until(lambda: _set(tmp_path) == ["yolo", "default"], "the mode to be set")
        answer.cancel()
        await answer.settled()
        chat.options = {"modelConfiguration": {"mode": "plan"}}
        await chat.say("look at it")
        assert _sent(tmp_path) == ["hello", "look at it"]


async def test_the_editor_learns_what_the_agent_offers_and_remembers_it(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE, commands=_COMMANDS) as editor:
        [before] = [model for model in await _models(editor) if model["id"] == "fake"]
        assert "configurationSchema" not in before
        assert await _offer(editor) == {}
        await Chat(editor, "fake").say("hello")
        await soon(editor.models_changed.wait())
        offer = await _offer(editor)
        mode, model, fast = offer["options"]
        assert (mode["id"], mode["category"], mode["current"]) == ("mode", "mode", "default")
        assert mode["values"][2] == {
            "value": "yolo",
            "name": "Full access",
            "description": "Bypasses all permission checks",
        }
        assert [choice["value"] for choice in model["values"]] == ["small", "opus"]
        assert [choice["value"] for choice in fast["values"]] == [True, False]
        assert [command["name"] for command in offer["commands"]] == ["review", "status"]
        assert offer["commands"][0]["hint"] == "[branch]"
        [after] = [model for model in await _models(editor) if model["id"] == "fake"]
        schema = after["configurationSchema"]["properties"]
        assert schema["mode"]["enum"] == ["default", "plan", "yolo"]
        assert schema["mode"]["enumDescriptions"][2] == "Bypasses all permission checks"
        assert "default" not in schema["mode"]
    async with editor_here(tmp_path, state=_STATE, commands=_COMMANDS) as editor:
        started = len(noted(tmp_path, "started"))
        assert await _offer(editor) == offer
        assert len(noted(tmp_path, "started")) == started


async def _models(editor: Editor) -> list[dict[str, Any]]:
    listed = await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True})
    models: list[dict[str, Any]] = listed["models"]
    return models


async def test_options_are_known_before_the_first_prompt_if_the_user_asks(tmp_path: Path) -> None:
    async with editor_here(tmp_path, state=_STATE, commands=_COMMANDS, close=True) as editor:
        offer = await _offer(editor, look=True)
        assert [option["id"] for option in offer["options"]] == ["mode", "model", "fast"]
        assert [command["name"] for command in offer["commands"]] == ["review", "status"]
        assert len(noted(tmp_path, "session/close")) == 1
        assert noted(tmp_path, "session/prompt") == []


async def test_a_command_is_the_first_thing_that_the_agent_reads(tmp_path: Path) -> None:
    async with editor_here(tmp_path, commands=_COMMANDS) as editor:
        context = {"role": "system", "content": [{"type": "text", "value": "The editor is dark."}]}
        chat = Chat(editor, "fake", history=[context])
        await chat.say("hello")
        assert (await chat.say("/review main")).text == 'echo: ["/review main"]'
        # What is no command of the agent is text.
        other = Chat(editor, "fake", history=[context])
        assert "The editor is dark." in (await other.say("/unknown")).text
        fresh = Chat(editor, "fake", history=[context])
        assert (await fresh.say("/status")).text == 'echo: ["/status"]'
        # The context was not lost.
        assert "The editor is dark." in (await fresh.say("and now?")).text


_TERMINAL = {"id": "shell", "name": "Log in here", "type": "terminal", "args": ["--login"], "env": {"A": "1"}}
_NAMED = {"id": "named", "name": "Log in", "_meta": {"terminal-auth": {"command": "x", "args": ["login"]}}}
_OWN = {"id": "key", "name": "With the key", "description": "It has one"}


async def test_the_ways_to_log_in_are_known_after_the_error(tmp_path: Path) -> None:
    done = tmp_path / "logged-in"
    methods = [_TERMINAL, _NAMED, _OWN]
    async with editor_here(tmp_path, authentication=methods, login_file=str(done)) as editor:
        chat = Chat(editor, "fake")
        refused = await chat.begin("hello").settled()
        assert refused.kind == "auth_required"
        assert "--login" in refused.error.error.message
        started = len(noted(tmp_path, "started"))
        shell, named, own = (await editor.ask("agent/logins", {"modelId": "fake"}))["logins"]
        assert len(noted(tmp_path, "started")) == started
        assert (shell["kind"], shell["terminal"]["command"][-1]) == ("terminal", "--login")
        assert shell["terminal"]["env"] == {"A": "1"}
        assert named["terminal"]["command"] == ["x", "login"]
        assert (own["kind"], own["description"]) == ("agent", "It has one")
        # The person logs in in the terminal. The same prompt then works, with no restart.
        done.touch()
        assert (await chat.end(chat.begin())).text == 'echo: ["hello"]'


async def test_a_login_that_the_agent_does_itself_holds_for_the_next_prompt(tmp_path: Path) -> None:
    async with editor_here(tmp_path, authentication=[_OWN], login="key") as editor:
        chat = Chat(editor, "fake")
        assert (await chat.begin("hello").settled()).kind == "auth_required"
        assert await editor.ask("agent/login", {"modelId": "fake", "methodId": "key"}) == {}
        assert (await chat.end(chat.begin())).text == 'echo: ["hello"]'
        with pytest.raises(RemoteError, match="no way to log in"):
            await editor.ask("agent/login", {"modelId": "fake", "methodId": "none"})


@pytest.mark.parametrize("method", ["agent/login", "agent/options", "agent/logins"])
async def test_a_wait_for_the_agent_can_be_cancelled_and_its_process_ends(
    tmp_path: Path, method: str
) -> None:
    asked = "authenticate" if method == "agent/login" else "initialize"
    start = "" if method == "agent/login" else "hang"
    async with editor_here(tmp_path, authentication=[_OWN], lost=["key"], start=start) as editor:
        replies: list[RpcReply] = []
        params = {"modelId": "fake", "methodId": "key", "look": True}
        request = editor.peer.call(method, params, replies.append)
        await until(lambda: noted(tmp_path, asked), "the agent to be asked")
        editor.peer.notify("lm/cancel", {"requestId": request})
        await until(lambda: replies, "the answer to the cancelled request")
        assert isinstance(replies[0], ErrorResponse)
        assert replies[0].error.code == REQUEST_CANCELLED
        [started] = noted(tmp_path, "started")
        await until(lambda: not is_alive(started["pid"]), "the end of the agent")


async def test_a_login_is_found_before_any_prompt(tmp_path: Path) -> None:
    async with editor_here(tmp_path, authentication=[_TERMINAL], login="shell") as editor:
        [shell] = (await editor.ask("agent/logins", {"modelId": "fake"}))["logins"]
        assert shell["name"] == "Log in here"


async def test_the_context_meter_shows_what_the_agent_reported(tmp_path: Path) -> None:
    cost = {"amount": 0.25, "currency": "USD"}
    used = {"sessionUpdate": "usage_update", "used": 53_000, "size": 200_000, "cost": cost}
    async with editor_here(tmp_path) as editor:
        await _models(editor)
        answer = await Chat(editor, "fake").say(prompt(["update", used], ["say", "done"]))
        [usage] = [part for part in answer.parts if part.get("mimeType") == "usage"]
        counted = json.loads(base64.b64decode(usage["data"]))
        meter = {"prompt_tokens": 53_000, "completion_tokens": 0, "total_tokens": 53_000}
        assert counted == {**meter, "context_size": 200_000, "cost": 0.25, "currency": "USD"}
        await soon(editor.models_changed.wait())
        [model] = [model for model in await _models(editor) if model["id"] == "fake"]
        assert model["maxContextWindowTokens"] == 200_000
        # VS Code shortens a chat that comes near this, and the agent would lose its memory.
        assert model["maxInputTokens"] == 1_000_000
