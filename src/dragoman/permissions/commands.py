"""The commands in a request, each as the agent sent it: a line for a shell, or an argument vector.

A person is shown all of them as text, one on each line. A rule must see them one by one: two lines that are each
complete may mean something else when they are joined.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dragoman.lm.json import canonical
from dragoman.permissions.fields import ARGUMENTS, COMMANDS, fields_of, plain_name

__all__ = ["PROGRAMS", "GivenCommand", "commands_in", "in_one_text"]

# Fields that hold a program to which arguments may stand in a field beside it.
PROGRAMS = ("command", "cmd", "exec", "shell")


@dataclass(frozen=True, slots=True)
class GivenCommand:
    """One command. `argv` is None if a shell runs the text; `is_clear` is False if it is not known what runs."""

    text: str
    argv: tuple[str, ...] | None = None
    is_clear: bool = True


def commands_in(raw: object, extra: object = None) -> tuple[GivenCommand, ...]:
    """Every command in the input of a request and in its further fields, each once."""
    found = [
        given
        for name, value in (*fields_of(raw), *fields_of(extra))
        if name in COMMANDS and value
        for given in _given(name, value)
    ]
    if isinstance(raw, dict):
        by_name = {plain_name(name): value for name, value in raw.items()}
        for name in PROGRAMS:
            for arguments in (by_name.get(each) for each in ARGUMENTS):
                program = by_name.get(name)
                if (
                    isinstance(program, str)
                    and isinstance(arguments, list)
                    and arguments
                    and _are_words(arguments)
                ):
                    words = (program, *map(str, arguments))
                    parts = (program, shlex.join(words[1:]))
                    found = [given for given in found if given.text not in parts]
                    # A program with a space in its name may as well be a line that the arguments are added to.
                    is_clear = shlex.quote(program) == program
                    found.insert(0, GivenCommand(shlex.join(words), words, is_clear))
    return tuple(dict.fromkeys(found))


def in_one_text(commands: Iterable[GivenCommand]) -> str | None:
    """All commands, one on each line, for a person to read."""
    return "\n".join(dict.fromkeys(given.text for given in commands)).strip() or None


def _given(name: str, value: object) -> Iterator[GivenCommand]:
    match value:
        case str():
            yield GivenCommand(value)
        case list() if name == "commands" and _are_words(value):
            yield from (GivenCommand(str(line)) for line in value)
        case list() if _are_words(value):
            yield GivenCommand(shlex.join(map(str, value)), tuple(map(str, value)))
        case _:
            yield GivenCommand(canonical(value), is_clear=False)


def _are_words(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)
