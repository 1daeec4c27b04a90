"""Recorded decisions, judged by rules. `dragoman policy test` shows the result: tests/cli/test_policy_command.py."""

from typing import Any

import pytest

from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.decisions import RecordedDecision
from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.policy.dry_run import dry_run
from dragoman.policy.outcome import RuleOutcome, outcome
from dragoman.policy.rule import PolicyRule
from policy.judging import PLACES, command, deny, policy


def _counts(by: Any, why: str | None, *rules: PolicyRule) -> dict[tuple[str, str], int]:
    def judge(action: Action, workspace: str) -> RuleOutcome:
        del workspace
        return outcome(policy(*rules).judge(action, PLACES), action, AutoApproval())

    action = command("make")
    asked = PermissionRequested("p", "claude", "execute", "tool", "digest", action=action)
    decided = PermissionDecided("p", is_allowed=True, by=by, where="terminal", seconds=1, why=why)
    return dict(dry_run([RecordedDecision("journal", 0, asked, decided, None)], judge).counts)


@pytest.mark.parametrize(("by", "why"), [("read-only", None), ("rule", "read-only")])
def test_what_only_reads_was_allowed_by_no_rule_and_is_still_allowed(by: str, why: str | None) -> None:
    assert _counts(by, why) == {("read-only", "allow"): 1}
    assert _counts(by, why, deny(command=("make",))) == {("read-only", "deny"): 1}


def test_what_a_rule_allowed_is_asked_about_without_the_rule() -> None:
    assert _counts("rule", "allowed by the rule at file:1") == {("rule", "ask"): 1}
