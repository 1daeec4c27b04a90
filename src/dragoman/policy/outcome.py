"""What happens to an action by the rules alone: the order of decision without approvals and settings."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.lm import JsonObject
from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import Allowed, Ask, RefusedByRule, decide
from dragoman.permissions.verdict import RuleDecision, Verdict

__all__ = ["RuleOutcome", "outcome"]


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What would happen to an action, the verdict of the rules, and why, as part of a sentence."""

    decision: RuleDecision
    verdict: Verdict
    reason: str
    # No rule decides, and nothing needs a person: approvals and settings may allow it.
    is_open: bool = False

    @property
    def rules_as_json(self) -> list[JsonObject]:
        """The rules that match, for the JSON of commands."""
        return [
            {"file": rule.file, "line": rule.line, "decision": rule.decision} for rule in self.verdict.rules
        ]


def outcome(verdict: Verdict, action: Action, settings: AutoApproval) -> RuleOutcome:
    """Of `settings` only `eligible` counts."""
    # Our own tools are asked about by their names, agents' actions by the permission tool of their class.
    tool = action.tool if action.kind == "tool" and action.tool else action.permission_tool
    only_eligible = AutoApproval(eligible=settings.eligible)
    step = decide(
        tool,
        only_eligible,
        lambda: None,
        verdict,
        sensitive=action.sensitive is not None,
        always_ask=not action.has_substance,
    )
    match step:
        case RefusedByRule():
            return RuleOutcome("deny", verdict, verdict.reason or "a rule denies it")
        case Allowed():
            return RuleOutcome("allow", verdict, verdict.reason or "rules allow all of it")
        case Ask(once=once):
            ineligible = f"[tools.eligible] says {tool} = false" if only_eligible.must_ask(tool) else None
            return RuleOutcome("ask", verdict, ineligible or _why_asked(verdict, action), is_open=not once)


def _why_asked(verdict: Verdict, action: Action) -> str:
    if action.sensitive is not None:
        return f"it is sensitive: {action.sensitive}"
    if verdict.decision == "ask":
        return verdict.reason or "a rule asks about it"
    if not action.has_substance:
        return "the request has only a title"
    return verdict.reason or "no rule decides about it"
