"""What a request asks for, field by field.

An *allow* rule covers a request only if every field of it is known: a field that changes what runs, where, or which file
is written must not be passed over. `commands_of` gives the simple commands of a request and what about it is not
understood. `says_only_paths` is the same question for requests to change files.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dragoman.lm import JsonObject
from dragoman.lm.json import canonical
from dragoman.permissions.action import Action
from dragoman.permissions.commands import PROGRAMS, commands_in
from dragoman.permissions.fields import (
    ARGUMENTS,
    COMMANDS,
    CONTENTS,
    ENVIRONMENTS,
    FOLDERS,
    PATHS,
    plain_name,
)
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = ["commands_of", "says_only_paths"]

# Fields that change nothing about what happens: words for a person, limits of time, ids.
_HARMLESS = frozenset(
    {
        "availabledecisions", "background", "callid", "description", "explanation", "isbackground", "justification",
        "parsedcmd", "proposedexecpolicyamendment", "reason", "runinbackground", "startedatms", "timeout", "timeoutms",
        "timeoutseconds", "toolcallid", "turnid",
    }
)  # fmt: skip
# Fields of a request to change a file, beside its paths and its text.
_OF_CHANGES = _HARMLESS | {"edits", "encoding", "instruction", "instructions", "language"}
_PATCHES = frozenset({"diff", "patch", "unifieddiff"})
# The tool of the terminal that runs commands in the workspace.
_RUN_COMMAND = "run_command"
_OF_MCP = "mcp__"
_PATCHED = re.compile(
    r"^(?:--- |\+\+\+ |Index: |\*\*\* (?:Add|Delete|Update) File: |\*\*\* Move to: |(?:rename|copy) (?:from|to) )([^\t\n]+)",
    re.MULTILINE,
)
# Of all commands of a request together.
_MOST_CHARACTERS = 10_000
_NO_FILE = frozenset({"/dev/null", "dev/null"})


def commands_of(action: Action) -> tuple[tuple[SimpleCommand, ...], tuple[str, ...]]:
    """The simple commands of an action, and what is not understood about them."""
    from dragoman.policy.command_line import CommandLine, read_line, read_vector  # noqa: PLC0415 - loads tree-sitter

    commands: list[SimpleCommand] = []
    variables, unclear = _environment(action.environment)
    unsure = dict.fromkeys((*unclear, *_beside_command(action)))
    left = _MOST_CHARACTERS
    for given in commands_in(action.input, action.extra):
        left -= len(given.text)
        line = (
            CommandLine((), ("what its fields mean",))
            if not given.is_clear
            else CommandLine((), (f"more than {_MOST_CHARACTERS:,} characters of commands",))
            if left < 0
            else read_line(given.text, action.folder)
            if given.argv is None
            else read_vector(given.argv, action.folder)
        )
        commands += (
            replace(command, assignments=(*variables, *command.assignments)) for command in line.commands
        )
        unsure |= dict.fromkeys(line.unsure)
    return tuple(commands), tuple(unsure)


def _environment(given: object) -> tuple[tuple[tuple[str, Word], ...], tuple[str, ...]]:
    """The variables that the agent would set, as those of a command."""
    match given:
        case None:
            return (), ()
        case dict():
            return tuple((str(name), Word(str(value))) for name, value in given.items()), ()
        case list() if all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in given):
            return tuple((each["name"], Word(str(each.get("value")))) for each in given), ()
        case _:
            return (), ("the environment that it would run with",)


def _beside_command(action: Action) -> Iterator[str]:
    """What a request says beside its command, and may change what runs or where."""
    is_own = (action.kind, action.tool) == ("tool", _RUN_COMMAND)
    if not is_own and (action.kind != "execute" or (action.tool or "").startswith(_OF_MCP)):
        yield "a tool that may run the command elsewhere"
    if action.diffs:
        yield "a change of a file beside the command"
    given = [value for value in (action.input, action.extra) if value is not None]
    if not all(isinstance(value, dict) for value in given):
        yield "the form of the request"
        return
    fields = [
        (plain_name(name), name, value)
        for object_ in given
        if isinstance(object_, dict)
        for name, value in object_.items()
        if value is not None
    ]
    for plain, name, value in fields:
        is_text = plain not in FOLDERS or isinstance(value, str)
        if plain not in _HARMLESS | COMMANDS | {*ARGUMENTS, *FOLDERS} | ENVIRONMENTS or not is_text:
            yield f"the field “{name[:40]}” of the request"
    plain_names = [plain for plain, _, _ in fields]
    for names, what in ((FOLDERS, "folder"), (ENVIRONMENTS, "environment")):
        if len({canonical(value) for plain, _, value in fields if plain in names}) > 1:
            yield f"more than one {what}"
    if len(set(plain_names)) < len(plain_names):
        yield "two fields of one name"
    if not _has_one_vector({plain: value for plain, _, value in fields}):
        yield "arguments beside the command"


def _has_one_vector(fields: Mapping[str, object]) -> bool:
    """Whether arguments, if there are any, belong to one program, as a list of words."""
    programs = [plain for plain in fields if plain in COMMANDS]
    arguments = [plain for plain in ARGUMENTS if plain != "argv" and fields.get(plain) not in (None, [])]
    if "argv" in fields and programs != ["argv"]:
        return False
    if not arguments:
        return True
    values = fields[arguments[0]]
    return (
        len(arguments) == len(programs) == 1
        and programs[0] in PROGRAMS
        and isinstance(fields[programs[0]], str)
        and isinstance(values, list)
        and all(isinstance(value, str) for value in values)
    )


def says_only_paths(action: Action) -> bool:
    """Whether a request to change files names no file but those among its paths, and says nothing else."""
    if action.extra or action.urls or action.command is not None:
        return False
    if not isinstance(action.input, dict | None):
        return False
    return all(_is_of_change(name, text, action) for name, text in _texts(action.input or {}))


def _texts(given: JsonObject) -> Iterator[tuple[str, str]]:
    """Every text in an object, at any depth, under the name of its field; and every object in it, as an empty text."""
    waiting: list[tuple[str, object]] = list(given.items())
    while waiting:
        name, value = waiting.pop()
        match value:
            case dict():
                # Its name may be a path.
                yield name, ""
                waiting += value.items()
            case list():
                waiting += ((name, each) for each in value)
            case str():
                yield name, value
            case _:
                pass


def _is_of_change(name: str, text: str, action: Action) -> bool:
    plain = plain_name(name)
    if plain in _PATCHES:
        return all(_is_among(path, action) for path in _PATCHED.findall(text))
    return plain in PATHS | CONTENTS | _OF_CHANGES


def _is_among(patched: str, action: Action) -> bool:
    """Whether a file in a patch is one of the action's paths: absolute, relative to its folder, or as git writes it."""
    path = patched.strip()
    forms = {
        path,
        path.removeprefix("a/"),
        path.removeprefix("b/"),
        path[1:] if path[:2] in ("a/", "b/") else path,
    }
    spelled = {os.path.join(action.folder, form) for form in forms} | {f"/{form}" for form in forms}  # noqa: PTH118
    return bool(forms & _NO_FILE) or not spelled.isdisjoint(action.paths)
