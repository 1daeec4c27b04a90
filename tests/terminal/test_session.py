"""What a chat holds: a model, tools, approvals, a history."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.backends.scripted import Script, ScriptedModel, When, call, reply
from dragoman.clock import SystemClock
from dragoman.config import Config, Tools
from dragoman.frontends.terminal.session import ChatSession, context_keys
from dragoman.lm import CancellationSource, CancellationToken, LanguageModel
from dragoman.loop.hooks import Hooks
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.tools.decision import Approve, Decision, ToolQuestion
from dragoman.tools.definition import tool


@tool()
def touch() -> str:
    """Changes something."""
    return "touched"


class _Asked(Hooks):
    """Approves for the session, and counts how often it had to."""

    def __init__(self) -> None:
        self.times = 0

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        self.times += 1
        return Approve("session")


_TOUCHING = ScriptedModel(
    Script(
        (
            reply("done", when=When(round=1)),
            reply(call("touch"), when=When(prompt="touch")),
            reply("You said ${prompt}"),
        )
    )
)


def session(
    tmp_path: Path,
    *,
    config: Config | None = None,
    models: Callable[[Config, str], LanguageModel] | None = None,
) -> ChatSession:
    return ChatSession(
        config or Config(),
        "demo",
        state_dir=tmp_path / "state",
        workspace=(tmp_path,),
        tools=(touch,),
        clock=SystemClock(),
        build_model=models or (lambda _config, _name: _TOUCHING),
    )


async def test_the_history_goes_on_from_prompt_to_prompt(tmp_path: Path) -> None:
    with session(tmp_path) as chat:
        assert await chat.answer("one", Hooks(), CancellationToken()) == "completed"
        assert await chat.answer("two", Hooks(), CancellationToken()) == "completed"
        assert [message.text for message in chat.messages] == ["one", "You said one", "two", "You said two"]


async def test_another_model_gets_the_whole_history(tmp_path: Path) -> None:
    other = ScriptedModel.of("I come later.", "And I say ${prompt}.")
    models = {"demo": _TOUCHING, "other": other}
    with session(tmp_path, models=lambda _config, name: models[name]) as chat:
        await chat.answer("one", Hooks(), CancellationToken())
        chat.use("other")
        await chat.answer("two", Hooks(), CancellationToken())
        assert [message.text for message in other.requests[-1].messages] == ["one", "You said one", "two"]


async def test_i6_after_a_cancel_the_next_prompt_gets_its_own_answer(tmp_path: Path) -> None:
    source = CancellationSource()
    source.cancel()
    with session(tmp_path) as chat:
        assert await chat.answer("one", Hooks(), source.token) == "cancelled"
        await chat.answer("two", Hooks(), CancellationToken())
        assert chat.messages[-1].text == "You said two"


async def test_p17_what_was_approved_for_the_session_is_asked_again_in_a_new_conversation(
    tmp_path: Path,
) -> None:
    hooks = _Asked()
    with session(tmp_path) as chat:
        await chat.answer("touch", hooks, CancellationToken())
        await chat.answer("touch", hooks, CancellationToken())
        assert hooks.times == 1
        chat.start_over()
        assert chat.messages == ()
        await chat.answer("touch", hooks, CancellationToken())
        assert hooks.times == 2


async def test_f14_a_state_folder_that_cannot_be_used_costs_the_approvals_and_not_the_chat(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("no folder")
    with caplog.at_level(logging.WARNING), session(tmp_path) as chat:
        assert await chat.answer("one", Hooks(), CancellationToken()) == "completed"
    assert "approvals last for this session only" in caplog.text


async def test_declared_tools_without_anybody_to_do_the_work_are_private(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('[{"name": "mine", "displayName": "Mine", "modelDescription": "Does it."}]')
    with session(tmp_path, config=Config(tools=Tools(declarations=(path,)))) as chat:
        assert [info.name for info in chat.registry.tools()] == ["touch"]


def test_a_name_under_eligible_that_no_tool_has_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('[{"name": "mine", "displayName": "Mine", "modelDescription": "Does it."}]')
    eligible = {"tuch": False, "touch": False, "mine": True, "xyzzy": False, "activate_files": False}
    eligible |= dict.fromkeys(PERMISSION_TOOLS.values(), False)
    with session(tmp_path, config=Config(tools=Tools(declarations=(path,), eligible=eligible))) as chat:
        assert chat.warnings == (
            '"tuch" under eligible in [tools] is no tool. Did you mean "touch"?',
            '"xyzzy" under eligible in [tools] is no tool.',
        )


def test_what_when_clauses_can_ask_about_a_terminal() -> None:
    keys = context_keys((Path("/work"), Path("/other")), {"SHELL": "/usr/bin/zsh"}, "darwin")
    assert keys["workspaceFolderCount"] == 2
    assert keys["workspaceFolder"] == "/work"
    assert keys["isTerminal"] is True
    assert (keys["os"], keys["isMac"], keys["isLinux"]) == ("mac", True, False)
    assert keys["shellType"] == "zsh"
    nothing = context_keys((), {}, "linux")
    assert nothing["workspaceFolderCount"] == 0
    assert "workspaceFolder" not in nothing
    assert nothing["os"] == "linux"


def test_a_tool_that_needs_a_workspace_is_not_there_without_one(tmp_path: Path) -> None:
    @tool(when="workspaceFolderCount > 0")
    def confined() -> str:
        """Works in a folder."""
        return ""

    chat = ChatSession(
        Config(),
        "demo",
        state_dir=tmp_path,
        workspace=(),
        tools=(confined,),
        clock=SystemClock(),
        build_model=lambda _config, _name: _TOUCHING,
    )
    with chat:
        assert chat.registry.tools() == ()
