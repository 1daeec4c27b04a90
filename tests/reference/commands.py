"""`docs/reference/commands.md`, from the parsers that read the command line."""

from argparse import Action, ArgumentParser
from collections.abc import Iterable, Iterator

from dragoman.cli.command import CliCommand
from dragoman.cli.errors import DONE, FAILED, INTERRUPTED, WRONG_USAGE
from dragoman.cli.manual import ALWAYS, MANUAL, STATE, ManualPage
from dragoman.cli.parser import parsers
from reference.markdown import WRITTEN, code, page, table

__all__ = ["commands"]

_GLOBAL = "global options"


def commands() -> str:
    (_, top), *found = parsers()
    pieces = [piece for command, parser in found if command for piece in _section(command, parser)]
    return page(
        "# Commands",
        WRITTEN,
        "`dragoman COMMAND --help` says the same in the terminal. A line is a command, its arguments, and options before or after it.",
        table(
            ("command", "what it is for"),
            (
                (f"[`{command.name}`](#dragoman-{command.name})", command.summary)
                for command, _ in found
                if command
            ),
        ),
        "## Global options",
        "Of every command. The environment variables count where the option is not given.",
        _options(_of_group(top, _GLOBAL)),
        f"{code('--version')} instead of a command prints the version, {code('--help')} the list of commands.",
        "## Exit status",
        table(
            ("status", "meaning"),
            (
                (str(DONE), "done"),
                (str(FAILED), "failed; what that is stands with each command"),
                (str(WRONG_USAGE), "wrong usage or configuration; standard error says what and where"),
                (str(INTERRUPTED), "interrupted with Ctrl-C"),
            ),
        ),
        "## Environment",
        table(("variable", "meaning"), ((code(name), about) for name, about in ALWAYS)),
        *pieces,
    )


def _section(command: CliCommand, parser: ArgumentParser) -> Iterator[str]:
    own = [action for action in parser._actions if action not in set(_of_group(parser, _GLOBAL))]
    positional = [action for action in own if not action.option_strings]
    optional = [action for action in own if action.option_strings and "--help" not in action.option_strings]
    manual = MANUAL[command.name]
    yield f"## dragoman {command.name}"
    yield f"```\n{_usage(command, positional, optional)}\n```"
    yield command.description
    yield table(("argument", ""), ((code(_name(action)), action.help or "") for action in positional))
    yield _options(optional)
    yield f"```sh\n{_examples(command.examples)}\n```"
    yield from _manual(manual)


def _name(action: Action) -> str:
    return str(action.metavar or action.dest)


def _of_group(parser: ArgumentParser, title: str) -> list[Action]:
    return [
        action for group in parser._action_groups if group.title == title for action in group._group_actions
    ]


def _usage(command: CliCommand, positional: Iterable[Action], optional: Iterable[Action]) -> str:
    words = ["dragoman", command.name, *map(_argument, positional)]
    return " ".join([*words, *(f"[{_option(action)}]" for action in optional)])


def _argument(action: Action) -> str:
    name = _name(action)
    match action.nargs:
        case "?":
            return f"[{name}]"
        case "*":
            return f"[{name} …]"
        case _:
            return name


def _option(action: Action) -> str:
    name = action.option_strings[-1]
    if action.nargs == 0:
        return name
    value = _name(action)
    return f"{name} [{value}]" if action.nargs == "?" else f"{name} {value}"


def _options(actions: Iterable[Action]) -> str:
    return table(
        ("option", ""),
        (
            (
                ", ".join(code(name) for name in (*action.option_strings[:-1], _option(action))),
                action.help or "",
            )
            for action in actions
        ),
    )


def _examples(text: str) -> str:
    """A command, and below it what it does, as a comment above it."""
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(f"# {about}\n{line}" for line, about in zip(lines[::2], lines[1::2], strict=True))


def _manual(manual: ManualPage) -> Iterator[str]:
    yield table(("exit status", ""), ((str(DONE), manual.done), (str(FAILED), manual.failed)))
    if manual.files:
        yield table(("file", ""), ((code(name), about) for name, about in manual.files))
        if any("STATE" in name for name, _ in manual.files):
            yield STATE
    if manual.environment:
        yield table(("environment", ""), ((code(name), about) for name, about in manual.environment))
