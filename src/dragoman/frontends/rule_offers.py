"""Rules that a person can make of an answer: what is offered for an action, and writing it to the user's own file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from dragoman.config import ConfigError
from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.policy.offer import RuleOffer
from dragoman.policy.rule import LocatedRule

__all__ = ["CannotAddRule", "RuleOffer", "RuleOffers", "RuleStore"]


_log = logging.getLogger(__name__)


class CannotAddRule(Exception):
    """A rule cannot be written. The message says why, and what to do."""


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

    def of(self, action: Action, places: Places) -> tuple[RuleOffer, ...]:
        """The rules that would allow such actions in this workspace, the narrowest first."""
        # The analysis of commands: some hundredths of a second, the first time.
        from dragoman.policy.suggest import rule_offers  # noqa: PLC0415

        try:
            return rule_offers(action, places, self._rules.rules)
        except Exception:
            # A fault in the analysis must not keep a person from answering the question.
            _log.exception("no rule is offered for an action of %s", action.agent)
            return ()

    def add(self, offer: RuleOffer) -> LocatedRule:
        """Write the rules and apply them from now on. Returns the first. Raises `CannotAddRule`."""
        try:
            return self._rules.add_rules(offer.toml)
        except (ConfigError, ValueError) as error:
            # ValueError: characters that cannot be written.
            raise CannotAddRule(f"{error} Nothing has changed.") from error
