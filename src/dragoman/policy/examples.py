"""Checks a rule's own examples: what it must match, and what it must not match."""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.policy.action_text import Meaning, action_from_text
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule, as_texts

__all__ = ["failed_examples"]

_HOME = "/home/user"
_WORKSPACE = f"{_HOME}/workspace"


def failed_examples(rule: PolicyRule) -> Iterator[tuple[str, int, str]]:
    """The examples that the rule gets wrong: the key, the index in its list, and why.

    An example is a command, an address, a path or a tool's name: the first of these that the rule has a condition for.
    No file is looked up, so the result depends on the rule alone.
    """
    policy = Policy([LocatedRule(rule, "", 0)])
    workspace = (as_texts(rule.workspace) or (_WORKSPACE,))[0]
    places = Places((os.path.expanduser(workspace),), _HOME)  # noqa: PTH111 - never fails
    for key, texts, must_match in (
        ("examples", rule.examples, True),
        ("counterexamples", rule.counterexamples, False),
    ):
        for number, text in enumerate(texts):
            action = _action(rule, text, places)
            judgement = policy.judgement(action, places, explains=True)
            matches = judgement.verdict.decision == rule.decision
            if matches is not must_match:
                reasons = [reason for each in judgement.commands for _, reason in each.objections]
                why = f" {reasons[0][:1].upper()}{reasons[0][1:]}." if must_match and reasons else ""
                why = f" Not understood: {'; '.join(judgement.unsure)}." if judgement.unsure else why
                if must_match and rule.decision == "allow" and action.sensitive and not rule.sensitive:
                    why = f" It is sensitive: {action.sensitive}."
                yield key, number, f"the rule {'matches' if matches else 'does not match'} it.{why}"


def _action(rule: PolicyRule, text: str, places: Places) -> Action:
    """The action that an example stands for. What it does not say is as the rule wants it."""
    return action_from_text(
        _meaning(rule),
        text,
        places,
        agent=(as_texts(rule.agent) or ("example",))[0],
        kind=(as_texts(rule.kind) or (None,))[0],
        tool=(as_texts(rule.tools) or (None,))[0],
    )


def _meaning(rule: PolicyRule) -> Meaning:
    if rule.command is not None:
        return "command"
    if rule.urls is not None:
        return "url"
    return "tool" if rule.paths is None else "path"
