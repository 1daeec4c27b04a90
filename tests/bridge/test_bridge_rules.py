"""Rules decide before a person is asked (D4 to D6): an agent's requests, through the whole bridge, with real rules."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bridge.consumer import TOOLS, Bridge, Heard, result
from dragoman.acp.messages import PERMISSION_REFUSED
from dragoman.config import load
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import ThinkingPart, ToolCallPart
from dragoman.lm.gfm import escape
from dragoman.models import policy_of
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import PermissionSetting
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import question_about
from dragoman.store import Database

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_ALLOW_LOG = (
    '[[policy]]\ndecision = "allow"\ncommand = ["git", "log"]\nargs = "any"\nreason = "It only reads."\n'
)
_DENY_PUSH = (
    '[[policy]]\ndecision = "deny"\ncommand = ["git", "push"]\nargs = "any"\nreason = "Ask a colleague."\n'
)
_ASK_MAKE = '[[policy]]\ndecision = "ask"\ncommand = ["make"]\nargs = "any"\nreason = "It takes an hour."\n'


def _run(command: str) -> list[object]:
    call = {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": command}}
    return ["ask", call, _BOTH]


@pytest_asyncio.fixture
async def store(tmp_path: Path, bridge: Bridge) -> AsyncIterator[SqliteJournals]:
    with Database.open(tmp_path / "state") as database:
        yield bridge.store_in(database)
        await bridge.close()


def _rules(bridge: Bridge, text: str) -> str:
    """Put the rules of a file in force. Returns the file's name."""
    file = bridge.folder / "rules.toml"
    file.write_text(text)
    bridge.permissions.rules.policy = policy_of(load(file))
    return str(file)


def _lines(answer: Heard) -> list[str]:
    """What is shown about steps that are not a call."""
    thought = "".join(str(part.value) for part in answer.parts if isinstance(part, ThinkingPart))
    return [line for line in thought.splitlines() if line.startswith("✓")]


async def _decision(store: SqliteJournals) -> tuple[bool, str, str | None]:
    """The only decision in the journal, about the only request in it."""
    events = [entry.event for _, entry in await store.permissions(0)]
    [asked] = [event for event in events if isinstance(event, PermissionRequested)]
    [decided] = [event for event in events if isinstance(event, PermissionDecided)]
    assert decided.id == asked.id
    return decided.is_allowed, decided.by, decided.why


def _question(bridge: Bridge, call: ToolCallPart) -> tuple[str, str | None]:
    """What the person sees, and what a lasting yes would cover."""
    pending = bridge.grants.pending(call.input.get("nonce"))
    assert pending is not None
    question = question_about(pending.action, pending.ask)
    return question.plain.replace("↩\n    ", ""), question.covers


async def test_d6_what_a_rule_allows_is_shown_in_one_line_and_recorded(
    bridge: Bridge, store: SqliteJournals
) -> None:
    file = _rules(bridge, _ALLOW_LOG)
    answer = await bridge.chat().do(_run("git log --oneline | git log"), ["say", "on"])
    assert answer.calls == ()
    assert "<p: the-allow_once>" in answer.text
    line = f"Fake may run: git log --oneline | git log · allowed by the rule at {file}:1"
    assert _lines(answer) == [f"✓ {escape(line)}"]
    assert await _decision(store) == (True, "rule", f"allowed by the rule at {file}:1: It only reads.")
    [recorded] = bridge.permissions.record.newest_first()
    assert (recorded.allowed, recorded.by) == (True, "rule")


async def test_d6_what_a_rule_denies_is_refused_with_its_reason_for_person_and_agent(
    bridge: Bridge, store: SqliteJournals
) -> None:
    file = _rules(bridge, _ALLOW_LOG + _DENY_PUSH)
    # Nothing that allows counts against it.
    bridge.permissions = _with_settings(bridge.permissions, AutoApproval(all=True))
    answer = await bridge.chat(permission="allow").do(_run("git log && git push origin"), ["say", "on"])
    assert answer.calls == ()
    assert "<p: the-reject_once>" in answer.text
    why = f"The rule at {file}:6 denies it: Ask a colleague."
    assert f"You were not asked, so it was refused. {escape(why)}" in answer.text
    assert bridge.noted("remark") == [
        {"dragoman": {"reason": f"The user was not asked. {why}", "unasked": True}}
    ]
    assert await _decision(store) == (False, "rule", why)


def _with_settings(permissions: PermissionServices, settings: AutoApproval) -> PermissionServices:
    return PermissionServices(permissions.approvals, settings, permissions.grants, rules=permissions.rules)


