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

from dragoman.cli.errors import DONE, FAILED, INTERRUPTED, UsageError, complain

__all__ = ["entry", "main"]


def entry() -> None:
    status = main(sys.argv[1:])
    import signal  # noqa: PLC0415 - takes longer to load than all that is above

    # All output is written. An interrupt from here on ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)


def main(argv: Sequence[str]) -> int:
    """Runs a command line to its exit status."""
    try:
        _open_closed()
        if isinstance(sys.stdout, TextIOWrapper):
            # A terminal that cannot show a character shows another, rather than nothing at all.
            sys.stdout.reconfigure(errors="replace")
        status = _main(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # Of standard output: `run` reports every other error.
        return _unwritten(error)
    return status


def _main(argv: Sequence[str]) -> int:
    from dragoman.cli.parser import parse, short_help  # noqa: PLC0415 - an interrupt meanwhile is caught here

    try:
        command, arguments = parse(argv)
    except UsageError as error:
        complain(str(error))
        return error.exit_code
    except SystemExit:
        # argparse has printed a help text or the version.
        return DONE
    if command is None:
        print(short_help(), end="")
        return DONE
    status: int = import_module("dragoman.cli.run").run(command, arguments)
    return status


def _open_closed() -> None:
    """Open the standard streams that our parent has closed, so that no later file takes their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - it stays open


def _unwritten(error: OSError) -> int:
    from dragoman.output import discard_output, unwritable  # noqa: PLC0415 - hardly ever

    discard_output()
    if (problem := unwritable(error)) is not None:
        complain(problem)
    return FAILED
