"""What shells do themselves: reserved words, and commands that are not programs.

Some change what later commands mean, and some run or compute their arguments. No rule allows those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = ["doubts_about", "is_program_name"]

_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[.*\])?\+?=", re.DOTALL)
# Words that begin a construct in bash, dash or zsh. tree-sitter takes some of them for programs.
_RESERVED = frozenset(
    {
        "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "end", "esac", "fi", "for", "foreach",
        "function", "if", "in", "nocorrect", "noglob", "repeat", "select", "then", "until", "while",
    }
)  # fmt: skip
# Commands of the shells that change what later commands mean, or run their arguments.
_CHANGES_SHELL = frozenset(
    {
        "-", ".", "[", "alias", "autoload", "bind", "bindkey", "break", "builtin", "caller", "chdir", "compgen", "complete",
        "compopt", "continue", "declare", "dirs", "disable", "emulate", "enable", "eval", "exec", "export", "fc", "fg",
        "float", "functions", "getln", "getopts", "hash", "history", "integer", "jobs", "let", "local", "mapfile", "popd",
        "print", "pushd", "pushln", "r", "read", "readarray", "readonly", "rehash", "sched", "set", "setopt", "shift",
        "shopt", "source", "suspend", "test", "trap", "typeset", "ulimit", "umask", "unalias", "unfunction", "unhash",
        "unset", "unsetopt", "vared", "zcompile", "zle", "zmodload", "zparseopts", "zstyle",
    }
)  # fmt: skip
# zsh computes their argument: `exit 'path[$(rm x)]'` runs rm.
_EXITS = frozenset({"bye", "exit", "logout", "return"})
# dash keeps variables that are set for one of these: `PATH=. :; ls` runs ./ls.
_KEEPS_VARIABLES = _EXITS | {":", "times"}
# `%n` sets a variable. zsh computes the arguments of `%d` and of a width `*`.
_PLAIN_FORMAT = re.compile(r"(?:[^%]|%%|%-?[0-9]*(?:\.[0-9]+)?[bcqs])*", re.DOTALL)


def is_program_name(raw: str) -> bool:
    """Whether a word, as it is written, is a program in the place of one: no reserved word and no assignment."""
    return raw not in _RESERVED and not _ASSIGNS.match(raw)


def doubts_about(command: SimpleCommand, *, is_inner: bool) -> Iterator[str]:
    """Why a shell may do something else than run this program with these arguments.

    `is_inner`: another command runs it. That may be `time`, behind which a reserved word and an assignment are that.
    """
    if not command.words:
        yield "a redirect without a command, for which zsh runs a program"
        return
    program, *arguments = command.words
    name = program.text
    if not program.is_exact:
        yield "a program whose name the shell computes"
    if name in _CHANGES_SHELL or (is_inner and (name == "cd" or not is_program_name(name))):
        yield f"{name}, which changes the shell or runs its arguments"
    if name in _KEEPS_VARIABLES and command.assignments:
        yield "a variable that is set for the commands after it"
    if name in _EXITS and not all(word.is_exact and word.text.isdecimal() for word in arguments):
        yield f"{name} with an argument that zsh computes"
    if name == "printf" and arguments and not _is_plain_format(arguments[0]):
        yield "printf with more than text, which may set a variable or compute its arguments"


def _is_plain_format(word: Word) -> bool:
    return word.is_exact and not word.text.startswith("-") and _PLAIN_FORMAT.fullmatch(word.text) is not None
