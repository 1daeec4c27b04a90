"""A prompt in the user's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["CannotEdit", "edited"]

# The suffix tells an editor how to highlight it.
_FILE_NAME = "prompt.md"
# As for a prompt on standard input: what is longer is a mistake.
_LONGEST = 4 * 1024 * 1024
_USUAL = ("editor", "nano", "vi")


class CannotEdit(Exception):
    """The editor did not change the prompt: a sentence that says why, and what to do."""


def edited(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """What the user makes of a text in their editor. Raises `CannotEdit`. Waits until the editor ends."""
    command = _command(environment)
    # A folder that only the user can read.
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        file = Path(folder) / _FILE_NAME
        file.write_text(f"{text}\n" if text else "", "utf-8", errors="replace")
        try:
            # The command is the user's own.
            status = subprocess.run([*command, str(file)], check=False).returncode  # noqa: S603
        except OSError as error:
            raise CannotEdit(f"{command[0]} cannot be started: {error.strerror}. Set $EDITOR.") from error
        if status != 0:
            raise CannotEdit(f"{command[0]} ended with exit status {status}. The prompt is as it was.")
        return _read(file)


def _command(environment: Mapping[str, str]) -> list[str]:
    for command in _commands(environment):
        return command
    raise CannotEdit("There is no editor. Set $EDITOR to one.")


def _commands(environment: Mapping[str, str]) -> Iterator[list[str]]:
    for variable in ("VISUAL", "EDITOR"):
        try:
            if command := shlex.split(environment.get(variable, "")):
                yield command
        except ValueError as error:
            raise CannotEdit(f"${variable} is no command: {error}.") from error
    yield from ([name] for name in _USUAL if shutil.which(name))


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LONGEST + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotEdit(f"The editor's text cannot be read: {error}. The prompt is as it was.") from error
    if len(data) > _LONGEST:
        raise CannotEdit(
            f"The text is longer than {_LONGEST:,} bytes. Put it into a file, and name the file."
        )
    # Editors end the last line; the prompt does not.
    return text.removesuffix("\n").removesuffix("\r")
