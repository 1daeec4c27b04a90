"""Rules and actions for tests, in few words."""

from __future__ import annotations

from typing import Any

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.policy.policy import Judgement, Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from permissions.actions import HOME, WORKSPACE, action

__all__ = ["PLACES", "allow", "ask", "command", "deny", "judgement", "policy", "verdict"]

PLACES = Places((WORKSPACE,), HOME)


def allow(**conditions: Any) -> PolicyRule:
    return PolicyRule(decision="allow", **conditions)


def ask(**conditions: Any) -> PolicyRule:
    return PolicyRule(decision="ask", **conditions)


def deny(**conditions: Any) -> PolicyRule:
    return PolicyRule(decision="deny", **conditions)


def policy(*rules: PolicyRule) -> Policy:
    """The rules as if each stood on the line of its number."""
    return Policy([LocatedRule(rule, "dragoman.toml", number) for number, rule in enumerate(rules, start=1)])


def command(line: str | list[str], *, places: Places = PLACES, **fields: Any) -> Action:
    return action(places=places, kind="execute", input={"command": line, **fields})


def judgement(what: Action | str | list[str], *rules: PolicyRule, places: Places = PLACES) -> Judgement:
    asked = what if isinstance(what, Action) else command(what, places=places)
    return policy(*rules).judgement(asked, places)


def verdict(what: Action | str | list[str], *rules: PolicyRule, places: Places = PLACES) -> str:
    """allow, ask or deny; none if no rule decides, doubt if one may apply."""
    found = judgement(what, *rules, places=places).verdict
    return found.decision or ("none" if found.doubt is None else "doubt")
