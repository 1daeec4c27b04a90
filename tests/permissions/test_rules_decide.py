"""The order of decision with rules (scenario D4): each step against each other, and every combination."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from dragoman.permissions.action import Action
from dragoman.permissions.approvals import Approval
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import Allowed, Ask, RefusedByRule, StepDecision, decide, unasked
from dragoman.permissions.keys import approval_key
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import question_about
from dragoman.permissions.record import DecisionRecord
from dragoman.permissions.rules_in_force import RulesInForce
from dragoman.permissions.sensitive import Places
from dragoman.permissions.verdict import MatchedRule, RuleDecision, Verdict
from permissions.actions import WORKSPACE, action

STANDING = Approval("a7", "t", "k", "always", None, None, datetime.now(UTC))
URL = ("https://e.example/a",)


def _verdict(decision: RuleDecision, *, reason: str | None = "Careful.", sensitive: bool = False) -> Verdict:
    rule = MatchedRule(decision, "mine.toml", 3, reason)
    return Verdict(decision, (rule,), "", covers_sensitive=sensitive)


_DOUBT = Verdict(doubt="The rule at mine.toml:3 may apply: the command is not understood.")
_DENY, _ASK, _ALLOW = _verdict("deny"), _verdict("ask"), _verdict("allow")
_ALLOW_SENSITIVE = _verdict("allow", sensitive=True)
_BY_RULE = Allowed("allowed by the rule at mine.toml:3", "rule", rule_reason="Careful.")
_ASKED_BY_RULE = "The rule at mine.toml:3 asks about this every time: Careful."
_DENIED = RefusedByRule("The rule at mine.toml:3 denies it: Careful.")
_ONCE = Ask(needs_person=True, once=True)
_BY_MODE = Allowed("edits are accepted in this chat", "mode")

# Everything that allows, at once.
_EVERYTHING = {"all": True, "approval": True, "read_only": True, "urls": True, "accepts_edit": True}


def _decided(verdict: Verdict, **conditions: bool) -> StepDecision:
    settings = AutoApproval(
        conditions.get("all", False),
        {"t": False} if conditions.get("ineligible") else {},
        {"https://e.example": True} if conditions.get("urls") else {},
    )
    return decide(
        "t",
        settings,
        lambda: STANDING if conditions.get("approval") else None,
        verdict,
        sensitive=conditions.get("sensitive", False),
        always_ask=conditions.get("always_ask", False),
        read_only=conditions.get("read_only", False),
        urls=URL,
        accepts_edit=conditions.get("accepts_edit", False),
    )


@pytest.mark.parametrize(
    ("verdict", "conditions", "expected"),
    [
        # 1. A deny rule goes before everything.
        (_DENY, _EVERYTHING, _DENIED),
        (_DENY, {"ineligible": True, "sensitive": True, "always_ask": True}, _DENIED),
        # 2. `eligible = false` goes before an allow rule.
        (_ALLOW_SENSITIVE, {**_EVERYTHING, "ineligible": True}, _ONCE),
        # 3. A sensitive action is asked about, unless a rule covers exactly that.
        (_ALLOW, {**_EVERYTHING, "sensitive": True}, _ONCE),
        (_ALLOW_SENSITIVE, {"sensitive": True}, _BY_RULE),
        # 4. An ask rule goes before approvals and settings; the answer is for once.
        (_ASK, _EVERYTHING, Ask(_ASKED_BY_RULE, needs_person=True, once=True)),
        # Only a title is known: no rule allows it.
        (_ALLOW_SENSITIVE, {**_EVERYTHING, "always_ask": True}, Ask(once=True)),
        # 5. An allow rule.
        (_ALLOW, {}, _BY_RULE),
        (_ALLOW, _EVERYTHING, _BY_RULE),
        # 6. A standing approval, which a doubt does not take away; a read-only tool, which it does.
        (_DOUBT, {"approval": True}, Allowed("always approved", "approval", "a7")),
        (_DOUBT, {"read_only": True}, Ask(_DOUBT.doubt, needs_person=True)),
        # 7. A doubt goes before the settings.
        (_DOUBT, {"all": True, "urls": True}, Ask(_DOUBT.doubt, needs_person=True)),
        (_DOUBT, {"always_ask": True}, Ask(_DOUBT.doubt, needs_person=True, once=True)),
        (Verdict(), {"all": True}, Allowed("auto-approved", "setting")),
        (Verdict(), {"urls": True}, Allowed("auto-approved address", "setting")),
        # The mode that accepts edits stands where `auto_approve` does.
        (Verdict(), {"accepts_edit": True}, _BY_MODE),
        (Verdict(), {"accepts_edit": True, "approval": True}, Allowed("always approved", "approval", "a7")),
        (_DOUBT, {"accepts_edit": True}, Ask(_DOUBT.doubt, needs_person=True)),
        (_ASK, {"accepts_edit": True}, Ask(_ASKED_BY_RULE, needs_person=True, once=True)),
        (_DENY, {"accepts_edit": True}, _DENIED),
        (Verdict(), {"accepts_edit": True, "sensitive": True}, _ONCE),
        (Verdict(), {"accepts_edit": True, "ineligible": True}, _ONCE),
        (Verdict(), {"accepts_edit": True, "always_ask": True}, Ask(once=True)),
        # 8. Otherwise.
        (Verdict(), {}, Ask()),
    ],
)
def test_d4_the_first_step_that_applies_decides(
    verdict: Verdict, conditions: dict[str, bool], expected: StepDecision
) -> None:
    assert _decided(verdict, **conditions) == expected


_CONDITIONS = (
    "ineligible",
    "sensitive",
    "always_ask",
    "read_only",
    "approval",
    "all",
    "urls",
    "accepts_edit",
)
_VERDICTS = st.builds(
    lambda decision, doubt, covers: Verdict(
        decision,
        () if decision is None else (MatchedRule(decision, "f", 1),),
        doubt="It may apply." if doubt else None,
        covers_sensitive=covers,
    ),
    st.sampled_from([None, "allow", "ask", "deny"]),
    st.booleans(),
    st.booleans(),
)

_Result = Literal["refused", "asked", "allowed"]


def _reference(verdict: Verdict, on: dict[str, bool]) -> tuple[_Result, str]:
    """The order as the documents have it, one line for each step; and which step decides."""
    doubt = verdict.doubt is not None
    allow = verdict.decision == "allow" and not doubt
    steps: list[tuple[bool, _Result, str]] = [
        (verdict.decision == "deny", "refused", "deny"),
        (on["ineligible"], "asked", "eligible"),
        (on["sensitive"] and not (allow and verdict.covers_sensitive), "asked", "sensitive"),
        (verdict.decision == "ask", "asked", "ask"),
        (on["always_ask"], "asked", "title"),
        (allow, "allowed", "allow"),
        (on["approval"] or (on["read_only"] and not doubt), "allowed", "standing"),
        (doubt, "asked", "doubt"),
        (on["all"] or on["urls"], "allowed", "setting"),
        (on["accepts_edit"], "allowed", "mode"),
        (True, "asked", "otherwise"),
    ]
    return next((result, step) for applies, result, step in steps if applies)


@given(_VERDICTS, st.fixed_dictionaries({name: st.booleans() for name in _CONDITIONS}))
def test_d4_the_order_is_that_of_the_reference(verdict: Verdict, on: dict[str, bool]) -> None:
    result, step = _reference(verdict, on)
    decided = _decided(verdict, **on)
    assert {Allowed: "allowed", RefusedByRule: "refused", Ask: "asked"}[type(decided)] == result
    assert (isinstance(decided, Allowed) and decided.by == "mode") == (step == "mode")
    if isinstance(decided, Ask):
        is_doubt = verdict.doubt is not None
        assert decided.once == (step in {"eligible", "sensitive", "ask", "title"})
        assert decided.needs_person == (step in {"eligible", "sensitive", "ask", "doubt"} or is_doubt)
        # A person sees the rule, whatever else asks.
        assert (decided.because is not None) == (verdict.decision == "ask" or is_doubt)


@given(_VERDICTS, st.fixed_dictionaries({name: st.booleans() for name in _CONDITIONS}))
def test_d4_a_stricter_verdict_never_allows_more(verdict: Verdict, on: dict[str, bool]) -> None:
    denied = _decided(Verdict("deny", verdict.rules), **on)
    asked = _decided(Verdict("ask", verdict.rules), **on)
    assert isinstance(denied, RefusedByRule)
    assert isinstance(asked, Ask)


@given(_VERDICTS, st.sampled_from(["deny", "allow-reads", "allow", "ask"]), st.booleans())
def test_d5_without_a_person_what_a_rule_asks_about_is_refused_whatever_the_setting(
    verdict: Verdict,
    setting: Literal["deny", "allow-reads", "allow", "ask"],
    read: bool,  # noqa: FBT001 - drawn
) -> None:
    decided = _decided(verdict)
    if isinstance(decided, Ask) and (verdict.decision == "ask" or verdict.doubt):
        assert unasked(setting, needs_person=decided.needs_person, read=read) != "allowed"


def test_the_words_name_each_rule_once_and_are_bounded() -> None:
    rules = tuple(
        MatchedRule("allow", f"{'x' * 500}.toml", line, "why\n\x1b[2J" * 100) for line in (1, 1, 2, 3, 4, 5)
    )
    decided = _decided(Verdict("allow", (*rules, MatchedRule("allow", "b", 6))))
    assert isinstance(decided, Allowed)
    assert decided.why.startswith("allowed by the rules at xxx")
    assert ", 3 more" in decided.why
    assert len(decided.reason) < 1_500
    assert "\n" not in decided.reason
    assert "\x1b" not in decided.reason


class _CountingJudge:
    """Says the same of every action, and counts."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.seen: list[tuple[Action, Places]] = []

    def judge(self, action: Action, places: Places) -> Verdict:
        self.seen.append((action, places))
        return self.verdict


