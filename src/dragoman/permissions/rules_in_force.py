"""The rules that decide now. They change while Dragoman runs, when the user changes their file."""

from __future__ import annotations

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.permissions.verdict import Judge, Verdict

__all__ = ["RulesInForce"]

_NO_RULES = Verdict()


class RulesInForce:
    """All conversations of a process share one of these, so a changed rule counts from the next action on."""

    def __init__(self, policy: Judge | None = None) -> None:
        # None: there are no rules.
        self.policy = policy

    def judge(self, action: Action, places: Places) -> Verdict:
        return _NO_RULES if self.policy is None else self.policy.judge(action, places)
