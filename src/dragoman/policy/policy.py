"""All rules of a configuration, applied to an action."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.permissions.verdict import Verdict
from dragoman.policy.rule import LocatedRule

__all__ = ["Policy"]


class Policy:
    """The rules in force. The strictest rule that matches decides; their order does not matter."""

    def __init__(self, rules: Sequence[LocatedRule]) -> None:
        self.rules = tuple(rules)

    def judge(self, action: Action, places: Places) -> Verdict:
        raise NotImplementedError
