"""Exit codes and errors of commands."""

from __future__ import annotations

import sys

__all__ = ["DONE", "FAILED", "INTERRUPTED", "WRONG_USAGE", "CommandError", "UsageError", "complain"]

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


class CommandError(Exception):
    """A command failed. The text says why and what to do, and is all that the user sees."""

    exit_code = FAILED


class UsageError(CommandError):
    """The command line is wrong."""

    exit_code = WRONG_USAGE


def complain(text: str) -> None:
    """Print an error to standard error."""
    from dragoman.cli.layout import say  # noqa: PLC0415 - an interrupt meanwhile has to be caught

    say(f"dragoman: {text}", sys.stderr)
