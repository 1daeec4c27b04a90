"""Rules that are valid, but probably not what their author wants."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Iterator, Sequence

from dragoman.policy.arguments import RUNNERS
from dragoman.policy.rule import LocatedRule, PolicyRule, as_texts

__all__ = ["cautions"]


def cautions(rules: Sequence[LocatedRule], models: Collection[str]) -> Iterator[tuple[LocatedRule, str]]:
    """What to be careful about, each with the rule that it is about."""
    for each in rules:
        rule = each.rule
        for agent in as_texts(rule.agent):
            if agent not in models:
                yield each, f'no model is called "{agent}", so the rule never applies to it'
        if rule.decision != "allow":
            if rule.command is not None and rule.args is None:
                verb = "denies" if rule.decision == "deny" else "asks about"
                yield each, f'{verb} exactly this command. To include it with more arguments: args = "any"'
            continue
        for stricter in rules:
            if stricter.rule.decision != "allow" and _covers(stricter.rule, rule):
                verb = "denies" if stricter.rule.decision == "deny" else "asks about"
                yield each, f"never counts: {stricter.file}:{stricter.line} {verb} all that it allows"
        for program in _any_arguments(rule):
            yield (
                each,
                f"with any arguments, {program} can run any program or code: the rule allows everything",
            )


def _any_arguments(rule: PolicyRule) -> Iterator[str]:
    """The programs that run other programs or code, if the rule allows them with any arguments."""
    if rule.command is not None and len(rule.command) == 1 and rule.args == "any" and rule.options is None:
        for program in as_texts(rule.command[0]):
            if os.path.basename(program) in RUNNERS:  # noqa: PTH119 - of any text
                yield program


def _covers(stricter: PolicyRule, rule: PolicyRule) -> bool:
    """Whether all that `rule` matches is certainly matched by `stricter`: each of its conditions is at least as wide."""
    return (
        not stricter.sensitive
        and _is_wider(stricter.kind, rule.kind or ("execute" if rule.command else None))
        and _is_wider(stricter.agent, rule.agent)
        and _is_wider(stricter.workspace, rule.workspace)
        and _is_wider(stricter.paths, rule.paths)
        and _is_wider(stricter.urls, rule.urls)
        and _is_wider(stricter.tools, rule.tools)
        and _is_wider_command(stricter, rule)
    )


def _is_wider(stricter: str | tuple[str, ...] | None, allowed: str | tuple[str, ...] | None) -> bool:
    return stricter is None or (allowed is not None and set(as_texts(allowed)) <= set(as_texts(stricter)))


def _is_wider_command(stricter: PolicyRule, rule: PolicyRule) -> bool:
    if stricter.command is None:
        # A command without arguments has no paths that a stricter rule could match.
        return rule.command is None or stricter.paths is None
    if rule.command is None or len(rule.command) < len(stricter.command) or stricter.paths is not None:
        return False
    takes_any = stricter.args == "any" and stricter.without is None and stricter.options is None
    is_exact = len(rule.command) == len(stricter.command) and rule.args is None and rule.options is None
    words = zip(stricter.command, rule.command, strict=False)
    return (takes_any or is_exact) and all(
        set(as_texts(narrow)) <= set(as_texts(wide)) for wide, narrow in words
    )
