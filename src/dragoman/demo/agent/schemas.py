"""Reads JSON Schemas: references, branches and limits, and whether a plain value fits."""

from __future__ import annotations

import math
from datetime import date

from dragoman.lm import JsonObject

__all__ = [
    "FORMATS",
    "MAX_RECURSIONS",
    "SchemaReader",
    "allows",
    "branches",
    "fits",
    "least",
    "listed",
    "merged",
    "object_in",
    "of_length",
    "type_of",
    "without_branches",
]

# How often a schema may contain itself before it is left empty.
MAX_RECURSIONS = 3
# References and `allOf` within each other.
_MAX_DEPTH = 12

# A value for each format that we know.
FORMATS = {
    "date": "2026-01-15",
    "date-time": "2026-01-15T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "http://localhost/",
    "ipv4": "127.0.0.1",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


class SchemaReader:
    """A schema with its references."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def target(self, schema: object) -> object:
        """The schema that a reference is to; any other schema itself."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                break
            schema = self._at(schema["$ref"])
        return schema

    def whole(self, schema: object) -> JsonObject:
        """A schema with its references and its `allOf` put in."""
        return self._put_in(schema, 0)

    def _put_in(self, schema: object, depth: int) -> JsonObject:
        whole = object_in(schema)
        reference, parts = whole.get("$ref"), listed(whole.get("allOf"))
        if depth > _MAX_DEPTH or (not isinstance(reference, str) and not parts):
            return whole
        result = {key: value for key, value in whole.items() if key not in ("$ref", "allOf")}
        if isinstance(reference, str):
            result = merged(result, self._put_in(self._at(reference), depth + 1))
        for part in parts:
            result = merged(result, self._put_in(part, depth + 1))
        return result

    def _at(self, reference: str) -> object:
        """What is at a pointer into the root; nothing if it points elsewhere."""
        found: object = self._root
        if not reference.startswith("#"):
            return {}
        for step in filter(None, reference.removeprefix("#").split("/")):
            key = step.replace("~1", "/").replace("~0", "~")
            found = object_in(found).get(key)
        return found

    def recurs(self, schema: object, path: tuple[int, ...]) -> bool:
        """Whether a schema contains itself, so that it is better left out."""
        return id(self.target(schema)) in path or self.target(schema) is self._root


def type_of(schema: JsonObject) -> str | None:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else None
    return str(kind) if kind is not None else None


def allows(schema: JsonObject, kind: str) -> bool:
    allowed = schema.get("type")
    return allowed is None or kind == allowed or (isinstance(allowed, list) and kind in allowed)


def branches(schema: JsonObject) -> list[object]:
    return listed(schema.get("anyOf")) or listed(schema.get("oneOf"))


def without_branches(schema: JsonObject) -> JsonObject:
    return {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}


def merged(one: JsonObject, other: JsonObject) -> JsonObject:
    """A schema for values that fit both."""
    both = {**other, **one}
    if "properties" in one and "properties" in other:
        both["properties"] = {**object_in(other["properties"]), **object_in(one["properties"])}
    if "required" in one and "required" in other:
        both["required"] = [*dict.fromkeys([*listed(other["required"]), *listed(one["required"])])]
    for keys, choose in ((_LOWER, max), (_UPPER, min)):
        for key in keys:
            if limits := [*_limit_of(one, key), *_limit_of(other, key)]:
                both[key] = choose(limits)
    return both


def fits(value: object, schema: JsonObject) -> bool:
    """Whether a value that was found fits: a scalar, or a list as far as its length goes. None is nothing found."""
    if isinstance(value, list):
        return allows(schema, "array") and _at_most(
            schema.get("minItems", 0), len(value), schema.get("maxItems", math.inf)
        )
    if "const" in schema and value != schema["const"]:
        return False
    if isinstance(schema.get("enum"), list) and value not in listed(schema["enum"]):
        return False
    if not any(allows(schema, kind) and _is_a(value, kind) for kind in _TYPES):
        return False
    match value:
        case str():
            form = schema.get("format")
            fits_form = form not in FORMATS or _has_form(value, str(form))
            return fits_form and _at_most(
                schema.get("minLength", 0), len(value), schema.get("maxLength", math.inf)
            )
        case int() | float() if not isinstance(value, bool):
            return _in_limits(value, schema)
        case _:
            return True


def _is_a(value: object, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _has_form(value: str, form: str) -> bool:
    match form:
        case "date":
            return _is_date(value)
        case "email":
            return "@" in value
        case "uri":
            return "://" in value
        case _:
            return False


def _is_date(value: str) -> bool:
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return False
    # Python reads other forms of ISO 8601 as well, such as `20260131`.
    return day.isoformat() == value


def _in_limits(value: float, schema: JsonObject) -> bool:
    over, under = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    return (
        _at_most(schema.get("minimum", -math.inf), value, schema.get("maximum", math.inf))
        and not (isinstance(over, (int, float)) and value <= over)
        and not (isinstance(under, (int, float)) and value >= under)
    )


def _at_most(low: object, value: float, high: object) -> bool:
    return (not isinstance(low, (int, float)) or low <= value) and (
        not isinstance(high, (int, float)) or value <= high
    )


def least(schema: JsonObject) -> object:
    """A number within the limits: the least one, or 1 if there is no least."""
    low, high = _limit_of(schema, "minimum"), _limit_of(schema, "maximum")
    over, under = _limit_of(schema, "exclusiveMinimum"), _limit_of(schema, "exclusiveMaximum")
    bottom, top = [*low, *over], [*high, *under]
    candidates: list[float] = [*low, 1, 0, *high, *(each + 1 for each in over), *(each - 1 for each in under)]
    if bottom and top:
        candidates.append((max(bottom) + min(top)) / 2)
    if type_of(schema) == "integer":
        candidates = [each for number in candidates for each in (math.ceil(number), math.floor(number))]
    return next((each for each in candidates if _in_limits(each, schema)), 1)


def _limit_of(schema: JsonObject, key: str) -> list[float]:
    value = schema.get(key)
    return [value] if isinstance(value, (int, float)) else []


def of_length(text: str, schema: JsonObject) -> str:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if isinstance(longest, int):
        text = text[:longest]
    return text.ljust(shortest, ".") if isinstance(shortest, int) else text


def object_in(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
