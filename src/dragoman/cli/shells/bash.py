"""Completion for bash, from 3.2 on, which is what macOS has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dragoman.cli.shells.words import Choices, Typed, Value

__all__ = ["script"]

_SCRIPT = """\
# Completion of dragoman for bash. Made by: dragoman completion bash
_dragoman() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} command= waiting= given=0 words= word i
    COMPREPLY=()
    # What stands before the cursor: the command, the number of its arguments, and an option that waits for its value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        if [[ -n $waiting ]]; then
            [[ $word == "=" ]] || waiting=
            continue
        fi
        case "$command:$word" in
{taking}
            *:-*) ;;
            :*) command=$word ;;
            *) given=$((given + 1)) ;;
        esac
    done
    [[ $cur == "=" ]] && cur=
    if [[ -n $waiting ]]; then
        case "$command:$waiting" in
{values}
            *) return ;;
        esac
    elif [[ $cur == -* ]]; then
        case $command in
{options}
        esac
    else
        case "$command:$given" in
{arguments}
        esac
    fi
    # Not compgen -W: it would run what a name has in it.
    for word in $words; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}}
_dragoman_paths() {{
    # bash 3 cannot leave it to readline, which quotes what has to be quoted.
    compopt -o default 2>/dev/null || COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _dragoman dragoman
"""
_CASE = " " * 12


def script(typed: Sequence[Typed]) -> str:
    commands = typed[1:]
    return _SCRIPT.format(
        taking=_line([where for where, _ in _taking(typed)], "waiting=$word"),
        values="\n".join(_values(typed)),
        options="\n".join(f"{_CASE}{_options(each)} ;;" for each in typed),
        arguments="\n".join(
            [f'{_CASE}:*) words="{" ".join(each.command for each in commands)}" ;;', *_arguments(commands)]
        ),
    )


def _options(typed: Typed) -> str:
    names = " ".join(name for option in typed.options for name in option.names)
    return f"""{typed.command or "''"}) words="{names}\""""


def _taking(typed: Sequence[Typed]) -> Iterator[tuple[tuple[str, str], Value]]:
    """Options that take a value, with the command whose they are: `*` for those that may stand anywhere."""
    top = typed[0]
    for each in typed:
        for option in each.options:
            if option.value is not None and (each is top or option not in top.options):
                for name in option.names:
                    yield (each.command or "*", name), option.value


def _line(patterns: Iterable[tuple[str, str]], act: str) -> str:
    return f"{_CASE}{'|'.join(f'{command}:{word}' for command, word in patterns)}) {act} ;;"


def _values(typed: Sequence[Typed]) -> Iterator[str]:
    by_act: dict[str, list[tuple[str, str]]] = {}
    for where, value in _taking(typed):
        if act := _act(value):
            by_act.setdefault(act, []).append(where)
    for act, patterns in by_act.items():
        yield _line(patterns, act)


def _arguments(commands: Iterable[Typed]) -> Iterator[str]:
    for each in commands:
        for number, argument in enumerate(each.arguments):
            act = _act(argument.value)
            if act:
                yield _line([(each.command, "*" if argument.repeats else str(number))], act)


def _act(value: Value) -> str:
    match value:
        case Choices(words):
            return f'words="{" ".join(words)}"'
        case "file" | "folder":
            return "_dragoman_paths; return"
        case "models" | "agents" | "approvals" | "conversations" | "chats":
            return f'words=$("${{COMP_WORDS[0]}}" completion {value} 2>/dev/null)'
        case "anything":
            return ""
