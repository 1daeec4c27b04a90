"""One target under a fuzzer that watches the coverage: `python -m fuzz.guided TARGET [what libFuzzer takes]`.

It runs until it has found something or its time is over, and ends the process either way.
"""

from __future__ import annotations

import importlib
import logging
import sys
from contextlib import ExitStack


def main(name: str, *arguments: str) -> None:
    # It comes from its own folder, outside the environment, and only for this.
    atheris = importlib.import_module("atheris")
    logging.disable()
    with ExitStack() as stack:
        with atheris.instrument_imports(include=["dragoman"]):
            targets = importlib.import_module("fuzz.targets")
            # Some of what a server needs is only imported when it starts.
            check = stack.enter_context(targets.TARGETS[name]())
        atheris.Setup([sys.argv[0], *arguments], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
