"""Describes everything that is wrong with the values of a file.

The types in `schema` decide; msgspec holds a file against them and stops at the first thing it does not like. When it
does, `complaints` walks through the same types and names everything: keys that do not exist, with the one that was
probably meant; values of the wrong kind, with what was expected and what was found.

Imported when a file is not right, and only then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.inspect import (
    AnyType,
    BoolType,
    CustomType,
    DictType,
    Field,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from dragoman.config.positions import KeyPath
from dragoman.config.problem import Complaint, header, quoted
from dragoman.config.schema import Tables, is_path
from dragoman.nearest import nearest

__all__ = ["SECRET_KEYS", "complaints", "in_words"]

# Keys whose values are never shown.
SECRET_KEYS = frozenset({"api_key", "api_keys", "env", "headers", "key", "webhook", "webhook_secret"})

# Tables of other programs that people expect here, by how those programs spell them.
_MCP_TABLES = frozenset({"mcp", "mcp_servers", "mcpServers", "mcp-servers"})
_NO_MCP = (
    "{table} is not supported yet: Dragoman starts no MCP servers. Configure them in the agent's own settings;"
    " the agent then has their tools, and asks for permission as it does elsewhere. Remove the table here."
)

# As much of a wrong value as one needs to find it by.
_SHOWN = 40


def complaints(value: object) -> Iterator[Complaint]:
    """Everything in a parsed file that the schema does not allow."""
    return _check((), value, type_info(Tables))


# --- Walking. --------------------------------------------------------------------------------------------------------


def _check(path: KeyPath, value: object, expected: Type) -> Iterator[Complaint]:
    match _alternatives(expected), value:
        case [StructType() as struct], dict():
            yield from _check_table(path, value, struct)
        case [StructType(), *_] as kinds, dict():
            yield from _check_tagged(path, value, [kind for kind in kinds if isinstance(kind, StructType)])
        case [DictType(key_type=key_type, value_type=value_type)], dict():
            for key, inner in value.items():
                if _fits(key, key_type):
                    yield from _check((*path, key), inner, value_type)
                else:
                    yield (*path, key), f"{_place((*path, key))}: expected {in_words(key_type)} as the key."
        case alternatives, list() if arrays := [
            each for each in alternatives if isinstance(each, VarTupleType)
        ]:
            if len(value) < (arrays[0].min_length or 0):
                yield path, _wrong(path, value, expected)
            for number, inner in enumerate(value):
                yield from _check((*path, number), inner, arrays[0].item_type)
        case alternatives, _:
            if not any(_fits(value, each) for each in alternatives):
                yield path, _wrong(path, value, expected)


def _check_table(path: KeyPath, value: dict[str, object], struct: StructType) -> Iterator[Complaint]:
    fields = {field.encode_name: field for field in struct.fields}
    known = [*([struct.tag_field] if struct.tag_field else []), *fields]
    listed = {name: _listed(path, name, fields) for name in known}
    for key, inner in value.items():
        if key in fields:
            yield from _check((*path, key), inner, fields[key].type)
        elif key not in known:
            yield (*path, key), _unknown(path, key, inner, listed)
    for name, field in fields.items():
        if field.required and name not in value:
            yield path, f"{header(path)} lacks {quoted(name)}: {in_words(field.type)}."


def _check_tagged(
    path: KeyPath, value: dict[str, object], kinds: Sequence[StructType]
) -> Iterator[Complaint]:
    tag_field = kinds[0].tag_field or ""
    by_tag = {str(kind.tag): kind for kind in kinds}
    match value.get(tag_field):
        case None:
            yield path, f"{header(path)} lacks {quoted(tag_field)}: {_choice(by_tag)}."
            # What no kind has is wrong, whichever it is.
            known = {field.encode_name: quoted(field.encode_name) for kind in kinds for field in kind.fields}
            for key, inner in value.items():
                if key not in known:
                    yield (*path, key), _unknown(path, key, inner, known)
        case str() as tag if tag in by_tag:
            yield from _check_table(path, value, by_tag[tag])
        case tag:
            yield (*path, tag_field), _wrong((*path, tag_field), tag, LiteralType(tuple(by_tag)))


def _alternatives(expected: Type) -> list[Type]:
    """The types a value may have. There is no null in TOML: what may be None is what may be left out."""
    match expected:
        case UnionType(types=types):
            return [each for each in types if not isinstance(each, NoneType)]
        case Metadata(type=inner):
            return _alternatives(inner)
        case _:
            return [expected]


def _fits(value: object, expected: Type) -> bool:
    """Whether a value without inner values is one of this type."""
    match expected:
        case Metadata(type=inner):
            return _fits(value, inner)
        case AnyType():
            return True
        case BoolType():
            return isinstance(value, bool)
        case IntType():
            # To Python, true is a number.
            return isinstance(value, int) and not isinstance(value, bool) and _in_range(value, expected)
        case FloatType():
            return (
                isinstance(value, int | float) and not isinstance(value, bool) and _in_range(value, expected)
            )
        case StrType(min_length=min_length, pattern=pattern):
            is_long_enough = isinstance(value, str) and len(value) >= (min_length or 0)
            return is_long_enough and (pattern is None or re.search(pattern, str(value)) is not None)
        case LiteralType(values=values):
            return isinstance(value, str) and value in values
        case CustomType():
            return isinstance(value, str) and is_path(value)
        case _:
            return False


def _in_range(value: float, number: IntType | FloatType) -> bool:
    low = -math.inf if number.ge is None else number.ge
    high = math.inf if number.le is None else number.le
    return low <= value <= high and (number.gt is None or value > number.gt)


# --- Wording. --------------------------------------------------------------------------------------------------------


def _unknown(table: KeyPath, key: str, value: object, known: Mapping[str, str]) -> str:
    """`known` has each name that could stand there, and how it is written."""
    if not table and key in _MCP_TABLES:
        return _NO_MCP.format(table=header((key, *_only_name(value))))
    match value:
        case _ if table:
            said = f"unknown key {quoted(key)} in {header(table)}."
        case dict():
            said = f"unknown table {header((key,))}."
        case [dict(), *_]:
            said = f"unknown table {header((key, 0))}."
        case _:
            said = f"unknown key {quoted(key)} outside of any table."
    if meant := nearest(key, known):
        return f"{said} Did you mean {known[meant]}?"
    return f"{said} Known here: {', '.join(known.values())}."


def _only_name(table: object) -> tuple[str, ...]:
    """The name of the one table in a table: `[mcp_servers.x]` is what the user wrote."""
    match list(table.items()) if isinstance(table, dict) else []:
        case [(str(name), dict())]:
            return (name,)
        case _:
            return ()


def _listed(table: KeyPath, name: str, fields: Mapping[str, Field]) -> str:
    if table:
        return quoted(name)
    # At the top there are only tables.
    return header((name, 0) if isinstance(fields[name].type, VarTupleType) else (name,))


def _wrong(path: KeyPath, value: object, expected: Type) -> str:
    # An address of NATS with an "@" may have a password in it.
    is_secret = not SECRET_KEYS.isdisjoint(path) or (path[:2] == ("fleet", "url") and "@" in str(value))
    said = f"{_place(path)}: expected {in_words(expected)}, found {_found(value, is_secret=is_secret)}."
    match value:
        case str() if meant := nearest(value, _names(expected)):
            return f"{said} Did you mean {quoted(meant)}?"
        case dict() if isinstance(expected, VarTupleType) and isinstance(expected.item_type, StructType):
            return f"{said} Write {header((*path, 0))}, with two brackets."
        case _:
            return said


def _names(expected: Type) -> list[str]:
    """The names that a value of this type can be, if it is a choice."""
    choices = (each for each in _alternatives(expected) if isinstance(each, LiteralType))
    return [str(name) for choice in choices for name in choice.values]


def in_words(expected: Type) -> str:
    """What a value of this type is, with an article."""
    match expected:
        case Metadata(type=inner, extra_json_schema=extra):
            description = (extra or {}).get("description")
            return str(description) if description else in_words(inner)
        case UnionType():
            return _any_of(_alternatives(expected))
        case BoolType():
            return "true or false"
        case IntType() as number:
            return f"a whole number{_range(number)}"
        case FloatType() as number:
            return f"a number{_range(number)}"
        case LiteralType(values=values):
            return _choice(str(each) for each in values)
        case StrType():
            return "a text in quotes"
        case CustomType():
            return "the path of a file or folder in quotes"
        case VarTupleType(item_type=item):
            return f"a list [ … ] of {_plural(item)}"
        case _:
            return "a table"


def _any_of(alternatives: Sequence[Type]) -> str:
    if any(isinstance(each, FloatType) for each in alternatives):
        # Every whole number is a number.
        alternatives = [each for each in alternatives if not isinstance(each, IntType)]
    # Several kinds of table are a table.
    *others, last = dict.fromkeys(map(in_words, alternatives))
    return f"{', '.join(others)}, or {last}" if others else last


def _plural(expected: Type) -> str:
    match _alternatives(expected):
        case [StructType()]:
            return "tables"
        case [CustomType()]:
            return "paths in quotes"
        case [LiteralType()]:
            return "these"
        case [VarTupleType(item_type=item)]:
            return f"lists of {_plural(item)}"
        case [_, _, *_] as several:
            return " or ".join(map(_plural, several))
        case _:
            return "texts in quotes"


def _range(number: IntType | FloatType) -> str:
    low = number.gt if number.ge is None else number.ge
    if low is None or number.le is None:
        return ""
    return f" {'above' if number.ge is None else 'from'} {low} {'up ' if number.ge is None else ''}to {number.le}"


def _choice(names: Iterable[str]) -> str:
    *others, last = (quoted(name) for name in names)
    return f"{', '.join(others)} or {last}" if others else last


def _found(value: object, *, is_secret: bool) -> str:
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return "a table"
        case list():
            return "a list" if value else "an empty list"
        case int() if abs(value) >= 10**_SHOWN:
            return "a number of many digits"
        case int() | float():
            return "a number" if is_secret else str(value)
        case str() if not value:
            return "an empty text"
        case str():
            return "a text" if is_secret else quoted(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
        case _:
            return "a date or time"


def _place(path: KeyPath) -> str:
    """The key in words: `"port" in [serve]`, `element 2 of "api_keys" in [serve]`."""
    elements = ""
    while isinstance(path[-1], int):
        elements += f"element {path[-1] + 1} of "
        path = path[:-1]
    table = f" in {header(path[:-1])}" if path[:-1] else ""
    return f"{elements}{quoted(str(path[-1]))}{table}"
