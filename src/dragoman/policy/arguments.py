"""What an argument of a command may mean: a path, or another command."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator

from dragoman.permissions.sensitive import Places
from dragoman.policy.options import is_option
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = [
    "RUNNERS",
    "folder_path",
    "is_program",
    "path_of",
    "path_words",
    "runs_arguments",
    "runs_files_of_folder",
    "tokens_of",
]

# Programs that run other programs, or code, which their arguments name.
RUNNERS = frozenset(
    {
        "ansible", "ash", "awk", "bash", "bun", "bunx", "busybox", "chroot", "csh", "dash", "deno", "docker", "doas", "env",
        "eval", "exec", "expect", "find", "fish", "flock", "gawk", "gdb", "ionice", "kubectl", "ksh", "lua", "mawk", "nice",
        "node", "nohup", "npm", "npx", "nsenter", "parallel", "perl", "php", "pipx", "pnpm", "pnpx", "podman", "powershell",
        "pwsh", "pypy", "python", "python2", "python3", "rsync", "ruby", "screen", "script", "sed", "setsid", "sh", "source", "ssh", "stdbuf",
        "strace", "su", "sudo", "systemd-run", "tar", "taskset", "tcsh", "time", "timeout", "tmux", "unshare", "uv", "uvx",
        "vi", "vim", "watch", "xargs", "yarn", "zsh",
    }
)  # fmt: skip
# Commands of git that run what they are given.
_GIT_RUNNERS = frozenset({"bisect", "filter-branch", "rebase", "submodule"})
_VERSION = re.compile(r"[0-9.-]+\Z")
_BETWEEN_TOKENS = re.compile(r"[\s;|&()<>'\"`$={},]+")
# What may stand before a path in an argument: `if=a`, `@a`, `HEAD:a`, `a,b`.
_BEFORE_A_PATH = re.compile(r"[=@:,)]")
# A longer cluster of options is no cluster.
_LONGEST_CLUSTER = 32
# Programs that run files of the folder that they start in.
_OF_FOLDER = frozenset(
    {
        "ash", "bash", "bun", "bunx", "cargo", "cmake", "ctest", "dash", "deno", "fish", "gmake", "go", "gradle", "grunt",
        "gulp", "just", "ksh", "lua", "make", "mvn", "ninja", "node", "nox", "npm", "npx", "perl", "php", "pnpm", "pypy",
        "pytest", "python", "rake", "ruby", "sh", "source", "task", "tox", "uv", "uvx", "yarn", "zsh",
    }
)  # fmt: skip


def runs_arguments(command: SimpleCommand) -> bool:
    """Whether a program may run what its arguments name: by its name, with a version behind it, too."""
    words = [word.text.casefold() for word in command.words[:2]]
    program = os.path.basename(words[0]) if words else ""  # noqa: PTH119 - of any text
    is_git = program == "git" and words[1:] != [] and words[1] in _GIT_RUNNERS
    return program in RUNNERS or _VERSION.sub("", program) in RUNNERS or is_git


def runs_files_of_folder(command: SimpleCommand) -> bool:
    """Whether it depends on the folder what a program runs: `./check.sh`, `make`, `npm`."""
    program = command.words[0].text if command.words else ""
    is_relative = "/" in program and not program.startswith("/")
    name = os.path.basename(program)  # noqa: PTH119 - of any text
    return is_relative or name in _OF_FOLDER or _VERSION.sub("", name) in _OF_FOLDER


def tokens_of(command: SimpleCommand) -> list[Word]:
    """The words inside the arguments of a program that may run them."""
    return [Word(token) for word in command.words[1:] for token in _BETWEEN_TOKENS.split(word.text) if token]


def is_program(text: str, names: frozenset[str]) -> bool:
    """Whether a word starts one of these programs: by its path, too, and in upper or lower case."""
    given = text.casefold()
    base = os.path.basename(given)  # noqa: PTH119 - of any text
    return any(name.casefold() in (given, base) for name in names)


def path_words(word: Word) -> Iterator[Word]:
    """What a program may take for a path in an argument: all of it, or what stands behind an option or a sign."""
    if not word.is_exact:
        yield word
        return
    text = word.text
    if not is_option(text):
        yield word
    elif not text.startswith("--"):
        if len(text) > _LONGEST_CLUSTER:
            yield Word(text, "unknown")
            return
        yield from (Word(text[place:]) for place in range(2, len(text)))
    for sign in _BEFORE_A_PATH.finditer(text):
        yield Word(text[sign.end() :])
        if text[sign.end() :].startswith("/"):
            # git takes `:/a` for a path from the top of the repository.
            yield Word(text[sign.end() :].lstrip("/"))


def path_of(word: Word, folder: str, places: Places) -> str:
    """Where an exact word or one with the home leads, for a command in this folder."""
    if word.kind == "home":
        return places.absolute(word.text, folder)
    return os.path.join(folder_path(folder, places), word.text)  # noqa: PTH118 - `..` stays


def folder_path(folder: str, places: Places) -> str:
    """A folder that a command may run in. After `cd ~/x` it begins with the home."""
    return folder if folder.startswith("/") else places.absolute(folder, "/")
