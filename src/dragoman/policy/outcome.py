"""What the rules come to for an action: the order of decision without approvals and settings."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.sensitive import Places
from dragoman.permissions.verdict import Judge, RuleDecision, Verdict

__all__ = ["RuleOutcome", "outcome"]


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What would happen to an action, the rules that match it, and why, in a sentence."""

    decision: RuleDecision
    verdict: Verdict
    reason: str


def outcome(judge: Judge | None, action: Action, places: Places, settings: AutoApproval) -> RuleOutcome:
    """Of `settings` only `eligible` counts."""
    verdict = Verdict() if judge is None else judge.judge(action, places)
    tool = action.permission_tool
    if verdict.decision == "deny":
        return RuleOutcome("deny", verdict, verdict.reason)
    if settings.must_ask(tool):
        return RuleOutcome("ask", verdict, f"[tools.eligible] has {tool} = false.")
    if action.sensitive is not None and not (verdict.decision == "allow" and verdict.covers_sensitive):
        return RuleOutcome("ask", verdict, f"It is sensitive: {action.sensitive}.")
    if not action.has_substance:
        return RuleOutcome("ask", verdict, "The request has only a title.")
    return RuleOutcome(verdict.decision or "ask", verdict, verdict.reason)
