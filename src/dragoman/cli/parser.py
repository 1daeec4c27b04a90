"""From the command line to a command and its arguments.

The line is read in two steps: up to the command, then the rest by the parser of that command. Both take the global
options, so these may stand before the command and after it, and only one command's parser is ever built.
"""

from __future__ import annotations

import os
import shutil
from argparse import REMAINDER, SUPPRESS, Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from dragoman import __version__
from dragoman.cli.command import CliCommand
from dragoman.cli.commands import COMMANDS
from dragoman.cli.errors import UsageError
from dragoman.cli.layout import Layout, laid_out
from dragoman.cli.manual import ALWAYS, listed, sections
from dragoman.logs import DEFAULT_LEVEL, LEVEL_VARIABLE, LEVELS
from dragoman.nearest import nearest

__all__ = ["parse", "parsers", "short_help"]

_SHORT_HELP = """\
Dragoman makes any agent a language model, with a person deciding what may run.

  dragoman demo        {demo}
  dragoman init        {init}
  dragoman chat        {chat}
  dragoman doctor      {doctor}

All commands and options: dragoman help
""".format(**{name: command.summary for name, command in COMMANDS.items()})

_DESCRIPTION = f"""\
Dragoman stands between consumers of language models and whatever answers them,
with a person deciding what may run.

commands:
{listed(tuple((command.name, command.summary) for command in COMMANDS.values()))}
"""

_EPILOG = f"""\
configuration:
  A TOML file: --config FILE, else $DRAGOMAN_CONFIG, else dragoman.toml in your configuration folder (on Linux ~/.config/dragoman). Without the first two, ./dragoman.toml may add models and tighten settings; its models are used once you trust it (dragoman trust).

environment:
{listed(ALWAYS)}

exit status:
  0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted

More about a command: dragoman help COMMAND
"""


def short_help() -> str:
    """The help for a command line that has only our name."""
    return laid_out(_SHORT_HELP, shutil.get_terminal_size().columns) + "\n"


def parsers() -> Iterator[tuple[CliCommand | None, ArgumentParser]]:
    """All parsers: of the line up to the command, and of each command."""
    yield None, _top()
    for command in COMMANDS.values():
        yield command, _parser_of(command)


def parse(
    argv: Sequence[str], environ: Mapping[str, str] = os.environ
) -> tuple[CliCommand | None, Namespace]:
    """The command, if one was given, and its arguments. `UsageError` if the line is wrong."""
    top = _top()
    namespace = top.parse_line(argv)
    name: str | None = namespace.command
    rest: list[str] = namespace.rest
    if name == "help":
        # The words of those who know it from other programs: the same as `dragoman COMMAND --help`.
        return parse([*rest[:1], "--help"], environ)
    command = None
    if name is not None:
        if name not in COMMANDS:
            top.error(f'unknown command "{name}".{_meant(name, COMMANDS)}')
        command = COMMANDS[name]
        # Values given before the command stay unless they are given again.
        namespace = _parser_of(command).parse_line(rest, namespace)
    namespace.log_level = _level(namespace.log_level, environ)
    return command, namespace


class _Parser(ArgumentParser):
    def parse_line(self, argv: Sequence[str], namespace: Namespace | None = None) -> Namespace:
        parsed, unknown = self.parse_known_args(argv, namespace)
        options = [option for action in self._actions for option in action.option_strings]
        for word in unknown:
            if word.startswith("-"):
                self.error(f"unknown option {word}.{_meant(word.partition('=')[0], options)}")
            instead = (
                ' A command is given in quotes: --command "git log -3".' if "--command" in options else ""
            )
            self.error(f'"{word}" is one argument too many.{instead}')
        return parsed

    def _check_value(self, action: Action, value: str) -> None:
        choices = tuple(action.choices or ())
        if choices and value not in choices:
            there_are = ", ".join(choices)
            raise ArgumentError(
                action, f'there is no "{value}"; there are {there_are}.{_meant(value, choices)}'
            )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}\nTry: {self.prog} --help")


def _top() -> _Parser:
    parser = _Parser(
        prog="dragoman",
        usage="dragoman COMMAND [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=Layout,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    parser.set_defaults(config=None, state_dir=None, log_level=None, log_file=None, record=None)
    _add_global_options(parser)
    parser.add_argument("command", nargs="?", help=SUPPRESS)
    parser.add_argument("rest", nargs=REMAINDER, help=SUPPRESS)
    return parser


def _parser_of(command: CliCommand) -> _Parser:
    parser = _Parser(
        prog=f"dragoman {command.name}",
        description=command.description,
        epilog="\n\n".join(
            f"{heading}:\n{text}"
            for heading, text in (("examples", command.examples), *sections(command.name))
        ),
        formatter_class=Layout,
        allow_abbrev=False,
    )
    parser._positionals.title = "arguments"  # noqa: SLF001 - "positional" is a word for programmers
    command.add_arguments(parser)
    _add_global_options(parser)
    return parser


def _add_global_options(parser: ArgumentParser) -> None:
    options = parser.add_argument_group("global options")
    options.add_argument(
        "--config", type=Path, default=SUPPRESS, metavar="FILE", help="read the configuration from FILE"
    )
    options.add_argument(
        "--state-dir",
        type=Path,
        default=SUPPRESS,
        metavar="DIR",
        help="keep approvals and other state in DIR",
    )
    options.add_argument(
        "--log-level",
        default=SUPPRESS,
        metavar="LEVEL",
        help=f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]}; {DEFAULT_LEVEL} by default",
    )
    options.add_argument(
        "--log-file", type=Path, default=SUPPRESS, metavar="FILE", help="log to FILE, not to standard error"
    )
    options.add_argument(
        "--record",
        type=Path,
        default=SUPPRESS,
        metavar="FILE",
        help="write all messages to and from agents to FILE, without secrets",
    )


def _level(option: str | None, environ: Mapping[str, str]) -> str:
    origin, given = ("--log-level", option) if option else (f"${LEVEL_VARIABLE}", environ.get(LEVEL_VARIABLE))
    level = (given or DEFAULT_LEVEL).lower()
    if level not in LEVELS:
        raise UsageError(
            f'{origin}: "{given}" is no log level; there are {", ".join(LEVELS)}.{_meant(level, LEVELS)}'
        )
    return level


def _meant(name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    found = nearest(name, known)
    return f' Did you mean "{found}"?' if found else ""
