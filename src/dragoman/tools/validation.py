"""The part of `schema` that needs the jsonschema library. Import it where a schema is used, not before.

Filling in and checking happen within `limited_work`: each step counts, the library's own as well, so that a schema
whose references fan out ends in `TooMuchWork` and does not run for hours. Two things are not counted: a regular
expression, and what `unevaluatedItems` and `unevaluatedProperties` look through. Nor is `fault`, which checks a schema. So
what a client sends is checked by `dragoman.forms`, which can end a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing.exceptions import Unresolvable
from referencing.jsonschema import (
    DRAFT202012,
    EMPTY_REGISTRY,
    Schema,
    SchemaResource,
    specification_with,
)

from dragoman.lm import JsonObject, json
from dragoman.tools import mismatch
from dragoman.tools.work import MAX_STEPS, TooMuchWork, limited_work, size_of, spend

if TYPE_CHECKING:
    from referencing._core import Resolver  # the library hands them out, but has no public name for them

    SchemaResolver: TypeAlias = Resolver[Schema]

__all__ = ["MAX_PATTERN_TEXT", "MAX_STEPS", "TooMuchWork", "fault", "fill_in", "limited_work", "problems"]

# As much text as a regular expression is tried on. Quadratic ones are common, and this keeps them bearable.
MAX_PATTERN_TEXT = 10_000
# What the library does in about the time of one step.
_VALUES_A_STEP = 10
_CHARACTERS_A_STEP = 200


# --- Defaults. -------------------------------------------------------------------------------------------------------


def fill_in(schema: JsonObject, value: JsonObject) -> None:
    """Put the defaults that are missing into `value`."""
    _, resource, resolver = _opened(schema)
    # A default can bring an object whose own defaults stand in a part of the schema that was looked at before.
    while _fill(resource.contents, value, resolver):
        pass


def _fill(schema: object, value: object, resolver: SchemaResolver) -> bool:
    """Put the missing defaults of one level and those below into `value`; whether there were any."""
    spend()
    if not isinstance(schema, dict) or not isinstance(value, dict | list):
        return False
    filled = False
    if isinstance(reference := schema.get("$ref"), str):
        found = resolver.lookup(reference)
        filled |= _fill(found.contents, value, found.resolver)
    for branch in _list(schema.get("allOf")):
        filled |= _fill(branch, value, resolver)
    if isinstance(value, dict):
        return _fill_object(schema, value, resolver) or filled
    # Draft 7 and earlier have the schemas of the first items in `items`, later ones in `prefixItems`.
    items = schema.get("items")
    first = _list(schema.get("prefixItems")) or _list(items)
    for inner, item in zip(first, value, strict=False):
        filled |= _fill(inner, item, resolver)
    for item in value[len(first) :]:
        filled |= _fill(items, item, resolver)
    return filled


def _fill_object(schema: JsonObject, value: JsonObject, resolver: SchemaResolver) -> bool:
    filled = False
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if name not in value and isinstance(inner, dict) and "default" in inner:
            # A copy: what a tool does to its input must not change the schema.
            value[name] = json.decode(json.encode(inner["default"]))
            filled = True
        if name in value:
            filled |= _fill(inner, value[name], resolver)
    return filled


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# --- Validation. -----------------------------------------------------------------------------------------------------


def problems(schema: JsonObject, value: object) -> Iterator[str]:
    """What is wrong with `value`, a line each, none twice."""
    dialect, resource, _ = _opened(schema)
    validator = _counting(dialect)(resource.contents, registry=EMPTY_REGISTRY)
    seen: set[str] = set()
    for error in validator.iter_errors(value):  # type: ignore[arg-type]  # any value of JSON
        for line in map(str, mismatch.describe(error)):
            if line not in seen:
                seen.add(line)
                yield line


_Check: TypeAlias = Callable[[Validator, object, object, object], Iterator[ValidationError] | None]


@cache
def _counting(dialect: type[Validator]) -> type[Validator]:
    """`dialect` with steps counted for every keyword that it looks at."""
    checks: dict[str, _Check] = {name: _counted(name, check) for name, check in dialect.VALIDATORS.items()}
    checks["pattern"] = _on_short_text(checks["pattern"])
    counting: type[Validator] = extend(dialect, checks)  # type: ignore[no-untyped-call]  # its stub has no types
    return counting


def _counted(keyword: str, check: _Check) -> _Check:
    def counted(
        validator: Validator, rule: object, value: object, schema: object
    ) -> Iterator[ValidationError]:
        spend(_steps(keyword, rule, value))
        for error in check(validator, rule, value, schema) or ():
            # The library has written the value, and often the rule, into its message.
            spend(len(error.message) // _CHARACTERS_A_STEP)
            yield error

    return counted


def _steps(keyword: str, rule: object, value: object) -> int:
    """The steps that a keyword takes by itself, without those of the schemas within it."""
    match keyword:
        case "enum" | "const":
            looked_at = size_of(rule)
        case "uniqueItems" if isinstance(value, list):
            looked_at = _comparisons(value)
        case _:
            looked_at = sum(len(each) for each in (rule, value) if isinstance(each, dict | list))
    return 1 + looked_at // _VALUES_A_STEP


def _comparisons(items: list[object]) -> int:
    """How many values the library compares to find equal items. What it can sort, it compares with the next one only."""
    is_sorted = all(isinstance(item, str) for item in items) or all(
        isinstance(item, int | float) for item in items
    )
    return len(items) if is_sorted else len(items) * size_of(items)


def _on_short_text(check: _Check) -> _Check:
    def on_short_text(
        validator: Validator, rule: object, value: object, schema: object
    ) -> Iterator[ValidationError] | None:
        if isinstance(value, str) and len(value) > MAX_PATTERN_TEXT:
            return iter(
                (ValidationError(f"must have at most {MAX_PATTERN_TEXT:,} characters", validator="length"),)
            )
        return check(validator, rule, value, schema)

    return on_short_text


# --- Schemas. --------------------------------------------------------------------------------------------------------


def fault(schema: JsonObject) -> tuple[str, str] | None:
    """The first error in a schema, and where; None if it is valid."""
    dialect, resource, resolver = _opened(schema)
    try:
        dialect.check_schema(dict(schema))
    except SchemaError as error:
        place, problem = next(mismatch.describe(ValidationError.create_from(error)))
        return problem, f".{place}" if place else ""
    astray = next(_astray(resource, resolver), None)
    if astray is not None:
        return f"refers to {astray!r}, which is not in this schema; references are not fetched", ""
    return None


def _astray(resource: SchemaResource, resolver: SchemaResolver) -> Iterator[str]:
    """The references in `resource` that cannot be resolved."""
    if isinstance(resource.contents, dict):
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = resource.contents.get(keyword)
            if isinstance(reference, str):
                try:
                    resolver.lookup(reference)
                except (Unresolvable, ValueError, TypeError):
                    # The last two: a pointer through a list or a number.
                    yield reference
    for inner in resource.subresources():
        yield from _astray(inner, resolver.in_subresource(inner))


def _opened(schema: JsonObject) -> tuple[type[Validator], SchemaResource, SchemaResolver]:
    """The dialect a schema is written in, and what its references are looked up by.

    `$schema` is taken out: where it is found again, by a reference to the whole, it would lead the library back to
    validators that do not count. The registry is empty and has no way to retrieve, so it never does.
    """
    dialect: type[Validator] = Draft202012Validator
    if isinstance(schema.get("$schema"), str):
        dialect = validator_for(schema, default=dialect)
    specification = specification_with(str(dialect.META_SCHEMA.get("$id", "")), default=DRAFT202012)
    undated: Schema = {name: rule for name, rule in schema.items() if name != "$schema"}
    resource = specification.create_resource(undated)
    return dialect, resource, EMPTY_REGISTRY.resolver_with_root(resource)
