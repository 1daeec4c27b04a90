"""Rules that a person is offered, so that a question need not be asked again."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.policy.rule import PolicyRule
from dragoman.policy.rule_text import rule_table

__all__ = ["RuleOffer"]


@dataclass(frozen=True, slots=True)
class RuleOffer:
    """*allow* rules that together allow an action from now on."""

    # For a person to choose by: "always allow `git log` with harmless arguments here".
    words: str
    rules: tuple[PolicyRule, ...]

    @property
    def toml(self) -> str:
        """The text that is added to the file if the person accepts."""
        return "\n".join(map(rule_table, self.rules))
