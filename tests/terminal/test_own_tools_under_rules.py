"""Rules decide about the terminal's own tools (D4 to D6): with the real tools, real rules and the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.backends.scripted import Script, ScriptedModel, When, call, reply
from dragoman.clock import SystemClock
from dragoman.config import load, rules_of
from dragoman.frontends.terminal.session import ChatSession
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import CancellationToken, JsonObject, ToolResultPart
from dragoman.loop.events import (
    CallDecided,
    EndReason,
    QuestionAsked,
    RunEvent,
    ToolFinished,
    ToolStarted,
    to_json,
)
from dragoman.loop.hooks import Hooks
from dragoman.models import policy_of
from dragoman.permissions.sensitive import Places
from dragoman.policy.policy import Policy
from dragoman.store import Database
from dragoman.tools.builtin import builtin_tools
from dragoman.tools.decision import Approve, CannotAsk, Decision, ToolQuestion


class _Person(Hooks):
    """Approves everything, as far as the question allows, and notes all that happens."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.questions: list[ToolQuestion] = []

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        del token
        self.questions.append(question)
        return Approve(question.levels[-1])

    @property
    def results(self) -> list[ToolResultPart]:
        return [event.result for event in self.events if isinstance(event, ToolFinished)]

    @property
    def decisions(self) -> list[tuple[bool, str, str | None]]:
        found = [event for event in self.events if isinstance(event, CallDecided)]
        return [(event.allowed, event.by, event.why) for event in found]


class _Nobody(_Person):
    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        del question, token
        raise CannotAsk("Nobody is there.")


class _Chat:
    def __init__(self, folder: Path, rules: str) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.state = folder / "state"
        self.file = folder / "rules.toml"
        self.file.write_text(rules)
        self.id = ""

    async def make(
        self, *calls: tuple[str, JsonObject], person: _Person | None = None, model: str = "demo"
    ) -> tuple[_Person, EndReason]:
        """Have a model make these calls in one answer."""
        person = person or _Person()
        script = ScriptedModel(
            Script((reply("done", when=When(round=1)), reply(*(call(name, given) for name, given in calls))))
        )
        with ChatSession(
            load(self.file),
            model,
            state_dir=self.state,
            workspace=(self.folder,),
            tools=builtin_tools(),
            clock=SystemClock(),
            build_model=lambda _config, _name: script,
        ) as chat:
            self.id = chat.id
            ended = await chat.answer("go", person, CancellationToken())
            await chat.close()
        return person, ended

    async def recorded(self) -> list[tuple[PermissionRequested, PermissionDecided]]:
        with Database.open(self.state) as database:
            events = [entry.event for entry in await SqliteJournals(database, "1 other").read(self.id)]
        asked = {event.id: event for event in events if isinstance(event, PermissionRequested)}
        return [(asked[event.id], event) for event in events if isinstance(event, PermissionDecided)]


_ECHO = '[[policy]]\ndecision = "allow"\ncommand = ["echo"]\nargs = "any"\nreason = "Harmless."\n'
_DENY = '[[policy]]\ndecision = "deny"\nkind = "edit"\npaths = ["kept/**"]\nreason = "Kept as it is."\n'


async def test_d6_a_rule_allows_a_command_without_a_question_and_the_journal_has_it(tmp_path: Path) -> None:
    chat = _Chat(tmp_path, _ECHO)
    person, ended = await chat.make(("run_command", {"command": "echo one && echo two"}))
    assert (ended, person.questions) == ("completed", [])
    [result] = person.results
    assert (result.outcome, "one\ntwo" in result.text) == ("ok", True)
    [started] = [event for event in person.events if isinstance(event, ToolStarted)]
    assert started.approved == f"allowed by the rule at {chat.file}:1"
    why = f"allowed by the rule at {chat.file}:1: Harmless."
    assert person.decisions == [(True, "rule", why)]
    [(asked, decided)] = await chat.recorded()
    assert (asked.agent, asked.risk, asked.tool) == ("demo", "execute", "run_command")
    assert (decided.is_allowed, decided.by, decided.why) == (True, "rule", why)
    # What is recorded is what was judged, so that a dry run comes to the same.
    assert asked.action is not None
    again = Policy(rules_of(load(chat.file))).judge(asked.action, Places.around((chat.folder,)))
    assert again.decision == "allow"


async def test_d6_a_rule_denies_one_call_with_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    chat = _Chat(tmp_path, _DENY + _ECHO)
    (chat.folder / "kept").mkdir()
    person, ended = await chat.make(
        ("write_file", {"path": "kept/a.txt", "content": "x"}),
        ("write_file", {"path": "src/../kept/b.txt", "content": "x"}),
        ("run_command", {"command": "echo on"}),
        ("write_file", {"path": "c.txt", "content": "x"}),
    )
    assert ended == "completed"
    assert [result.outcome for result in person.results] == ["denied", "denied", "ok", "ok"]
    why = f"The rule at {chat.file}:1 denies it: Kept as it is."
    text = f"Error: Tool execution was denied by a rule; the user was not asked. {why}"
    assert person.results[0].text == text
    assert person.decisions[0] == (False, "rule", why)
    # The person was asked about the one that no rule decides about.
    assert [question.input["path"] for question in person.questions] == ["c.txt"]
    assert list((chat.folder / "kept").iterdir()) == []
    denied, *_ = await chat.recorded()
    assert (denied[0].risk, denied[1].is_allowed, denied[1].by, denied[1].why) == ("edit", False, "rule", why)


