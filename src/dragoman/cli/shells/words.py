"""What may be typed where, taken from the parsers, so that no script offers an option that does not exist."""

from __future__ import annotations

from argparse import SUPPRESS, Action
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dragoman.cli.commands import COMMANDS
from dragoman.cli.parser import parsers
from dragoman.logs import LEVELS

__all__ = ["Argument", "Asked", "Choices", "CompletionOption", "Typed", "Value", "typed"]

# Names that the shell asks us for when they are needed: `dragoman completion models`.
Asked: TypeAlias = Literal["models", "agents", "approvals", "conversations", "chats"]


@dataclass(frozen=True, slots=True)
class Choices:
    """One of these words."""

    words: tuple[str, ...]


Value: TypeAlias = Choices | Asked | Literal["file", "folder", "anything"]

_BY_METAVAR: dict[str, Value] = {
    "FILE": "file",
    "SOURCE": "file",
    "DIR": "folder",
    "MODEL": "models",
    "TARGET": "models",
    "AGENT": "agents",
    "LEVEL": Choices(LEVELS),
}
# What an ID is one of, by the command that takes it.
_IDS: dict[str, Asked] = {
    "agents": "agents",
    "approvals": "approvals",
    "conversations": "conversations",
    "chat": "chats",
    "policy": "models",
}


@dataclass(frozen=True, slots=True)
class CompletionOption:
    names: tuple[str, ...]
    help: str
    # None: it takes none.
    value: Value | None


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: Value
    repeats: bool


@dataclass(frozen=True, slots=True)
class Typed:
    """What may follow a command; before any command, its name is empty."""

    command: str
    summary: str
    options: tuple[CompletionOption, ...]
    arguments: tuple[Argument, ...]


def typed() -> Iterator[Typed]:
    for command, parser in parsers():
        name = command.name if command else ""
        actions = [action for action in parser._actions if action.help != SUPPRESS]  # noqa: SLF001 - there is no public list
        yield Typed(
            name,
            command.summary if command else "",
            tuple(_option(name, action) for action in actions if action.option_strings),
            tuple(_argument(name, action) for action in actions if not action.option_strings),
        )

    # The one word that is no command, and has no parser.
    yield Typed(
        "help",
        "all commands, or more about one",
        (),
        (Argument("COMMAND", Choices(tuple(COMMANDS)), repeats=False),),
    )


def _option(command: str, action: Action) -> CompletionOption:
    value = None if action.nargs == 0 else _value(command, action)
    return CompletionOption(tuple(action.option_strings), action.help or "", value)


def _argument(command: str, action: Action) -> Argument:
    return Argument(str(action.metavar or action.dest), _value(command, action), repeats=action.nargs == "*")


def _value(command: str, action: Action) -> Value:
    metavar = str(action.metavar)
    if action.choices is not None:
        return Choices(tuple(map(str, action.choices)))
    if "|" in metavar:
        return Choices(tuple(metavar.split("|")))
    if metavar == "ID":
        return _IDS[command]
    return _BY_METAVAR.get(metavar, "anything")
