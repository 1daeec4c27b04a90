"""Warnings about rules that are valid, but probably not what their author wants."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Iterable, Iterator

from dragoman.policy.arguments import RUNNERS
from dragoman.policy.rule import LocatedRule, PolicyRule, as_texts

__all__ = ["cautions"]


def cautions(rules: Iterable[LocatedRule], models: Collection[str]) -> Iterator[tuple[LocatedRule, str]]:
    """Each warning with the rule that it is about. `models` are the names of all models."""
    for each in rules:
        rule = each.rule
        for agent in as_texts(rule.agent):
            if agent not in models:
                yield each, f'no model is called "{agent}", so the rule never applies to it'
        if rule.decision != "allow" and rule.command is not None and rule.args is None:
            verb = "denies" if rule.decision == "deny" else "asks about"
            yield each, f'{verb} exactly this command. To include it with more arguments: args = "any"'
        if rule.decision == "allow" and (wide := _allows_all(rule)) is not None:
            yield each, f"allows {wide} that is not sensitive"
        for word in (word for given in rule.command or () for word in as_texts(given) if "*" in word):
            yield each, f"words of a command are compared to the letter: {word} is no pattern"
        for program in _unlimited_runners(rule):
            yield (
                each,
                f"with any arguments, {program} can run any program or code: the rule allows everything",
            )


def _allows_all(rule: PolicyRule) -> str | None:
    """What a rule without a condition about commands, paths, addresses or tools allows."""
    if any(each is not None for each in (rule.command, rule.paths, rule.urls)):
        return None
    if rule.tools is not None:
        return "every tool" if "*" in rule.tools else None
    kinds = as_texts(rule.kind)
    return f"every action of the kind {', '.join(kinds)}" if kinds else "every action"


def _unlimited_runners(rule: PolicyRule) -> Iterator[str]:
    """The programs that the rule allows with any arguments and that run other programs or code."""
    if rule.decision != "allow" or rule.args is None or rule.options is not None:
        return
    if rule.command is not None and len(rule.command) == 1:
        for program in as_texts(rule.command[0]):
            if os.path.basename(program) in RUNNERS:  # noqa: PTH119 - of any text
                yield program
