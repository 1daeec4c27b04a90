"""Why a command could not be started, in words that say what to do about it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["SpawnError", "SpawnFailure", "refuse_impossible", "spawn_error"]

SpawnFailure: TypeAlias = Literal[
    "command_not_found", "not_executable", "folder_missing", "interpreter_missing", "failed"
]


class SpawnError(Exception):
    """A command could not be started. The message names the cause, the hint what to do next."""

    def __init__(self, kind: SpawnFailure, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.kind: SpawnFailure = kind
        self.message = message
        self.hint = hint


def refuse_impossible(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise `SpawnError` for a command that no system call accepts."""
    if not command or not command[0]:
        raise SpawnError("failed", "The command is empty.", "Name a program to start.")
    if any("\0" in word for word in (*command, *env, *env.values())):
        raise SpawnError(
            "failed", "The command or its environment has a null character.", "Remove the null character."
        )
    for name in env:
        if not name or "=" in name:
            raise SpawnError(
                "failed", f"{name!r} cannot be the name of an environment variable.", "Choose another name."
            )


def spawn_error(
    stage: str, number: int, command: Sequence[str], cwd: Path | None, path: str | None
) -> SpawnError:
    """What the supervisor's `failed STAGE ERRNO` means. `path` is where the command was looked for."""
    program = command[0]
    cause = os.strerror(number)
    if stage == "folder":
        return SpawnError(
            "folder_missing" if number in (errno.ENOENT, errno.ENOTDIR) else "failed",
            f"The folder {str(cwd)!r} to start {program!r} in cannot be used: {cause}.",
            "Create it, or choose another.",
        )
    if stage == "command" and number in (errno.ENOENT, errno.ENOTDIR):
        found = _found(program, cwd, path)
        if found is not None:
            return SpawnError(
                "interpreter_missing",
                f"{found!r} was found, but the interpreter that its first line names was not.",
                "Install that interpreter, or correct the first line.",
            )
        if "/" in program:
            return SpawnError(
                "command_not_found",
                f"There is no program {program!r}.",
                "Correct the path, or install what is missing.",
            )
        return SpawnError(
            "command_not_found",
            f"The command {program!r} was not found on the PATH.",
            "Install it, or give the whole path.",
        )
    if stage == "command" and number == errno.EACCES:
        return SpawnError(
            "not_executable",
            f"{program!r} may not be executed.",
            "Make the file executable, or name another.",
        )
    return SpawnError(
        "failed", f"{program!r} could not be started: {cause}.", "Check the command and its environment."
    )


def _found(program: str, cwd: Path | None, path: str | None) -> str | None:
    if "/" not in program:
        return shutil.which(program, path=path)
    file = (cwd or Path()) / program
    return str(file) if file.exists() else None
