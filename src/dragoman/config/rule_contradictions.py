"""Checks across the fields of a `[[policy]]` table whose values are each valid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.config.problem import Complaint, quoted
from dragoman.policy.rule import PolicyRule, as_texts

__all__ = ["rule_contradictions"]

# Conditions about a command.
_OF_COMMANDS = ("args", "without", "options", "variables", "redirects", "expands")
# What an allow rule accepts around a command. A rule that asks or denies matches the command with anything around it.
_OF_ALLOW = ("variables", "redirects", "expands")
# What an example can be held against.
_MATCHED = ("command", "paths", "urls", "tools")
_PATTERN = re.compile(r"[*?\[\]{}]")


def rule_contradictions(rules: Sequence[PolicyRule]) -> Iterator[Complaint]:
    """Keys of a rule that contradict each other, and examples that do not hold."""
    for number, rule in enumerate(rules):
        found = [
            *_conditions_without_command(rule),
            *_conditions_of_allow(rule),
            *_program_patterns(rule),
            *_unusable_urls(rule),
            *_unusable_globs(rule),
            *_examples_without_condition(rule),
        ]
        # Of a rule that is not right, the examples say nothing.
        for keys, text in found or _failed_examples(rule):
            yield ("policy", number, *keys), text


def _conditions_without_command(rule: PolicyRule) -> Iterator[Complaint]:
    given = [key for key in _OF_COMMANDS if getattr(rule, key) not in (None, False)]
    if rule.command is None:
        for key in given:
            yield (
                (key,),
                f'{quoted(key)} in [[policy]] needs "command": the command that it is a condition for.',
            )
    elif rule.without is not None and rule.args is None:
        yield (
            ("without",),
            '"without" in [[policy]] needs args = "any". Otherwise the rule matches exactly its command.',
        )


def _conditions_of_allow(rule: PolicyRule) -> Iterator[Complaint]:
    if rule.decision != "allow":
        for key in _OF_ALLOW:
            if getattr(rule, key) not in (None, False):
                yield (key,), f'{quoted(key)} in [[policy]] is for rules with decision = "allow".'


def _program_patterns(rule: PolicyRule) -> Iterator[Complaint]:
    first = rule.command[0] if rule.command else ()
    for number, program in enumerate(as_texts(first)):
        keys = ("command", 0) if isinstance(first, str) else ("command", 0, number)
        if len(program.split()) > 1:
            words = ", ".join(map(quoted, program.split()))
            yield keys, f'"command" in [[policy]] is a list of words. Write [{words}].'
        elif _PATTERN.search(program):
            yield (
                keys,
                (
                    f'the program in "command" in [[policy]] cannot be a pattern: {quoted(program)}. '
                    'Write its name, or a list of names: command = [["npm", "pnpm"], "test"].'
                ),
            )


def _unusable_urls(rule: PolicyRule) -> Iterator[Complaint]:
    if rule.urls is None:
        return
    from dragoman.permissions.urls import UrlPattern, UrlPatternError  # noqa: PLC0415 - with it come all the tools

    for number, pattern in enumerate(rule.urls):
        try:
            UrlPattern.parse(pattern)
        except UrlPatternError as error:
            yield ("urls", number), f'{quoted(pattern)} in "urls" in [[policy]]: {error}'


def _unusable_globs(rule: PolicyRule) -> Iterator[Complaint]:
    if rule.paths is None and rule.redirects is None:
        return
    from dragoman.globs import GlobError  # noqa: PLC0415 - for those who need it
    from dragoman.policy.path_patterns import PathPatterns  # noqa: PLC0415

    for key in ("paths", "redirects"):
        for number, pattern in enumerate(getattr(rule, key) or ()):
            try:
                PathPatterns([pattern])
            except GlobError as error:
                yield (key, number), f"{quoted(pattern)} in {quoted(key)} in [[policy]]: {error}"


def _examples_without_condition(rule: PolicyRule) -> Iterator[Complaint]:
    if any(getattr(rule, key) is not None for key in _MATCHED):
        return
    for key in ("examples", "counterexamples"):
        if getattr(rule, key):
            yield (key,), f'{quoted(key)} in [[policy]] need "command", "paths", "urls" or "tools" to match.'


def _failed_examples(rule: PolicyRule) -> Iterator[Complaint]:
    if not (rule.examples or rule.counterexamples):
        return
    from dragoman.policy.examples import failed_examples  # noqa: PLC0415 - the analysis of commands, for those who need it

    for key, number, why in failed_examples(rule):
        text = getattr(rule, key)[number]
        yield (key, number), f"{quoted(text)} in {quoted(key)} in [[policy]]: {why}"
