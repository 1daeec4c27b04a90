"""Checks a rule's own examples: what it must match, and what it must not match."""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from dragoman.permissions.action import Action
from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule

__all__ = ["failed"]

_HOME = "/home/user"
_WORKSPACE = f"{_HOME}/workspace"


def failed(rule: PolicyRule) -> Iterator[tuple[str, int, str]]:
    """The examples that the rule gets wrong: the key, the number of the element, and why.

    An example is a command, an address, a path or a tool's name, by the first of these conditions that the rule has.
    Paths are looked up in an empty workspace, so that the result depends on nothing but the rule.
    """
    policy = Policy([LocatedRule(rule, "", 0)])
    workspace = (rule.workspace,) if isinstance(rule.workspace, str) else rule.workspace or (_WORKSPACE,)
    places = Places((os.path.expanduser(workspace[0]),), _HOME)  # noqa: PTH111 - never fails
    for key, texts, must_match in (
        ("examples", rule.examples, True),
        ("counterexamples", rule.counterexamples, False),
    ):
        for number, text in enumerate(texts):
            action = _action(rule, text, places)
            judgement = policy.judgement(action, places)
            matches = judgement.verdict.decision == rule.decision
            if matches is not must_match:
                why = f" Not understood: {'; '.join(judgement.unsure)}." if judgement.unsure else ""
                if must_match and rule.decision == "allow" and action.sensitive and not rule.sensitive:
                    why = f" It is sensitive: {action.sensitive}."
                yield key, number, f"the rule {'matches' if matches else 'does not match'} it.{why}"


def _action(rule: PolicyRule, text: str, places: Places) -> Action:
    """An action that the example stands for, described as one of an agent."""
    agent = rule.agent if isinstance(rule.agent, str) else (rule.agent or ("example",))[0]
    kind = rule.kind if isinstance(rule.kind, str) else (rule.kind or ("edit",))[0]
    given: dict[str, object]
    if rule.command is not None:
        kind, given = "execute", {"command": text}
    elif rule.urls is not None:
        kind, given = "fetch", {"url": text}
    elif rule.paths is not None:
        given = {"path": places.absolute(text, places.workspace[0])}
    else:
        given = {"example": text}
    tool = text if not given.keys() - {"example"} else None if rule.tools is None else rule.tools[0]
    return describe(agent=agent, agent_name=agent, places=places, kind=kind, tool=tool, input=given)
