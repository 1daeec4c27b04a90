"""Tells schemas that are checked in no time from all others. Values in, values out.

Clients' helpers make simple schemas: types, properties, lists of strings to choose from, limits, references into the schema
itself. Keywords that are not listed here may take long, also to check the schema itself: a regular expression, a choice of
objects, whose equality is tested pair by pair.
"""

from __future__ import annotations

from dragoman.lm import JsonObject
from dragoman.lm.json import encode
from dragoman.tools.work import size_of

__all__ = ["is_simple"]

# To check a schema with so many values takes about a fortieth of a second.
_MOST_VALUES = 300
_MOST_BYTES = 20_000

# Annotations, and rules that look at one value. A step of the check takes the same time for all of them.
# fmt: off
_PLAIN = frozenset({
    "$comment", "$ref", "$schema", "default", "deprecated", "description", "examples", "format", "readOnly", "required",
    "strict", "title", "type", "writeOnly",
    "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "minItems", "maxLength", "minLength",
    "maxProperties", "minProperties",
})
# fmt: on
_CHOICES = frozenset({"const", "enum"})
_WITH_SCHEMA = frozenset({"additionalProperties", "items"})
_WITH_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_WITH_NAMES = frozenset({"$defs", "definitions", "properties"})


def is_simple(schema: JsonObject | None) -> bool:
    """Whether the schema itself, and one step of a check with it, takes a few milliseconds at most."""
    left = _MOST_VALUES
    level: list[object] = [schema or {}]
    while level:
        each = level.pop()
        left -= 1
        if isinstance(each, bool):
            continue
        if not isinstance(each, dict):
            return False
        for keyword, rule in each.items():
            inner = _inner(keyword, rule)
            if inner is None:
                return False
            level += inner
            left -= 0 if inner else size_of(rule)
        if left < len(level):
            return False
    return len(encode(schema)) <= _MOST_BYTES


def _inner(keyword: str, rule: object) -> list[object] | None:
    """The schemas within a rule. None: the rule is not simple."""
    if keyword in _WITH_SCHEMA:
        return [rule]
    if keyword in _WITH_LIST and isinstance(rule, list):
        return rule
    if keyword in _WITH_NAMES and isinstance(rule, dict):
        return list(rule.values())
    is_simple_rule = keyword in _PLAIN or (keyword in _CHOICES and _is_of_scalars(rule))
    return [] if is_simple_rule else None


def _is_of_scalars(rule: object) -> bool:
    return not any(isinstance(each, dict | list) for each in (rule if isinstance(rule, list) else [rule]))
