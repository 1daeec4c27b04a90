"""Where an input does not fit its schema, in words a model can act on.

Each `Mismatch` names the place (`files[0].name`), what was expected and what came instead. Names and values are the
model's own and may be of any length, so they are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from dragoman.lm import json
from dragoman.nearest import did_you_mean
from dragoman.tools.work import spend

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

__all__ = ["Mismatch", "cut", "describe", "kind"]

# A line is for the model to find the place by, not to get its input back.
_LINE = 300
_PLACE = 120
_VALUE = 60
# Known properties, allowed values, forms: so many are listed.
_LISTED = 20

_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*", re.ASCII)

_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} properties",
    "maxProperties": "must have at most {} properties",
    "pattern": "must match the regular expression {}",
    "const": "must be {}",
}


class Mismatch(NamedTuple):
    # Empty for the input as a whole.
    place: str
    problem: str

    def __str__(self) -> str:
        return cut(f"{self.place or 'input'}: {self.problem}")


def describe(error: ValidationError) -> Iterator[Mismatch]:
    """What `error` says, one for each thing to put right."""
    here = list(error.absolute_path)
    value: object = error.instance
    rule: object = error.validator_value
    # The stubs leave out that a schema which is just `false` has no keyword.
    keyword: object = error.validator
    match keyword:
        case "required" if isinstance(value, dict) and isinstance(rule, list):
            # One error for each, none of which says which: so each lists all, and the reader drops the duplicates.
            for name in rule:
                if name not in value:
                    yield _at([*here, name], "required, but missing")
        case "additionalProperties" if isinstance(value, dict):
            yield from _unknown_properties(error, here, value)
        case "anyOf" | "oneOf":
            yield from _alternatives(error, here, value)
        case "type":
            kinds = rule if isinstance(rule, list) else [rule]
            yield _at(here, f"expected {_either(kinds)}, got {_with_kind(value)}")
        case "enum" if isinstance(rule, list):
            yield _at(here, f"expected one of {_listed(map(_shown, rule))}, got {_shown(value)}")
        case "uniqueItems":
            yield _at(here, "must not have the same item twice")
        case str() if keyword in _LIMITS:
            yield _at(here, f"{_LIMITS[keyword].format(_shown(rule))}, got {_with_kind(value)}")
        case None:
            # The library leaves out the place of these: the value helps to find it.
            yield _at(here, f"{_with_kind(value)} is not allowed")
        case _:
            yield _at(here, error.message)


def _unknown_properties(
    error: ValidationError, here: list[str | int], value: dict[str, object]
) -> Iterator[Mismatch]:
    schema: dict[str, object] = error.schema if isinstance(error.schema, dict) else {}
    known, patterns = schema.get("properties"), schema.get("patternProperties")
    names = list(known) if isinstance(known, dict) else []
    expressions = list(patterns) if isinstance(patterns, dict) else []
    for name in value:
        if name not in names and not any(re.search(each, name) for each in expressions):
            # To find a similar name takes time in the product of the lengths.
            spend(2 * sum(map(len, names)))
            meant = did_you_mean(name, names)
            listed = f" Known: {_listed(names)}." if names else ""
            yield _at([*here, name], f"unknown property.{meant}{listed}")


def _alternatives(error: ValidationError, here: list[str | int], value: object) -> Iterator[Mismatch]:
    branches: dict[str | int, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    if not branches:
        yield _at(here, "fits more than one of the allowed forms, and must fit exactly one")
        return
    # A branch for another type was not intended. With one branch left, its errors are the errors.
    meant = [inner for inner in branches.values() if not _is_other_type(inner[0])]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from describe(inner)
    elif not meant:
        kinds = [one for inner in branches.values() for one in _as_list(inner[0].validator_value)]
        yield _at(here, f"expected {_either(kinds)}, got {_with_kind(value)}")
    else:
        forms = (str(next(describe(inner[0]))) for inner in meant)
        yield _at(here, f"fits none of the allowed forms: {_listed(forms, '; or ')}")


def _is_other_type(error: ValidationError) -> bool:
    return error.validator == "type" and not error.relative_path


def _as_list(rule: object) -> list[object]:
    return rule if isinstance(rule, list) else [rule]


def _place(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{cut(repr(step), _VALUE)}]"
    return cut(text, _PLACE)


def kind(value: object) -> str:
    """What JSON calls the type of `value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _shown(value: object) -> str:
    """`value` on one line, as short as makes it recognisable."""
    # Strings as Python writes them: what cannot be printed is escaped.
    return cut(repr(value[: _VALUE * 2]) if isinstance(value, str) else json.encode_text(value), _VALUE)


def _with_kind(value: object) -> str:
    return "null" if value is None else f"{kind(value)} {_shown(value)}"


def _either(kinds: Iterable[object]) -> str:
    return " or ".join(dict.fromkeys(str(one) for one in kinds))


def _listed(items: Iterable[str], separator: str = ", ") -> str:
    all_of_them = list(dict.fromkeys(items))
    more = len(all_of_them) - _LISTED
    return separator.join(all_of_them[:_LISTED]) + (f" … and {more} more" if more > 0 else "")


def _at(path: Iterable[str | int], problem: str) -> Mismatch:
    return Mismatch(_place(path), problem)


def cut(text: str, length: int = _LINE) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
