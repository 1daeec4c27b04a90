"""Tools as they are declared: the form is that of VS Code's `languageModelTools` contribution.

A `Declaration` that exists is a legal one. `load_declarations` reads them from a file, which may be a whole
`package.json`; an error names the file, the entry, the field and what to write instead.

Two fields are ours: `readOnly` (such a tool runs without asking) and `parallel` (whether several calls of it may run
at once; without it, those that only read may). Fields that we do not know are left alone, because VS Code has more than
we use, unless they look like a known one that is missing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.lm import JsonObject
from dragoman.lm.nesting import NestedTooDeeply, check_levels
from dragoman.nearest import nearest
from dragoman.regular_file import read_regular
from dragoman.tools import mismatch, schema, when
from dragoman.tools.names import is_tool_name, legal_name

__all__ = [
    "MAX_FILE_BYTES",
    "Declaration",
    "DeclarationError",
    "Icon",
    "ThemedIcon",
    "declarations_from",
    "load_declarations",
]

CONTRIBUTION = "languageModelTools"

# The largest extensions declare some hundred kilobytes of tools; a file beyond this is not one of declarations.
MAX_FILE_BYTES = 8 * 1024 * 1024

_REFERENCE_NAME = re.compile(r"[\w-]+", re.ASCII)


class DeclarationError(Exception):
    """What is wrong with a declaration, where, and what to do about it."""

    def __init__(self, problem: str, *, field: str = "", entry: str = "", where: str = "") -> None:
        super().__init__(problem, field, entry, where)
        self.problem = problem
        self.field = field
        self.entry = entry
        self.where = where

    def __str__(self) -> str:
        return ": ".join(piece for piece in (self.where, self.entry, self.field, self.problem) if piece)

    def at(self, where: str, entry: str) -> DeclarationError:
        return DeclarationError(self.problem, field=self.field, entry=entry, where=where)


class ThemedIcon(msgspec.Struct, frozen=True):
    light: str
    dark: str


# A codicon, `$(search)`, or the path of a picture, or one path for each kind of theme.
Icon: TypeAlias = str | ThemedIcon


class Declaration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    display_name: str
    model_description: str
    user_description: str | None = None
    tool_reference_name: str | None = None
    can_be_referenced_in_prompt: bool = False
    icon: Icon | None = None
    input_schema: JsonObject | None = None
    when: str | None = None
    tags: tuple[str, ...] = ()
    read_only: bool = False
    parallel: bool | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        for field, value in (
            ("displayName", self.display_name),
            ("modelDescription", self.model_description),
        ):
            if not value.strip():
                raise DeclarationError("is empty; say what the tool is", field=field)
        _check_reference(self.tool_reference_name, required=self.can_be_referenced_in_prompt)
        if self.input_schema is not None and self.input_schema.get("type") != "object":
            raise DeclarationError(
                'must be an object schema, because tools take named arguments; write "type": "object"',
                field="inputSchema",
            )
        if self.when is not None:
            try:
                when.parse(self.when)
            except when.WhenError as error:
                raise DeclarationError(str(error), field="when") from None

    @property
    def runs_in_parallel(self) -> bool:
        return self.read_only if self.parallel is None else self.parallel


def _check_name(name: str) -> None:
    if is_tool_name(name):
        return
    suggestion = legal_name(name)
    advice = f"; {suggestion!r} would do" if suggestion else ""
    raise DeclarationError(
        f"{name!r} is not a legal name: use A–Z, a–z, 0–9, _ and -, and do not begin with 'copilot_' or "
        f"'vscode_'{advice}",
        field="name",
    )


def _check_reference(name: str | None, *, required: bool) -> None:
    if name is None:
        if required:
            raise DeclarationError(
                "is missing, but canBeReferencedInPrompt is true; write the name that follows the # in a prompt",
                field="toolReferenceName",
            )
    elif not _REFERENCE_NAME.fullmatch(name):
        raise DeclarationError(
            f"{name!r} cannot follow a # in a prompt: use A–Z, a–z, 0–9, _ and -", field="toolReferenceName"
        )


def load_declarations(path: Path) -> tuple[Declaration, ...]:
    """The declarations in a JSON file, or `DeclarationError`."""
    where = str(path)
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise DeclarationError(f"cannot be read ({error.strerror}); check the path", where=where) from error
    try:
        check_levels(data)
        # Not our own decoder: this one knows the line and the column.
        value: object = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DeclarationError(f"is not UTF-8 (byte {error.start}); save it as UTF-8", where=where) from None
    except json.JSONDecodeError as error:
        raise DeclarationError(
            f"is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}", where=where
        ) from None
    except NestedTooDeeply as error:
        raise DeclarationError(f"cannot be read ({error})", where=where) from None
    except ValueError:
        raise DeclarationError("has a number of thousands of digits", where=where) from None
    return declarations_from(value, where=where)


def declarations_from(value: object, *, where: str) -> tuple[Declaration, ...]:
    """The declarations in a list, in `{"languageModelTools": […]}` or in a whole `package.json`."""
    if isinstance(value, dict) and isinstance(value.get("contributes"), dict):
        value = value["contributes"]
    if isinstance(value, dict):
        value = _contribution(value, where)
    if not isinstance(value, list):
        raise DeclarationError(
            f"must be a list of tools, got {mismatch.kind(value)}; write [{{…}}, …]",
            entry=CONTRIBUTION,
            where=where,
        )
    declared: dict[str, Declaration] = {}
    for index, item in enumerate(value):
        try:
            declaration = _declaration(item)
            _check_new(declaration.name, declared)
        except DeclarationError as error:
            raise error.at(where, _entry(index, item)) from None
        declared[declaration.name] = declaration
    return tuple(declared.values())


def _check_new(name: str, declared: dict[str, Declaration]) -> None:
    if name in declared:
        first = f"{CONTRIBUTION}[{list(declared).index(name)}]"
        raise DeclarationError(f"{name!r} is declared already, by {first}; rename one of them", field="name")


def _contribution(value: JsonObject, where: str) -> object:
    if CONTRIBUTION in value:
        return value[CONTRIBUTION]
    meant = nearest(CONTRIBUTION, value)
    advice = (
        f"rename {meant!r} to {CONTRIBUTION!r}" if meant else f'write {{"{CONTRIBUTION}": […]}}, or a list'
    )
    raise DeclarationError(f"has no {CONTRIBUTION!r}; {advice}", where=where)


def _entry(index: int, item: object) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    place = f"{CONTRIBUTION}[{index}]"
    return f"{place} ({name})" if isinstance(name, str) and name else place


# As the same thing is called elsewhere: by MCP, by OpenAI, by JSON Schema.
_ELSEWHERE = {
    "description": "modelDescription",
    "title": "displayName",
    "parameters": "inputSchema",
    "schema": "inputSchema",
    "readOnlyHint": "readOnly",
}
# Two fields of one tool are seldom more alike than this by chance.
_MISSPELT = 0.8


def _declaration(item: object) -> Declaration:
    if not isinstance(item, dict):
        raise DeclarationError(f"must be an object, got {mismatch.kind(item)}")
    known = [field.encode_name for field in msgspec.structs.fields(Declaration)]
    missing = [field for field in known if field not in item]
    for field in item:
        if field not in known:
            meant = _ELSEWHERE.get(field) or nearest(str(field), missing, near=_MISSPELT)
            if meant in missing:
                raise DeclarationError(f"is not a field of a tool; did you mean {meant!r}?", field=str(field))
    try:
        declaration = msgspec.convert(item, Declaration)
    except msgspec.ValidationError as error:
        raise _in_our_words(str(error)) from None
    if declaration.input_schema is not None:
        try:
            schema.check_schema(declaration.input_schema)
        except schema.SchemaError as error:
            raise DeclarationError(error.problem, field=f"inputSchema{error.path}") from None
    return declaration


_REQUIRED = re.compile(r"Object missing required field `(?P<field>\w+)`(?: - at `\$\.(?P<path>.*)`)?")
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>.+)`, got `(?P<got>.+)` - at `\$\.(?P<path>.*)`")
_TYPES = {
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "int": "a number",
    "float": "a number",
    "null": "null",
}


def _in_our_words(message: str) -> DeclarationError:
    """Translate msgspec's message about a wrong type into words for a user who does not know Python."""
    if missing := _REQUIRED.fullmatch(message):
        field = ".".join(filter(None, (missing["path"], missing["field"])))
        return DeclarationError("is missing, and every tool needs it", field=field)
    if wrong := _WRONG_TYPE.fullmatch(message):
        expected = " or ".join(
            _TYPES.get(kind, kind) for kind in wrong["expected"].split(" | ") if kind != "null"
        )
        return DeclarationError(
            f"must be {expected}, not {_TYPES.get(wrong['got'], wrong['got'])}", field=wrong["path"]
        )
    return DeclarationError(message)
