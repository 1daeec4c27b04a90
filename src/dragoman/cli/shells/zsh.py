"""Completion for zsh: as a file `_dragoman` in a folder of `$fpath`, or sourced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.cli.shells.words import Argument, Choices, CompletionOption, Typed, Value

__all__ = ["script"]

_SCRIPT = """\
#compdef dragoman
# Completion of dragoman for zsh. Made by: dragoman completion zsh
_dragoman_names() {{
    # What to ask for comes last; before it, the options that _arguments passes to compadd.
    local -a names
    names=(${{(f)"$(${{dragoman:-dragoman}} completion $@[-1] 2>/dev/null)"}})
    compadd "${{@[1,-2]}}" -a names
}}
_dragoman() {{
    local context state state_descr line ret=1 dragoman=$words[1]
    typeset -A opt_args
    _arguments -C \\
{options}
        '1:command:->command' \\
        '*::argument:->argument' && ret=0
    case $state in
        command)
            local -a commands
            commands=(
{commands}
            )
            _describe -t commands command commands && ret=0
            ;;
        argument)
            case $words[1] in
{cases}
            esac
            ;;
    esac
    return ret
}}
if [[ $funcstack[1] == _dragoman ]]; then
    _dragoman "$@"
else
    compdef _dragoman dragoman
fi
"""
_CASE = """\
                {command})
                    _arguments \\
{specs} && ret=0
                    ;;"""


def script(typed: Sequence[Typed]) -> str:
    top, *commands = typed
    return _SCRIPT.format(
        options="\n".join(f"        {_option(option)} \\" for option in top.options),
        commands="\n".join(" " * 16 + _quoted(f"{each.command}:{_plain(each.summary)}") for each in commands),
        cases="\n".join(
            _CASE.format(command=each.command, specs=" \\\n".join(" " * 24 + spec for spec in _specs(each)))
            for each in commands
        ),
    )


def _specs(typed: Typed) -> Iterator[str]:
    for option in typed.options:
        yield _option(option)
    for number, argument in enumerate(typed.arguments, 1):
        yield _argument(number, argument)


def _option(option: CompletionOption) -> str:
    """All names of an option in one: after one of them, zsh does not offer the others."""
    value = "" if option.value is None else f":value:{_act(option.value)}"
    rest = _quoted(f"[{_plain(option.help)}]{value}")
    if len(option.names) == 1:
        return option.names[0] + ("=" if value else "") + rest
    others = _quoted(f"({' '.join(option.names)})")
    each = ",".join(name + ("=" if value and name.startswith("--") else "") for name in option.names)
    return f"{others}{{{each}}}{rest}"


def _argument(number: int, argument: Argument) -> str:
    place = "*" if argument.repeats else str(number)
    return _quoted(f"{place}:{_plain(argument.name.replace(':', ' '))}:{_act(argument.value)}")


def _act(value: Value) -> str:
    match value:
        case Choices(words):
            return f"({' '.join(words)})"
        case "file":
            return "_files"
        case "folder":
            return "_files -/"
        case "models" | "agents" | "approvals" | "conversations" | "chats":
            return f"_dragoman_names {value}"
        case "anything":
            return " "


def _plain(text: str) -> str:
    """A description without the characters that zsh interprets."""
    return re.sub(r"([\\:\[\]])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
