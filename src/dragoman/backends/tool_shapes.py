"""The schema of a tool's input, made into one that every agent and every provider takes.

MCP wants an object at the top, and providers refuse alternatives there (`anyOf`, `oneOf`, `allOf`) as well as anything
that is no object. A schema that describes a plain object passes as it is, without the `$schema` and `$id` that make some
validators look for a dialect or a document they do not have. Any other becomes the one property of an object; the
arguments of a call are taken out of it again.

Nowhere does a schema keep `x-mcp-header`, by which an MCP server has arguments repeated in HTTP headers, for those who
route: there is nobody between an agent and us, and agents must drop a tool that has one in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.lm import JsonObject

__all__ = ["MAX_SCHEMA_DEPTH", "is_deeper_than", "legal_schema", "unwrapped"]

# Deeper ones would take the list along: agents built on the official library give up reading at some 200 levels.
MAX_SCHEMA_DEPTH = 64

_INPUT = "input"
# At the top of a schema, any of these says more than "an object with these properties".
_ALTERNATIVES = frozenset(
    {"$dynamicRef", "$ref", "allOf", "anyOf", "const", "enum", "if", "not", "oneOf", "type"}
)
_DIALECT = frozenset({"$id", "$schema"})
_ROUTING = "x-mcp-header"
_DEFINITIONS = ("$defs", "definitions")
# Keywords whose value is no schema, and keywords whose value is schemas by name.
_VALUES = frozenset({"const", "default", "enum", "examples"})
_SCHEMAS_BY_NAME = frozenset({*_DEFINITIONS, "dependentSchemas", "patternProperties", "properties"})


def legal_schema(schema: JsonObject | None) -> tuple[JsonObject, bool]:
    """The schema to offer, and whether arguments that fit it must be `unwrapped`."""
    if schema is None or is_deeper_than(MAX_SCHEMA_DEPTH, schema):
        return {"type": "object", "properties": {}}, False
    if schema.get("type") in ("object", ["object"], ["object", "null"], ["null", "object"]):
        schema = {key: value for key, value in schema.items() if key != "type"}
    if _ALTERNATIVES.isdisjoint(schema):
        return _plain(schema), False
    return _wrapped(schema), True


def unwrapped(arguments: JsonObject) -> JsonObject:
    """What was asked for inside the property that stands for the whole.

    A call's input is an object, so a value that is none stays where it is. So do arguments of a model that did not keep
    to the schema: whoever checks them can say what is wrong.
    """
    inner = arguments.get(_INPUT)
    return inner if isinstance(inner, dict) and len(arguments) == 1 else arguments


def _plain(schema: JsonObject) -> JsonObject:
    moved = _with_references(schema, lambda reference: _without_base(reference, schema))
    rest = {key: value for key, value in moved.items() if key not in _DIALECT}
    properties, required = rest.pop("properties", None), rest.pop("required", None)
    result: JsonObject = {"type": "object", "properties": _properties(properties), **rest}
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        result["required"] = required
    return result


def _properties(properties: object) -> JsonObject:
    """Only what is a schema: one property that is none would make the whole list of tools invalid."""
    if not isinstance(properties, dict):
        return {}
    return {name: schema if isinstance(schema, dict | bool) else {} for name, schema in properties.items()}


def _wrapped(schema: JsonObject) -> JsonObject:
    def moved_reference(reference: str) -> str:
        local = _without_base(reference, schema)
        if local != "#" and not local.startswith("#/"):
            return local
        if local.startswith(tuple(f"#/{keyword}/" for keyword in _DEFINITIONS)):
            return local
        return f"#/properties/{_INPUT}{local[1:]}"

    moved = _with_references(schema, moved_reference)
    inner = {key: value for key, value in moved.items() if key not in _DIALECT and key not in _DEFINITIONS}
    # Definitions stay at the top, where references look for them.
    definitions = {key: moved[key] for key in _DEFINITIONS if key in moved}
    return {"type": "object", "properties": {_INPUT: inner}, "required": [_INPUT], **definitions}


def _without_base(reference: str, schema: JsonObject) -> str:
    base = schema.get("$id")
    if isinstance(base, str) and base and reference.removesuffix("#").startswith(base.removesuffix("#")):
        return reference[len(base.removesuffix("#")) :] or "#"
    return reference


def _with_references(schema: JsonObject, move: Callable[[str], str]) -> JsonObject:
    """A copy in which every reference is moved, and nothing routes; what only looks like it, in a value, stays."""

    def value_of(keyword: str, value: object) -> object:
        if keyword in ("$ref", "$dynamicRef") and isinstance(value, str):
            return move(value)
        if keyword in _VALUES:
            return value
        if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            return {name: copied(each) for name, each in value.items()}
        return copied(value)

    def copied(value: object) -> object:
        match value:
            case dict():
                return schema_of(value)
            case list():
                return [copied(each) for each in value]
            case _:
                return value

    def schema_of(value: JsonObject) -> JsonObject:
        return {keyword: value_of(keyword, each) for keyword, each in value.items() if keyword != _ROUTING}

    return schema_of(schema)


def is_deeper_than(levels: int, value: object) -> bool:
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