def test_d4_a_verdict_is_made_once_for_a_decision_with_all_folders() -> None:
    judge = _CountingJudge(_ASK)
    permissions = PermissionServices(rules=RulesInForce(judge), own=("/state",))
    make = action(input={"command": "make"})
    permissions.approvals.grant("s", make.permission_tool, approval_key(make), "session")
    assert isinstance(permissions.decide(make, "s", (WORKSPACE, "/other")), Ask)
    [(judged, places)] = judge.seen
    assert judged == make
    assert (places.workspace, places.own) == ((WORKSPACE, "/other"), ("/state",))
    permissions.rules.policy = None
    assert permissions.decide(make, "s", (WORKSPACE,)) == Allowed(
        "approved for this session", "approval", "s1"
    )


def test_d6_the_question_shows_which_rule_asks_and_offers_nothing_that_lasts() -> None:
    make = action(input={"command": "make"})
    plain = question_about(make)
    asked = question_about(make, Ask(_ASKED_BY_RULE, needs_person=True, once=True))
    assert asked.plain.startswith(f"A rule, so you are asked:\n    {_ASKED_BY_RULE}")
    assert "Careful." in asked.message
    assert (plain.covers is not None, asked.covers) == (True, None)
    in_doubt = question_about(make, Ask(_DOUBT.doubt, needs_person=True))
    assert in_doubt.covers == plain.covers


def test_what_a_rule_asks_about_gets_no_lasting_approval_from_the_record() -> None:
    record, services = DecisionRecord(), PermissionServices()
    make = action(input={"command": "make"})
    asked = record.add_request(make, "c", WORKSPACE, once=True)
    assert record.allow(asked, "always", services.approvals) is None
