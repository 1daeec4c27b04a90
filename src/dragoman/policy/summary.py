"""A rule in one line of words, for lists of rules."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dragoman.policy.rule import PolicyRule, as_texts

__all__ = ["in_words"]

# Of a list. All of it stands in the file.
_MOST_NAMED = 6


def in_words(rule: PolicyRule) -> str:
    """For example: "allow `git (log|diff)` with any arguments, without --output*, for claude"."""
    decision = "ask about" if rule.decision == "ask" else rule.decision
    return f"{decision} {_what(rule)}{''.join(f', {each}' for each in _conditions(rule))}"


def _what(rule: PolicyRule) -> str:
    kinds = " and ".join(as_texts(rule.kind))
    if rule.command is not None:
        words = " ".join(
            shlex.quote(word) if isinstance(word, str) else f"({'|'.join(word)})" for word in rule.command
        )
        return f"`{words}`" + (" with any arguments" if rule.args == "any" else "")
    of = [*as_texts(rule.paths), *as_texts(rule.urls)]
    if of:
        return f"{kinds or 'any use'} of {', '.join(of)}"
    if rule.tools is not None:
        return f"{kinds} of " * bool(kinds) + f"the tools {', '.join(rule.tools)}"
    return kinds or "everything"


def _conditions(rule: PolicyRule) -> Iterator[str]:
    if rule.command is not None:
        if rule.options is not None:
            yield f"no options but {_short(rule.options)}" if rule.options else "no options"
        if rule.without is not None:
            yield f"without {_short(rule.without)}"
        if rule.variables is not None:
            yield f"with variables {_short(rule.variables)}"
        if rule.redirects is not None:
            yield f"with redirects to {_short(rule.redirects)}"
        if rule.expands:
            yield "with arguments that the shell computes"
        if rule.paths is not None:
            yield f"only for paths {_short(rule.paths)}"
    if rule.sensitive:
        yield "also if it is sensitive" if rule.decision == "allow" else "if it is sensitive"
    if rule.agent is not None:
        yield f"for {' and '.join(as_texts(rule.agent))}"
    if rule.workspace is not None:
        yield f"in {' and '.join(as_texts(rule.workspace))}"


def _short(texts: tuple[str, ...]) -> str:
    more = len(texts) - _MOST_NAMED
    return " ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
