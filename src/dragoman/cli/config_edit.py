"""`dragoman config edit`: the user's file in the user's editor, and a check of it afterwards.

The editor works on the file itself, so a mistake is never lost work: the file stays as it was saved, the mistakes are
listed with their lines, and the user may edit again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from dragoman.cli.asking import agreed, can_ask
from dragoman.cli.errors import DONE, WRONG_USAGE, CommandError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import ConfigError, load, user_config_file

__all__ = ["edit", "editor_command"]

_VARIABLES = ("VISUAL", "EDITOR")
# What a system has when its user has chosen none; the first that is there.
_USUAL = ("sensible-editor", "nano", "vim", "vi")


def edit(context: CommandContext) -> int:
    file = (context.config_file or user_config_file()).absolute()
    command = editor_command()
    before = _bytes(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{file.parent} cannot be made: {error.strerror}.") from error
    while True:
        _run(command, file)
        after = _bytes(file)
        if after == before:
            say(
                f"{file} is unchanged." if after is not None else f"Nothing was written: {file} is not there."
            )
        if after is None:
            return DONE
        try:
            load(file, context.known_agents)
        except ConfigError as error:
            say(context.redaction.redacted(str(error)), sys.stderr)
            say(f"{file} is saved as you left it. No command can use it until this is corrected.", sys.stderr)
            if can_ask() and agreed("Edit it again?", enter_agrees=True):
                continue
            return WRONG_USAGE
        if after != before:
            say(f"{file} is saved, and has no mistakes.")
        return DONE


def editor_command(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The user's editor: `$VISUAL`, `$EDITOR`, or one that is installed. `CommandError` if there is none."""
    for variable in _VARIABLES:
        if chosen := environ.get(variable, "").strip():
            try:
                return tuple(shlex.split(chosen))
            except ValueError as error:
                raise CommandError(f"${variable} cannot be read as a command: {error}.") from error
    for name in _USUAL:
        if shutil.which(name):
            return (name,)
    raise CommandError("There is no editor. Set EDITOR to the command of yours.")


def _run(command: tuple[str, ...], file: Path) -> None:
    try:
        # The user's own choice.
        status = subprocess.run([*command, str(file)], check=False).returncode  # noqa: S603
    except OSError as error:
        raise CommandError(
            f"The editor {command[0]} cannot be started: {error.strerror}. Set EDITOR to the command of yours."
        ) from error
    if status:
        raise CommandError(f"The editor {command[0]} ended with status {status}. The file was not checked.")


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
