"""A rule as text: the `[[policy]]` table that a file holds, and one line of words for lists of rules."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from msgspec.structs import fields

from dragoman.policy.rule import PolicyRule, as_texts
from dragoman.visible import hides

__all__ = ["in_words", "rule_table"]

# Of a line of TOML, in characters.
_WIDTH = 100
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Of a list in words. All of it stands in the file.
_MOST_NAMED = 6


def rule_table(rule: PolicyRule) -> str:
    """The rule as TOML, with the keys that are set and in the order of the reference. Reading it gives an equal rule."""
    lines = ["[[policy]]"]
    for field in fields(rule):
        value = getattr(rule, field.name)
        # An empty `options` is written: without the key, the rule would allow all options.
        if value != field.default:
            lines.append(_line(field.name, value))
    return "\n".join(lines) + "\n"


def _line(key: str, value: object) -> str:
    line = f"{key} = {_written(value)}"
    if len(line) <= _WIDTH or not isinstance(value, tuple):
        return line
    return "\n".join([f"{key} = [", *_filled(map(_written, value)), "]"])


def _filled(elements: Iterable[str]) -> Iterator[str]:
    """Lines with as many elements as fit into each."""
    line = ""
    for element in elements:
        if line and len(f"{line} {element},") > _WIDTH:
            yield line
            line = ""
        line = f"{line} {element}," if line else f"    {element},"
    yield line


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(_written, value))}]"
        case _:
            return _string(str(value))


def _string(text: str) -> str:
    escaped = "".join(map(_escaped, text))
    # A literal string is easier to read where a basic one needs escapes.
    is_literal = escaped != text and "'" not in text and not any(map(hides, text))
    return f"'{text}'" if is_literal else f'"{escaped}"'


def _escaped(character: str) -> str:
    """What TOML cannot hold as it is, and what a person who reads the rule would not see."""
    if character in _ESCAPES or not hides(character):
        return _ESCAPES.get(character, character)
    return f"\\U{ord(character):08x}"


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
