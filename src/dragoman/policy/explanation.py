"""What the rules say of one action, and why, for `dragoman policy explain` and `/policy explain`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.sensitive import Places
from dragoman.permissions.verdict import MatchedRule
from dragoman.policy.outcome import RuleOutcome, outcome
from dragoman.policy.policy import JudgedCommand, Judgement, Policy
from dragoman.policy.rule_text import in_words
from dragoman.policy.simple_command import SimpleCommand

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    action: Action
    outcome: RuleOutcome
    judgement: Judgement
    policy: Policy

    def lines(self) -> Iterator[str]:
        """The decision, the rules that match, and what was taken apart. Not escaped: they hold what an agent sent."""
        yield f"{self.outcome.decision}: {self.action.title}"
        yield f"  because {self.outcome.reason}"
        if not self.policy.rules:
            yield "  There are no rules. `dragoman policy init` offers a first set."
            return
        texts = {(each.file, each.line): in_words(each.rule) for each in self.policy.rules}
        if self.outcome.verdict.rules:
            yield "rules that match:"
            yield from (
                f"  {rule.where}: {texts[rule.file, rule.line]}" for rule in self.outcome.verdict.rules
            )
        if self.judgement.commands:
            yield "simple commands:"
            yield from (f"  {_spelled(each.command)}  ({_judged(each)})" for each in self.judgement.commands)
        if self.judgement.unsure:
            yield f"not understood: {'; '.join(self.judgement.unsure)}"
        if self.outcome.verdict.doubt not in (None, self.outcome.reason):
            yield f"doubt: {self.outcome.verdict.doubt}"
        if self.action.sensitive is not None and self.action.sensitive not in self.outcome.reason:
            yield f"sensitive: {self.action.sensitive}"


def explain(action: Action, places: Places, policy: Policy, settings: AutoApproval) -> Explanation:
    """What would happen to an action by the rules and `eligible`, without approvals and other settings."""
    judgement = policy.judgement(action, places, explains=True)
    return Explanation(action, outcome(judgement.verdict, action, settings), judgement, policy)


def _spelled(command: SimpleCommand) -> str:
    """A command with its variables and redirects."""
    variables = [f"{name}={value.text}" for name, value in command.assignments]
    redirects = [f"{'>' if each.is_write else '<'} {each.path.text}" for each in command.redirects]
    return " ".join([*variables, str(command), *redirects])


def _judged(each: JudgedCommand) -> str:
    if each.command.is_wrapper:
        return "runs the next one"
    if each.rules:
        return ", ".join(map(_matched, each.rules))
    return "; ".join(f"not by the rule at {rule.where}: {why}" for rule, why in each.objections) or "no rule"


def _matched(rule: MatchedRule) -> str:
    return f"{rule.decision} at {rule.where}"
