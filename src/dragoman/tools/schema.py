"""Inputs and their schemas: defaults filled in, everything else checked.

`complete` gives back what a tool may rely on. Defaults are taken from `properties`, also those of nested objects and of
array items, through `allOf` and references; the branches of `anyOf`, `oneOf` and `if` give none, because which one
holds is not known beforehand. Nothing is converted: the text "10" is no number. `format` is a remark, not a rule.

References are never fetched. A schema that names something outside of itself is refused when it is declared.

An input comes from a model, so its size, its depth and the work it causes are limited. A schema comes with its tool and
is trusted like the tool's code: its size and depth are limited too, but a regular expression made to run for ever will.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice

from dragoman.lm import JsonObject, json
from dragoman.lm.nesting import INPUT_LEVELS
from dragoman.tools import mismatch

__all__ = [
    "MAX_DEPTH",
    "MAX_PROBLEMS",
    "MAX_VALUES",
    "SchemaError",
    "SchemaProblem",
    "check_schema",
    "complete",
]

_log = logging.getLogger(__name__)

# Objects within objects: the limit for the input of every call. A schema has the same.
MAX_DEPTH = INPUT_LEVELS
# Values in an input or a schema, all levels together. The content of a file is one value.
MAX_VALUES = 10_000
# A model repairs some mistakes at a time; the rest are reported when it tries again.
MAX_PROBLEMS = 8


class SchemaProblem(Exception):
    """An input that does not fit its schema. The message is for the model that wrote it: it can act on every line."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SchemaError(Exception):
    """An invalid schema: `path` is where (`.properties.name`), and empty for the whole."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path


def complete(schema: JsonObject | None, value: object) -> JsonObject:
    """A copy of `value` with defaults, which fits `schema`; or `SchemaProblem`. Without a schema any object fits."""
    if not isinstance(value, dict):
        raise SchemaProblem(f"input: expected object, got {mismatch.kind(value)}")
    if fault := _too_large(value):
        raise SchemaProblem(f"input: {fault}")
    try:
        # Through JSON and back: a copy at every level, and nothing in it that JSON does not have.
        completed: JsonObject = json.decode(json.encode(value))  # type: ignore[assignment]  # an object stays one
    except (TypeError, ValueError) as error:
        raise SchemaProblem(f"input: is not JSON: {error}") from None
    if schema is None:
        return completed
    from dragoman.tools import validation  # noqa: PLC0415 - the library takes a tenth of a second to import

    try:
        with validation.limited_work():
            validation.fill_in(schema, completed)
            problems = list(islice(validation.problems(schema, completed), MAX_PROBLEMS + 1))
    except (validation.TooMuchWork, RecursionError):
        raise SchemaProblem("input: takes too long to check; use a smaller or simpler one") from None
    except Exception as error:
        # An unchecked schema can fail in any way inside the library.
        _log.warning("an input schema is broken: %s", error)
        raise SchemaProblem(
            f"input: cannot be checked, because the schema of this tool is broken: {mismatch.cut(str(error))}"
        ) from error
    if len(problems) > MAX_PROBLEMS:
        problems[MAX_PROBLEMS:] = ["… and more"]
    if problems:
        raise SchemaProblem(*problems)
    return completed


def check_schema(schema: JsonObject) -> None:
    """`SchemaError` unless `schema` is a JSON schema that needs nothing but itself."""
    if fault := _too_large(schema):
        raise SchemaError(fault)
    from dragoman.tools import validation  # noqa: PLC0415 - as above

    try:
        fault_found = validation.fault(schema)
    except RecursionError:
        raise SchemaError("is nested too deeply, or refers to itself without end") from None
    except Exception as error:
        # As above: of an address that is none, of a number where there should be a name.
        raise SchemaError(f"cannot be read: {mismatch.cut(str(error))}") from error
    if fault_found:
        raise SchemaError(*fault_found)


def _too_large(value: object) -> str | None:
    level, depth, count = [value], 0, 0
    while level:
        count += len(level)
        if count > MAX_VALUES:
            return f"has more than {MAX_VALUES:,} values"
        if depth > MAX_DEPTH:
            return f"is nested more than {MAX_DEPTH} levels deep"
        depth += 1
        level = [inner for each in level for inner in _children(each)]
    return None


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
