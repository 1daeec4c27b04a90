"""Rules that a person can make of an answer: what is offered for an action, and writing it to the user's own file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dragoman.config import ConfigError
from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.policy.rule import LocatedRule

__all__ = ["CannotAddRule", "RuleOffer", "RuleOffers", "RuleStore"]


_log = logging.getLogger(__name__)


class CannotAddRule(Exception):
    """A rule cannot be written. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class RuleOffer:
    """One or more rules that would allow an action from now on."""

    # For a person to choose by: "always allow `git log` with any arguments here".
    words: str
    # The text that would be added to the file.
    toml: str


class RuleStore(Protocol):
    """The rules in force, and the file that new ones go to: the part of `Models` that is needed here."""

    @property
    def rules(self) -> tuple[LocatedRule, ...]: ...

    @property
    def rules_file(self) -> Path: ...

    def add_rules(self, tables: str) -> LocatedRule: ...


class RuleOffers:
    def __init__(self, rules: RuleStore) -> None:
        self._rules = rules

    @property
    def file(self) -> Path:
        """The file that rules are written to: the user's own, never one that was only found."""
        return self._rules.rules_file.absolute()

    def of(self, action: Action, workspace: str, places: Places) -> tuple[RuleOffer, ...]:
        """The rules that would allow such actions in this workspace, the narrowest first."""
        try:
            return tuple(self._enough(action, workspace, places))
        except Exception:
            # A fault in the analysis must not keep a person from answering the question.
            _log.exception("no rule is offered for an action of %s", action.agent)
            return ()

    def _enough(self, action: Action, workspace: str, places: Places) -> Iterator[RuleOffer]:
        # The analysis of commands: some hundredths of a second, the first time.
        from dragoman.policy.policy import Policy  # noqa: PLC0415
        from dragoman.policy.suggest import proposals  # noqa: PLC0415
        from dragoman.policy.toml import rule_table  # noqa: PLC0415

        in_force = self._rules.rules
        for proposal in proposals(action, workspace):
            added = [LocatedRule(rule, str(self.file), 1) for rule in proposal.rules]
            # A stricter rule, or one that may apply, would still ask or refuse.
            if Policy((*in_force, *added)).judge(action, places).decision == "allow":
                yield RuleOffer(proposal.words, "\n".join(map(rule_table, proposal.rules)))

    def add(self, offer: RuleOffer) -> LocatedRule:
        """Write the rules and apply them from now on. Returns the first. Raises `CannotAddRule`."""
        try:
            return self._rules.add_rules(offer.toml)
        except (ConfigError, ValueError) as error:
            # ValueError: characters that cannot be written.
            raise CannotAddRule(f"{error} Nothing has changed.") from error
