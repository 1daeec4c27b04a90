"""A rule as the text of a `[[policy]]` table: what the user sees before it is written, and what is written."""

from __future__ import annotations

import re

from msgspec.structs import fields

from dragoman.policy.rule import PolicyRule

__all__ = ["rule_table"]

_WIDTH = 100
# What a basic string of TOML cannot hold as it is: quotes, backslashes and control characters.
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# A literal string is easier to read where a basic one needs escapes.
_LITERAL = re.compile(r"[^'\x00-\x1f\x7f]*")


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
    escaped = _ESCAPED.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04x}"), text)
    return f"'{text}'" if escaped != text and _LITERAL.fullmatch(text) else f'"{escaped}"'