async def test_d4_an_ask_rule_asks_though_the_action_was_approved_and_says_why(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(_run("make test"))
    await chat.give(result(asked.calls[0], "no"))
    [recorded] = bridge.permissions.record.newest_first()
    assert bridge.permissions.record.allow(recorded.id, "session", bridge.permissions.approvals)
    file = _rules(bridge, _ASK_MAKE)
    again = await chat.do(_run("make test"))
    [call] = again.calls
    question, covers = _question(bridge, call)
    assert question.startswith(
        f"A rule, so you are asked:\n    The rule at {file}:1 asks about this every time: It takes an hour."
    )
    assert covers is None
    answer = await chat.give(bridge.approve(call))
    assert "<p: the-allow_once>" in answer.text
    newest = bridge.permissions.record.newest_first()[0]
    assert (newest.allowed, newest.by, newest.levels) == (True, "person", ())


@pytest.mark.parametrize("permission", ["deny", "allow-reads", "allow"])
async def test_d5_an_ask_rule_refuses_where_nobody_can_be_permission_requested(
    bridge: Bridge, store: SqliteJournals, permission: PermissionSetting
) -> None:
    file = _rules(bridge, _ASK_MAKE)
    chat = bridge.chat(tools=TOOLS, permission=permission)
    answer = await chat.do(_run("make"))
    assert "<p: the-reject_once>" in answer.text
    because = f"The rule at {file}:1 asks about this every time: It takes an hour."
    assert f"You were not asked, so it was refused. {escape('The client offers no tool ')}" in answer.text
    assert escape(because) in answer.text
    [remark] = bridge.noted("remark")
    assert because in str(remark)
    assert await _decision(store) == (False, "unasked", f"{because} No person could be asked.")
    # What no rule asks about is left to the setting.
    other = await chat.do(_run("ls"))
    assert ("the-allow_once" in other.text) == (permission == "allow")


async def test_d5_a_doubt_refuses_where_nobody_can_be_permission_requested(bridge: Bridge) -> None:
    _rules(bridge, _DENY_PUSH)
    chat = bridge.chat(tools=TOOLS, permission="allow")
    answer = await chat.do(_run("git $WHAT origin"))
    assert "<p: the-reject_once>" in answer.text
    assert "This needs a person, whatever the settings say." in answer.text


async def test_d4_a_doubt_asks_and_an_approval_of_exactly_this_action_counts(bridge: Bridge) -> None:
    _rules(bridge, _DENY_PUSH)
    bridge.permissions = _with_settings(bridge.permissions, AutoApproval(all=True))
    chat = bridge.chat()
    assert (await chat.do(_run("make"))).calls == ()
    asked = await chat.do(_run("git $WHAT origin"))
    [call] = asked.calls
    question, covers = _question(bridge, call)
    assert question.startswith("A rule, so you are asked:")
    assert "rules.toml:1" in question
    assert covers is not None
    await chat.give(result(call, "no"))
    [recorded, *_] = bridge.permissions.record.newest_first()
    assert bridge.permissions.record.allow(recorded.id, "session", bridge.permissions.approvals)
    assert (await chat.do(_run("git $WHAT origin"))).calls == ()


async def test_d3_only_a_rule_for_sensitive_actions_allows_one(bridge: Bridge) -> None:
    rule = '[[policy]]\ndecision = "allow"\nkind = "execute"\n'
    _rules(bridge, rule)
    chat = bridge.chat()
    command = "rm -rf .git/hooks"
    asked = await chat.do(_run(command))
    assert [call.name for call in asked.calls] == ["dragoman-agent-action-sensitive"]
    await chat.give(result(asked.calls[0], "no"))
    _rules(bridge, f"{rule}sensitive = true\n")
    assert "<p: the-allow_once>" in (await chat.do(_run(command))).text


async def test_q5_no_rule_allows_what_has_only_a_title_but_a_rule_denies_it(bridge: Bridge) -> None:
    bare: list[object] = ["ask", {"toolCallId": "p", "title": "Bash", "kind": "execute"}, _BOTH]
    _rules(bridge, '[[policy]]\ndecision = "allow"\nsensitive = true\n')
    chat = bridge.chat()
    asked = await chat.do(bare)
    assert len(asked.calls) == 1
    await chat.give(result(asked.calls[0], "no"))
    _rules(bridge, '[[policy]]\ndecision = "deny"\nkind = "execute"\n')
    assert "<p: the-reject_once>" in (await chat.do(bare)).text


async def test_d6_rules_hold_for_files_that_an_agent_reads_and_writes_through_us(bridge: Bridge) -> None:
    notes, secret = bridge.folder / "notes.txt", bridge.folder / ".env"
    notes.write_text("notes")
    secret.write_text("TOKEN=1")
    file = _rules(
        bridge,
        '[[policy]]\ndecision = "allow"\nkind = ["edit", "read"]\npaths = ["**"]\nsensitive = true\n'
        '[[policy]]\ndecision = "deny"\npaths = ["private/**"]\nreason = "It is private."\n',
    )
    chat = bridge.chat(fs=True, tools=TOOLS)
    answer = await chat.do(["write", str(notes), "changed"], ["read", str(secret)], ["read", str(notes)])
    assert answer.calls == ()
    assert notes.read_text() == "changed"
    # An ordinary read needs no permission, so no line tells of a rule. The other two have one each.
    assert len(_lines(answer)) == 2
    private = bridge.folder / "private"
    private.mkdir()
    (private / "a").write_text("a")
    answer = await chat.do(["read", str(private / "a")], ["write", str(private / "a"), "b"])
    assert (private / "a").read_text() == "a"
    errors = bridge.noted("file")[-2:]
    assert [error["code"] for error in errors] == [PERMISSION_REFUSED] * 2
    assert all(f"The rule at {file}:6 denies it: It is private." in str(error) for error in errors)


async def test_d4_a_deny_rule_holds_for_tools_of_the_consumer(bridge: Bridge) -> None:
    _rules(bridge, '[[policy]]\ndecision = "deny"\ntools = ["look"]\n')
    own = {
        "toolCallId": "c1",
        "title": "look",
        "kind": "other",
        "rawInput": {"server": "{server}", "tool": "look"},
    }
    answer = await bridge.chat().do(["announce", "c1", "look"], ["ask", own, _BOTH])
    assert answer.calls == ()
    assert "<c1: the-reject_once>" in answer.text
