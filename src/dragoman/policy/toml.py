"""A rule as the text of a `[[policy]]` table: what the user sees before it is written, and what is written."""

from __future__ import annotations

from msgspec.structs import fields

from dragoman.policy.rule import PolicyRule
from dragoman.visible import hides

__all__ = ["rule_table"]

_WIDTH = 100
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


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
    return "\n".join([f"{key} = [", *(f"    {_written(each)}," for each in value), "]"])


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
