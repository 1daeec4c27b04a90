"""What happens to an action by the rules alone: the order of decision without approvals and settings."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.verdict import RuleDecision, Verdict

__all__ = ["RuleOutcome", "outcome"]


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What would happen to an action, the verdict of the rules, and why, in a sentence."""

    decision: RuleDecision
    verdict: Verdict
    reason: str


def outcome(verdict: Verdict, action: Action, settings: AutoApproval) -> RuleOutcome:
    """Of `settings` only `eligible` counts."""
    # Our own tools are asked about by their names, agents' actions by the permission tool of their class.
    tool = action.tool if action.kind == "tool" and action.tool else action.permission_tool
    if verdict.decision == "deny":
        return RuleOutcome("deny", verdict, verdict.reason or "a rule denies it")
    if settings.must_ask(tool):
        return RuleOutcome("ask", verdict, f"[tools.eligible] says {tool} = false")
    if action.sensitive is not None and not (verdict.decision == "allow" and verdict.covers_sensitive):
        return RuleOutcome("ask", verdict, f"it is sensitive: {action.sensitive}")
    if verdict.decision == "ask":
        return RuleOutcome("ask", verdict, verdict.reason or "a rule says that a person is asked")
    if verdict.decision == "allow" and action.has_substance:
        return RuleOutcome("allow", verdict, verdict.reason or "rules allow all of it")
    reason = verdict.reason or "no rule decides about it"
    return RuleOutcome("ask", verdict, reason if action.has_substance else "the request has only a title")
