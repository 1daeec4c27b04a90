"""The commands that begin with a slash."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.backends.scripted import ScriptedModel
from dragoman.clock import SystemClock
from dragoman.config import AcpModel, Config, Found, ScriptModel, load
from dragoman.config.source import Source
from dragoman.frontends.terminal.commands import Commands, Leave, ResetApprovals
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.session import ChatSession
from dragoman.lm import CancellationToken, UsagePart, assistant, user
from dragoman.loop.hooks import Hooks
from dragoman.permissions.keys import approval_key
from dragoman.store import ApprovalStore, Database
from dragoman.tools.definition import tool
from permissions.actions import action


@tool(reference_name="lookUp", read_only=True)
def look_up(word: str) -> str:
    """Looks up a word."""
    return word


@tool()
def burn() -> str:
    """Burns something."""
    return "ashes"


class _Stage:
    def __init__(self, folder: Path) -> None:
        script = folder / "second.jsonl"
        script.write_text('{"model": {"name": "The second"}}\n{"do": [{"say": "hi"}]}\n')
        first = folder / "first.jsonl"
        first.write_text('{"do": [{"say": "hi"}]}\n')
        untrusted = Found(Source(), {"third": AcpModel(command=("make",))})
        config = Config(models={"demo": ScriptModel(path=first)}, found=untrusted)
        config.models["second"] = ScriptModel(path=script)
        self.session = ChatSession(
            config,
            "demo",
            state_dir=folder / "state",
            workspace=(folder,),
            tools=(look_up, burn),
            clock=SystemClock(),
        )
        self.shows_thinking = False
        self.commands = Commands(self.session, toggle_thinking=self._toggle)

    def run(self, line: str) -> str:
        output = io.StringIO()
        Screen(Console(file=output, width=100)).print(self.commands.run(line))
        return output.getvalue()

    def words(self, before: str) -> list[str]:
        return [text for text, _ in self.commands.suggest(before)]

    def _toggle(self) -> bool:
        self.shows_thinking = not self.shows_thinking
        return self.shows_thinking


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[_Stage]:
    stage = _Stage(tmp_path)
    with stage.session:
        yield stage


def test_help_names_every_command(stage: _Stage) -> None:
    printed = stage.run("/help")
    for name in ("/model", "/tools", "/approvals", "/policy", "/thinking", "/new", "/help", "/quit"):
        assert name in printed


@pytest.mark.parametrize(
    ("typed", "meant"), [("/hlep", "/help"), ("/tool", "/tools"), ("/APPROVALS", "/approvals")]
)
def test_a_command_that_is_none_names_the_nearest(stage: _Stage, typed: str, meant: str) -> None:
    assert f"Did you mean {meant}?" in stage.run(typed)


def test_a_command_that_resembles_none_points_to_the_list(stage: _Stage) -> None:
    assert stage.run("/xyzzy\x1b[2J") == "✗ There is no /xyzzy␛[2J. /help lists them.\n"
    assert "/help" in stage.run("/")


def test_models_are_listed_and_switched_with_the_history_kept(stage: _Stage) -> None:
    assert stage.run("/model") == "  ●  demo\n  ○  second\n"
    assert stage.run("/model second") == "● Going on with The second.\n"
    assert stage.session.model_name == "second"
    assert stage.run("/model") == "  ○  demo\n  ●  second\n"


def test_a_model_that_nobody_has_agreed_to_is_not_gone_on_with(stage: _Stage) -> None:
    assert "dragoman trust" in stage.run("/model third")
    assert stage.session.model_name == "demo"


def test_a_model_that_is_none_changes_nothing(stage: _Stage) -> None:
    assert "second" in stage.run("/model secnod")
    assert stage.session.model_name == "demo"
    assert stage.run("/model a b").startswith("✗")


def test_tools_are_listed_with_their_state(stage: _Stage) -> None:
    assert stage.run("/tools") == "  ●  look_up  #lookUp\n  ●  burn              asks first\n"


def test_tools_are_taken_away_and_given_back(stage: _Stage) -> None:
    assert stage.run("/tools off burn").startswith("○")
    assert [info.name for info in stage.session.registry.tools()] == ["look_up"]
    assert "○  burn" in stage.run("/tools")
    assert stage.run("/tools on burn").startswith("●")
    assert [info.name for info in stage.session.registry.tools()] == ["look_up", "burn"]


def test_a_tool_that_is_none_names_the_nearest(stage: _Stage) -> None:
    assert "look_up" in stage.run("/tools off lookup")
    assert stage.run("/tools of burn").startswith("✗ Type /tools")


def test_approvals_are_listed_and_taken_back(stage: _Stage) -> None:
    assert stage.run("/approvals").startswith("○ Nothing is approved")
    grant = stage.session.approvals.grant
    first, second = grant("s", "burn", "{}", "always"), grant("s", "burn", "key\x1b[2J", "workspace")
    assert first is not None
    assert second is not None
    when = first.granted_at.astimezone().strftime("%Y-%m-%d %H:%M")
    assert stage.run("/approvals").splitlines() == [
        f"  {first.id}  exactly this input of burn: {{}}",
        f"     any model · always · {when}",
        f"  {second.id}  calls that count as the same to burn: key␛[2J",
        f"     any model · this workspace · {when}",
    ]
    assert stage.run(f"/approvals revoke {first.id}").startswith("○")
    assert stage.run(f"/approvals revoke {first.id}").startswith("✗ There is no approval")
    with pytest.raises(ResetApprovals):
        stage.run("/approvals reset")
    assert stage.session.approvals.list() == (second,)
    stage.session.approvals.reset()
    assert stage.run("/approvals reset").startswith("○ Nothing is approved")
    assert stage.run("/approvals revoke").startswith("✗ Type /approvals")


def test_approvals_for_other_folders_are_told_with_their_place(stage: _Stage, tmp_path: Path) -> None:
    with Database.open(tmp_path / "state") as database:
        ApprovalStore(database).add("burn", "{}", "/somewhere/\x1b[2Jelse", datetime.now(UTC))
        ApprovalStore(database).add("burn", "{}", str(Path.home() / "mine"), datetime.now(UTC))
    shown = stage.run("/approvals")
    assert "any model · in /somewhere/␛[2Jelse · " in shown
    assert "any model · in ~/mine · " in shown


def test_approvals_are_listed_in_the_words_of_their_questions(stage: _Stage) -> None:
    grant = stage.session.approvals.grant
    grant("s", "write_file", "/w/a.txt", "always")
    grant("s", "run_command", "in '/w': make 'it: all'", "always")
    grant("s", "fetch_url", "https://e.example/ at 10.0.0.1", "always")
    make = action(input={"command": "make"})
    grant("s", make.permission_tool, approval_key(make), "always")
    shown = stage.run("/approvals")
    for words in (
        "any change to /w/a.txt",
        "this command in this folder: make 'it: all'",
        "this address, as long as it leads to 10.0.0.1: https://e.example/",
        "exactly this request of Claude Code: run make, in /srv/project",
        "Claude Code · always · ",
    ):
        assert words in shown
    for internal in ("write_file", "run_command", "fetch_url", "dragoman-agent", "action-1"):
        assert internal not in shown


def test_rules_are_listed_with_their_place_and_explained(stage: _Stage, tmp_path: Path) -> None:
    assert stage.run("/policy") == "○ There are no rules. `dragoman policy init` offers a first set.\n"
    assert "There are no rules." in stage.run("/policy explain git log")
    assert stage.run("/policy explain") == "✗ Type /policy, or /policy explain COMMAND.\n"
    assert stage.run("/policy git log").startswith("✗ Type /policy")
    file = tmp_path / "rules.toml"
    file.write_text(
        '[[policy]]\ndecision = "allow"\ncommand = ["git", "log"]\nargs = "any"\n\n'
        '[[policy]]\ndecision = "deny"\nkind = "edit"\npaths = [".git/**"]\nreason = "Ask\\u001b[2J."\n'
    )
    config = load(file)
    with ChatSession(
        config, "demo", state_dir=tmp_path / "state", workspace=(tmp_path,), tools=(), clock=SystemClock()
    ) as session:
        commands = Commands(session, toggle_thinking=lambda: False)

        def run(line: str) -> list[str]:
            output = io.StringIO()
            Screen(Console(file=output, width=200)).print(commands.run(line))
            return output.getvalue().splitlines()

        assert run("/policy") == [
            "  allow  `git log` with any arguments",
            f"         {file}:1",
            "  deny   edit of .git/**",
            f"         {file}:6",
        ]
        allowed = run("/policy explain git log 'a  b'")
        assert allowed[0] == "  allow: git log 'a  b'"
        assert f"    {file}:1: allow `git log` with any arguments" in allowed
        assert run("/policy explain git push")[0] == "  ask: git push"


async def test_new_forgets_what_was_said(stage: _Stage) -> None:
    stage.session.model = ScriptedModel.of("Hello.")
    await stage.session.answer("hi", Hooks(), CancellationToken())
    assert stage.session.messages
    assert stage.run("/new").startswith("●")
    assert stage.session.messages == ()


def test_thinking_is_toggled(stage: _Stage) -> None:
    assert "in full" in stage.run("/thinking")
    assert "folded" in stage.run("/thinking")
    assert stage.run("/thinking on").startswith("✗")


def test_quit_leaves(stage: _Stage) -> None:
    with pytest.raises(Leave):
        stage.run("/quit")


def test_what_can_be_typed_is_suggested(stage: _Stage) -> None:
    assert stage.words("/") == [
        "/model",
        "/tools",
        "/approvals",
        "/accept-edits",
        "/policy",
        "/thinking",
        "/last",
        "/usage",
        "/compact",
        "/edit",
        "/export",
        "/copy",
        "/new",
        "/resume",
        "/help",
        "/quit",
    ]
    assert stage.words("/to") == ["/tools"]
    assert stage.words("/model ") == ["demo", "second"]
    assert stage.words("/model s") == ["second"]
    assert stage.words("/tools ") == ["on", "off"]
    assert stage.words("/tools off b") == ["burn"]
    assert stage.words("/tools off burn ") == ["--save"]
    assert stage.words("/tools off burn --save ") == []
    assert stage.words("/model second ") == ["--save"]
    assert stage.words("/exi") == ["/exit"]
    assert stage.words("/models s") == ["second"]
    assert stage.words("/approvals re") == ["revoke", "reset"]
    assert stage.words("/policy ") == ["explain"]
    assert stage.words("/policy explain git") == []
    assert stage.words("/nothing x") == []
    assert stage.words("what about #lo") == ["#lookUp"]
    assert stage.words("plain words") == []
    assert stage.words("") == []


def test_how_an_agent_asks_is_no_tool_to_take_away(tmp_path: Path) -> None:
    with ChatSession(
        Config(), "demo", state_dir=tmp_path, workspace=(tmp_path,), tools=(look_up,), clock=SystemClock()
    ) as session:
        assert len(session.registry.available()) > 1
        commands = Commands(session, toggle_thinking=lambda: False)
        output = io.StringIO()
        Screen(Console(file=output, width=100)).print(commands.run("/tools"))
        assert output.getvalue().split()[:2] == ["●", "look_up"]
        assert "dragoman-agent-action" not in output.getvalue()
        assert [text for text, _ in commands.suggest("/tools off ")] == ["look_up"]


def test_what_the_model_counts_is_told_in_words(stage: _Stage) -> None:
    assert "The model has not said." in stage.run("/usage")
    stage.session.messages = (user("a"), assistant(UsagePart(cost=0.0012, currency="EUR"), "b"))
    assert "Cost so far: 0.0012 EUR." in stage.run("/usage")
    counted = UsagePart(
        1_200,
        30,
        cached=1_000,
        reasoning=20,
        context_used=12_345,
        context_size=200_000,
        cost=1.5,
        currency="EUR",
    )
    stage.session.messages += (user("c"), assistant("d", counted), user("e"), assistant("f"))
    words = " ".join(stage.run("/usage").split())
    assert words == (
        "● Context: 12,345 of 200,000 tokens (6%) · last answer: 1,200 tokens in (1,000 of them cached) · "
        "30 out (20 of them thinking) · cost so far: 1.50 EUR."
    )
    stage.session.messages = (assistant(UsagePart(context_used=5)),)
    assert "Context: 5 tokens." in stage.run("/usage")
    stage.run("/new")
    assert "The model has not said." in stage.run("/usage")
