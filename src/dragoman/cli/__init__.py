"""The command line.

`entry` is the program. Whatever happens, a user sees sentences and an exit status: 0 done, 1 failed, 2 wrong usage or
configuration, 130 interrupted. Nothing heavy is imported before the line has been understood, and next to nothing
before an interrupt is caught: Ctrl-C may come while Python is still loading us.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

from dragoman.cli.errors import DONE, FAILED, INTERRUPTED, UsageError

__all__ = ["entry", "main"]


def entry() -> None:
    status = main(sys.argv[1:])
    import signal  # noqa: PLC0415 - takes longer to load than all that is above

    # All is done and said: whoever is impatient now only ends what is ending, without a traceback from its middle.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)


def main(argv: Sequence[str]) -> int:
    """Runs a command line to its exit status."""
    try:
        if isinstance(sys.stdout, TextIOWrapper):
            # A terminal that cannot show a character shows another, rather than nothing at all.
            sys.stdout.reconfigure(errors="replace")
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
    from dragoman.cli.parser import parse, short_help  # noqa: PLC0415 - an interrupt meanwhile is caught here

    try:
        command, arguments = parse(argv)
    except UsageError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit:
        # argparse has printed a help text or the version.
        return DONE
    if command is None:
        print(short_help(), end="")
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
