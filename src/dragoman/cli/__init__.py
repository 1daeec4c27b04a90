"""The command line.

`entry` is the program. Whatever happens, a user sees sentences and an exit status: 0 done, 1 failed, 2 wrong usage or
configuration, 130 interrupted. Nothing heavy is imported before the line has been understood.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

from dragoman.cli.errors import DONE, FAILED, INTERRUPTED, UsageError
from dragoman.cli.parser import SHORT_HELP, parse

__all__ = ["entry", "main"]


def entry() -> None:
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that cannot show a character shows another, rather than nothing at all.
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Runs a command line to its exit status."""
    try:
        status = _main(argv)
        _flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough of it.
        _discard_output()
        return FAILED
    return status


def _main(argv: Sequence[str]) -> int:
    try:
        command, arguments = parse(argv)
    except UsageError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit:
        # argparse has printed a help text or the version.
        return DONE
    if command is None:
        print(SHORT_HELP, end="")
        return DONE
    status: int = import_module("dragoman.cli.run").run(command, arguments)
    return status


def _flush() -> None:
    # None when the program was started with its output closed.
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_output() -> None:
    """What is still in the buffer goes nowhere, or Python would complain about it when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
