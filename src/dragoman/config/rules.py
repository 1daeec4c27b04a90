"""The rules of a configuration, each with its file and line."""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from msgspec.structs import replace

from dragoman.config.loading import Config
from dragoman.policy.rule import LocatedRule, PolicyRule, as_texts

__all__ = ["located", "rules_of"]


def rules_of(config: Config) -> tuple[LocatedRule, ...]:
    """The rules in force: the user's, and those that a found file adds."""
    return (*located(config), *config.found_rules)


def located(config: Config) -> Iterator[LocatedRule]:
    """The rules of the configuration's own file."""
    source = config.source
    for number, rule in enumerate(config.policy):
        yield LocatedRule(
            _placed(rule, str(source.folder)), str(source.path or ""), source.line(("policy", number))
        )


def _placed(rule: PolicyRule, folder: str) -> PolicyRule:
    """Make the rule's workspaces absolute: they are relative to the file, like every path in it."""
    # Path's own expansion fails for a user that does not exist.
    paths = tuple(os.path.join(folder, os.path.expanduser(each)) for each in as_texts(rule.workspace))  # noqa: PTH111, PTH118
    return replace(rule, workspace=paths) if paths else rule
