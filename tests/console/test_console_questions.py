"""Questions and outcomes as JSON."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given

from console.asking import question_of
from dragoman.frontends.console.questions import outcome_json, question_json
from dragoman.permissions.approvals import LEVELS
from dragoman.permissions.decide import Ask
from dragoman.permissions.inbox import InboxDecision, InboxOutcome
from dragoman.permissions.verdict import MatchedRule
from dragoman.visible import hides
from lm.rendering import hostile_text


def test_a_question_has_what_a_person_needs() -> None:
    question = question_of(kind="execute", input={"command": "git push"})
    shown = question_json(question, key="alice", available_levels=LEVELS, may_make_rules=True)
    assert {name: shown[name] for name in ("title", "agent", "agent_name", "client", "key", "class")} == {
        "title": "Claude Code wants to run a command",
        "agent": "claude",
        "agent_name": "Claude Code",
        "client": "openai-python/3.49",
        "key": "alice",
        "class": "execute",
    }
    assert shown["sections"] == [
        {"label": "Command", "text": "git push", "language": "sh", "note": "", "inline": False},
        {"label": "Folder", "text": "/srv/project", "language": "", "note": "", "inline": True},
        {"label": "Agent", "text": "Claude Code (claude)", "language": "", "note": "", "inline": True},
        {"label": "Title by the agent", "text": "Do it", "language": "", "note": "", "inline": True},
    ]
    assert shown["levels"] == ["once", "session", "workspace", "always", "rule"]
    assert shown["covers"] == "exactly this request of Claude Code: run git push, in /srv/project"
    assert (shown["state"], shown["sensitive"], shown["why"]) == ("waiting", None, None)


@pytest.mark.parametrize(("ask", "command"), [(Ask(once=True), "git push"), (Ask(), "cat ~/.ssh/id_rsa")])
def test_what_can_be_allowed_only_once_has_one_level(ask: Ask, command: str) -> None:
    question = question_of(ask, kind="execute", input={"command": command})
    shown = question_json(question, key=None, available_levels=LEVELS, may_make_rules=True)
    assert (shown["covers"], shown["levels"]) == (None, ["once"])


def test_rules_that_ask_are_named_with_their_reasons() -> None:
    rule = MatchedRule("ask", "/etc/own.toml", 3, "look\u202eout")
    ask = Ask("The rule asks.", needs_person=True, once=True, rules=(rule,))
    shown = question_json(question_of(ask), key=None, available_levels=LEVELS, may_make_rules=True)
    assert shown["why"] == "The rule asks."
    assert shown["rules"] == [
        {"decision": "ask", "file": "/etc/own.toml", "line": 3, "reason": "look<U+202E>out"}
    ]


def test_a_long_text_is_cut_unless_it_is_wanted_whole() -> None:
    question = question_of(kind="execute", input={"command": "x" * 9_000})
    cut = question_json(question, key=None, available_levels=LEVELS, may_make_rules=True)
    whole = question_json(question, key=None, available_levels=LEVELS, may_make_rules=True, is_whole=True)
    assert (cut["is_cut"], whole["is_cut"]) == (True, False)
    assert isinstance(whole["sections"], list)
    assert whole["sections"][0]["text"] == "x" * 9_000


@given(hostile_text, hostile_text)
def test_nothing_in_a_question_hides(command: str, title: str) -> None:
    question = question_of(title=title, kind="execute", input={"command": f"x {command}", "y": title})

    def check(value: object) -> None:
        match value:
            case dict():
                for each in value.values():
                    check(each)
            case list():
                for each in value:
                    check(each)
            case str():
                # A code point without a character is drawn as a box.
                drawn = (each for each in value if each != "\n" and unicodedata.category(each) != "Cn")
                assert not any(map(hides, drawn))
            case _:
                pass

    check(question_json(question, key=None, available_levels=LEVELS, may_make_rules=True))


def test_outcomes_name_who_decided_and_what() -> None:
    rule = InboxDecision(True, "phone", "fine", new_rule="/own.toml:3")  # noqa: FBT003 - as it is made
    assert outcome_json(InboxOutcome("allowed", 5.0, rule)) == {
        "state": "allowed",
        "by": "phone",
        "at": 5.0,
        "level": "rule",
        "reason": "fine",
        "rule": "/own.toml:3",
    }
    denied = outcome_json(InboxOutcome("denied", 5.0, InboxDecision(False, "phone", "no")))  # noqa: FBT003 - as above
    assert (denied["state"], denied["level"], denied["reason"]) == ("denied", "once", "no")
    expired = outcome_json(InboxOutcome("expired", 5.0))
    assert (expired["state"], expired["by"], expired["level"]) == ("expired", None, None)