async def test_d4_an_ask_rule_shows_itself_and_offers_nothing_that_lasts(tmp_path: Path) -> None:
    chat = _Chat(
        tmp_path,
        '[[policy]]\ndecision = "ask"\ncommand = ["echo"]\nargs = "any"\nreason = "Look first."\n'
        "[tools]\nauto_approve = true\n",
    )
    person, _ = await chat.make(("run_command", {"command": "echo hi"}))
    [question] = person.questions
    assert question.levels == ("once",)
    message = question.confirmation.message.replace("↩\n", "")
    assert message.startswith("A rule, so you are asked:\n```text\n")
    assert f"The rule at {chat.file}:1 asks about this every time: Look first." in message
    assert "echo hi" in message
    assert person.decisions == [(True, "person", "once")]


async def test_d5_an_ask_rule_refuses_where_nobody_can_be_permission_requested(tmp_path: Path) -> None:
    rule = '[[policy]]\ndecision = "ask"\ncommand = ["echo"]\nargs = "any"\nreason = "Look first."\n'
    chat = _Chat(tmp_path, f"{rule}[tools]\nauto_approve = true\n")
    person, _ = await chat.make(("run_command", {"command": "echo hi"}), person=_Nobody())
    [result] = person.results
    assert result.outcome == "denied"
    assert f"The rule at {chat.file}:1 asks about this every time: Look first." in result.text


async def test_d4_a_doubt_holds_against_auto_approval(tmp_path: Path) -> None:
    rule = '[[policy]]\ndecision = "deny"\ncommand = ["rm"]\nargs = "any"\n'
    chat = _Chat(tmp_path, f"{rule}[tools]\nauto_approve = true\n")
    person, _ = await chat.make(
        ("run_command", {"command": "echo hi"}), ("run_command", {"command": "$(printf echo) hi"})
    )
    [question] = person.questions
    assert question.input["command"] == "$(printf echo) hi"
    assert "rules.toml:1" in question.confirmation.message.replace("↩\n", "")
    assert len(question.levels) > 1


async def test_d3_only_a_rule_for_sensitive_actions_spares_the_question_about_one(tmp_path: Path) -> None:
    rule = '[[policy]]\ndecision = "allow"\nkind = "edit"\npaths = ["**"]\n'
    edit: tuple[str, JsonObject] = ("write_file", {"path": ".vscode/tasks.json", "content": "{}"})
    (tmp_path / "one").mkdir()
    chat = _Chat(tmp_path / "one", rule)
    person, _ = await chat.make(edit)
    assert [question.levels for question in person.questions] == [("once",)]
    (tmp_path / "two").mkdir()
    chat = _Chat(tmp_path / "two", f"{rule}sensitive = true\n")
    person, _ = await chat.make(edit)
    assert person.questions == []
    assert person.decisions == [(True, "rule", f"allowed by the rule at {chat.file}:1")]


@pytest.mark.parametrize(
    ("rule", "is_asked"),
    [
        ('kind = "execute"', False),
        ('tools = ["run_*"]', False),
        ('agent = "demo"', False),
        ('agent = ["other", "demo"]', False),
        ('kind = "tool"', True),
        ('kind = "edit"', True),
        ('tools = ["write_*"]', True),
        ('agent = "other"', True),
    ],
)
async def test_conditions_match_a_tool_by_what_it_does_its_name_and_its_model(
    tmp_path: Path, rule: str, *, is_asked: bool
) -> None:
    chat = _Chat(tmp_path, f'[[policy]]\ndecision = "allow"\n{rule}\n')
    person, _ = await chat.make(("run_command", {"command": "true"}))
    assert bool(person.questions) == is_asked


async def test_a_file_of_dragoman_itself_is_sensitive_to_every_tool(tmp_path: Path) -> None:
    chat = _Chat(tmp_path, '[[policy]]\ndecision = "allow"\nsensitive = true\n')
    chat.state = chat.folder / "deep"
    person, _ = await chat.make(("write_file", {"path": "deep/agreed/x", "content": "x"}))
    [question] = person.questions
    assert "belongs to Dragoman itself" in question.confirmation.message.replace("↩\n", "")


async def test_a_rule_that_is_added_while_the_chat_runs_counts_from_then_on(tmp_path: Path) -> None:
    chat = _Chat(tmp_path, "")
    script = ScriptedModel(
        Script((reply("done", when=When(round=1)), reply(call("run_command", {"command": "echo hi"}))))
    )
    person = _Person()
    with ChatSession(
        load(chat.file),
        "demo",
        state_dir=chat.state,
        workspace=(chat.folder,),
        tools=builtin_tools(),
        clock=SystemClock(),
        build_model=lambda _config, _name: script,
    ) as session:
        await session.answer("go", person, CancellationToken())
        chat.file.write_text('[[policy]]\ndecision = "deny"\ncommand = ["echo"]\nargs = "any"\n')
        session.permissions.rules.policy = policy_of(load(chat.file))
        await session.answer("go", person, CancellationToken())
        await session.close()
    assert [result.outcome for result in person.results] == ["ok", "denied"]


def test_the_action_is_for_the_journal_and_not_part_of_the_json() -> None:
    asked = QuestionAsked("1", "run_command", "Run?")
    assert "action" not in to_json(asked)
