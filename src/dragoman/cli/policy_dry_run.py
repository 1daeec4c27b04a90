"""`dragoman policy test`: what rules would have decided about the actions of the past."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime

from dragoman.cli.decision_history import recorded_decisions, what
from dragoman.cli.errors import DONE
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.table import table
from dragoman.config import Config, load, rules_of
from dragoman.lm.json import JsonObject, encode_text
from dragoman.models import auto_approval, own_places
from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.policy.dry_run import DryRun, JudgedDecision, JudgeInWorkspace, dry_run
from dragoman.policy.outcome import RuleOutcome, outcome
from dragoman.policy.policy import Policy

__all__ = ["judge_in_workspace", "run"]

_NOW = ("allow", "ask", "deny")


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    rules = config if arguments.policy is None else load(arguments.policy, context.known_agents)
    decisions = recorded_decisions(context, arguments.since)
    result = dry_run(decisions, judge_in_workspace(config, context, Policy(rules_of(rules))))
    if arguments.json:
        print(encode_text(_as_json(result)))
    else:
        _show(result)
    return DONE


def judge_in_workspace(config: Config, context: CommandContext, policy: Policy) -> JudgeInWorkspace:
    """Judges by these rules, with the settings of the configuration."""
    settings = auto_approval(config)
    own = own_places(config, context.state_dir)

    def judge(action: Action, workspace: str) -> RuleOutcome:
        places = Places.around((workspace,), own)
        return outcome(policy.judge(action, places), action, settings)

    return judge


def _show(result: DryRun) -> None:
    if not result.judged:
        say("No decision can be judged: none is recorded with its content.")
    _show_changed("A person said no, and the rules would allow it", result.loosened)
    _show_changed("A person said yes, and the rules would deny it", result.tightened)
    if result.judged:
        counts = result.counts
        rows = [
            (then, *(str(counts[then, now]) for now in _NOW)) for then in sorted({then for then, _ in counts})
        ]
        sums = [str(sum(counts[then, now] for then, *_ in rows)) for now in _NOW]
        print(table(("DECIDED BY", "ALLOW", "ASK", "DENY"), [*rows, ("all", *sums)]))
        asked = sum(each.then.startswith("person") for each in result.judged)
        say(f"The rules would have answered {result.saved} of {asked} questions to a person.")
    if result.without_content:
        say(f"{result.without_content} more have no content: it was deleted, or is not kept.")


def _show_changed(title: str, changed: Iterable[JudgedDecision]) -> None:
    rows = [(_when(each), each.action.agent, what(each.recorded), _rules(each)) for each in changed]
    say(f"{title}: {len(rows) or 'none'}")
    if rows:
        print(table(("WHEN", "AGENT", "WHAT", "RULE"), rows))


def _when(each: JudgedDecision) -> str:
    return datetime.fromtimestamp(each.recorded.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _rules(each: JudgedDecision) -> str:
    return ", ".join(rule.where for rule in each.now.verdict.rules if rule.decision == each.now.decision)


def _as_json(result: DryRun) -> JsonObject:
    return {
        "decisions": [
            {"then": then, "now": now, "count": count} for (then, now), count in sorted(result.counts.items())
        ],
        "questionsSaved": result.saved,
        "withoutContent": result.without_content,
        "noThatWouldBeAllowed": [_changed_as_json(each) for each in result.loosened],
        "yesThatWouldBeDenied": [_changed_as_json(each) for each in result.tightened],
    }


def _changed_as_json(each: JudgedDecision) -> JsonObject:
    return {
        "at": datetime.fromtimestamp(each.recorded.at, UTC),
        "conversation": each.recorded.journal,
        "agent": each.action.agent,
        "what": what(each.recorded),
        "rules": each.now.rules_as_json,
    }
