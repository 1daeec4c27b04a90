"""How a command ends when it does not end well."""

from __future__ import annotations

import sys

__all__ = ["DONE", "FAILED", "INTERRUPTED", "WRONG_USAGE", "CommandError", "UsageError", "complain"]

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


class CommandError(Exception):
    """It did not work. The text says why and what to do, and is all that the user sees."""

    exit_code = FAILED


class UsageError(CommandError):
    """It was not asked for in a way that could work."""

    exit_code = WRONG_USAGE


def complain(text: str) -> None:
    """Say what did not work, and leave it to the caller to go on."""
    from dragoman.cli.layout import say  # noqa: PLC0415 - an interrupt meanwhile has to be caught

    say(f"dragoman: {text}", sys.stderr)
