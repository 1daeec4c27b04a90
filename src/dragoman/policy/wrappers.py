"""Programs that run another command: what they run.

A wrapper with an option that is not listed here is not understood. Each entry gives the options without a value, and
those with one. Only what changes neither the program that runs nor its arguments nor where it runs is listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import NotUnderstood, Word

__all__ = ["ShellScript", "unwrap"]


@dataclass(frozen=True, slots=True)
class ShellScript:
    """A text that a shell runs."""

    text: str


_Inner: TypeAlias = SimpleCommand | ShellScript | None
# A pattern that matches nothing.
_NONE = "(?!)"
_WHERE_PROGRAMS_ARE = ("/bin/", "/usr/bin/")
# Those that the analysis is compared with.
_SHELLS = frozenset({"bash", "dash", "sh", "zsh"})
# -e, -u, -x: end at an error, refuse unset variables, print commands. -l: read the user's own start-up files.
_SHELL_FLAGS = re.compile(r"-[elux]+")
_SHELL_COMMAND = re.compile(r"-[elux]*c")
_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def unwrap(command: SimpleCommand) -> _Inner:
    """What a command runs, if it is one that runs another. Raises `NotUnderstood`."""
    name = _name(command)
    if name in _SHELLS:
        return _shell(command)
    wrapper = _WRAPPERS.get(name)
    return None if wrapper is None else wrapper(command)


def _name(command: SimpleCommand) -> str:
    program = command.words[0] if command.words and command.words[0].is_exact else Word("")
    for folder in _WHERE_PROGRAMS_ARE:
        if program.text.startswith(folder):
            return program.text[len(folder) :]
    return program.text


def _shell(command: SimpleCommand) -> _Inner:
    words = command.words[1:]
    at = 0
    while at < len(words) and _is(words[at], _SHELL_FLAGS):
        at += 1
    if at < len(words) and _is(words[at], _SHELL_COMMAND):
        script = words[at + 1] if at + 1 < len(words) else None
        if script is None or not script.is_exact or script.text.startswith(("-", "+")):
            raise NotUnderstood(f"what {command.words[0].text} is given to run")
        return ShellScript(script.text)
    if at < len(words) and words[at].is_exact and not words[at].text.startswith(("-", "+")):
        # It runs a file, like any other program.
        return None
    raise NotUnderstood(f"{command.words[0].text}, which reads commands from its input or has other options")


def _env(command: SimpleCommand) -> _Inner:
    assignments = list(command.assignments)
    for at, word in enumerate(command.words[1:], start=1):
        found = _ASSIGNMENT.fullmatch(word.text)
        if found is None:
            if not word.is_exact or word.text.startswith("-") or "=" in word.text:
                raise NotUnderstood("env with options or unusual variables")
            return replace(command, words=command.words[at:], assignments=tuple(assignments))
        if not word.is_exact:
            raise NotUnderstood("env with a variable whose value the shell computes")
        assignments.append((found[1], Word(found[2])))
    # It prints the environment.
    return None if not command.has_more else _unknown_inner("env")


def _xargs(command: SimpleCommand) -> _Inner:
    options = _options(
        command, flags=r"-[0rtx]+|--null|--no-run-if-empty|--verbose|--exit", values=r"-[nPLsdIE]",
        joined=r"-[nPLs][0-9]+|-d.+|-I.+|--max-(?:args|procs|lines|chars)=[0-9]+|--delimiter=.+",
    )  # fmt: skip
    replaced = [option[2:] or value for option, value in options.given if option.startswith("-I")]
    words = command.words[options.end :] or (Word("echo"),)
    if command.has_more and options.end == len(command.words):
        # Another xargs adds what this one runs.
        return _unknown_inner("xargs")
    # Of -I, -n and -L the last one counts: with the others, arguments are added at the end.
    adds = not replaced or any(re.match("-[nL]|--max-[al]", option) for option, _ in options.given)
    return replace(
        command,
        words=tuple(Word(word.text, "unknown") if _holds(word, replaced) else word for word in words),
        has_more=command.has_more or adds,
    )


def _holds(word: Word, replaced: Sequence[str]) -> bool:
    return any(text in word.text for text in replaced)


def _timeout(command: SimpleCommand) -> _Inner:
    at = _options(
        command, flags="--foreground|--preserve-status|-v|--verbose", values="-k|-s",
        joined=r"-k[0-9.]+[smhd]?|-s[A-Z0-9]+|--kill-after=[0-9.]+[smhd]?|--signal=[A-Z0-9]+",
    ).end  # fmt: skip
    if at >= len(command.words) or not _is(command.words[at], _DURATION):
        raise NotUnderstood("timeout without a plain duration")
    return _rest(command, at + 1)


def _simple(
    flags: str = _NONE, values: str = _NONE, joined: str = _NONE
) -> Callable[[SimpleCommand], _Inner]:
    return lambda command: _rest(command, _options(command, flags=flags, values=values, joined=joined).end)


def _time(command: SimpleCommand) -> _Inner:
    at = _options(command, flags="-p").end
    if at == len(command.words) and command.redirects:
        raise NotUnderstood("a redirect without a command, for which zsh runs a program")
    return _rest(command, at)


def _command(command: SimpleCommand) -> _Inner:
    # `command -v` only says where a program is.
    is_question = len(command.words) > 1 and command.words[1] in (Word("-v"), Word("-V"))
    return None if is_question else _rest(command, _options(command).end)


@dataclass(frozen=True, slots=True)
class _Options:
    """A wrapper's own options with their values, and the number of the word behind them."""

    given: tuple[tuple[str, str], ...]
    end: int


def _options(
    command: SimpleCommand, flags: str = _NONE, values: str = _NONE, joined: str = _NONE
) -> _Options:
    """Read options: `flags` without a value, `values` with one in the next word, `joined` with one in the same word."""
    words = command.words
    given: list[tuple[str, str]] = []
    at = 1
    while at < len(words):
        word = words[at]
        if word.kind in ("unknown", "glob"):
            raise NotUnderstood(f"{words[0].text} with words that the shell computes")
        if not word.text.startswith("-") or word.text == "-":
            break
        if re.fullmatch(flags, word.text) or re.fullmatch(joined, word.text):
            given.append((word.text, ""))
            at += 1
        elif re.fullmatch(values, word.text) and at + 1 < len(words) and words[at + 1].is_exact:
            given.append((word.text, words[at + 1].text))
            at += 2
        else:
            raise NotUnderstood(f"{words[0].text} with the option {word.text[:20]}")
    return _Options(tuple(given), at)


def _rest(command: SimpleCommand, at: int) -> _Inner:
    words = command.words[at:]
    if not words:
        return None if not command.has_more else _unknown_inner(command.words[0].text)
    return replace(command, words=words)


def _unknown_inner(name: str) -> _Inner:
    raise NotUnderstood(f"what {name} is given to run")


def _is(word: Word, pattern: re.Pattern[str]) -> bool:
    return word.is_exact and pattern.fullmatch(word.text) is not None


_WRAPPERS: dict[str, Callable[[SimpleCommand], _Inner]] = {
    "command": _command,
    "env": _env,
    "nice": _simple(values="-n", joined=r"-n-?[0-9]+|-[0-9]+|--adjustment=-?[0-9]+"),
    "nohup": _simple(),
    "stdbuf": _simple(
        values="-[ioe]", joined=r"-[ioe](?:0|L|[0-9]+)|--(?:input|output|error)=(?:0|L|[0-9]+)"
    ),
    "time": _time,
    "timeout": _timeout,
    "xargs": _xargs,
}
