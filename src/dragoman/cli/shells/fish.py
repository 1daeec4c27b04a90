"""Completion for fish: as a file `dragoman.fish` in `~/.config/fish/completions`, or sourced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.cli.shells.words import Choices, CompletionOption, Typed, Value

__all__ = ["script"]

_HEAD = """\
# Completion of dragoman for fish. Made by: dragoman completion fish
complete -c dragoman -f"""


def script(typed: Sequence[Typed]) -> str:
    top, *commands = typed
    lines = [_HEAD]
    lines += (_option("__fish_use_subcommand", option) for option in top.options)
    for each in commands:
        lines.append(
            f"complete -c dragoman -n __fish_use_subcommand -a {each.command} -d {_quoted(each.summary)}"
        )
        lines += _of_command(each)
    return "\n".join(lines) + "\n"


def _of_command(typed: Typed) -> Iterator[str]:
    here = f"__fish_seen_subcommand_from {typed.command}"
    for option in typed.options:
        yield _option(here, option)
    first = next((each.value for each in typed.arguments if isinstance(each.value, Choices)), None)
    for argument in typed.arguments:
        when = here
        if first is not None and argument.value == first:
            # The action of a command, which is given once.
            when = f"{here}; and not __fish_seen_subcommand_from {' '.join(first.words)}"
        elif first is not None:
            when = f"{here}; and __fish_seen_subcommand_from {' '.join(first.words)}"
        if act := _act(argument.value):
            yield f"complete -c dragoman -n {_quoted(when)} {act}"


def _option(when: str, option: CompletionOption) -> str:
    words = ["complete -c dragoman -n", _quoted(when)]
    for name in option.names:
        words += ["-l", name[2:]] if name.startswith("--") else ["-s", name[1:]]
    if option.value is not None:
        words.append("-r" if option.value in ("file", "folder") else "-x")
        words.append(_act(option.value))
    return " ".join(filter(None, [*words, "-d", _quoted(option.help)]))


def _act(value: Value) -> str:
    match value:
        case Choices(words):
            return f"-a {_quoted(' '.join(words))}"
        case "file":
            return "-F"
        case "folder":
            return f"-a {_quoted('(__fish_complete_directories)')}"
        case "models" | "agents" | "approvals" | "conversations" | "chats":
            return f"-a {_quoted(f'(dragoman completion {value} 2>/dev/null)')}"
        case "anything":
            return ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
