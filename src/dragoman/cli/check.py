"""`dragoman check`: holds a model against the stream rules."""

from __future__ import annotations

from argparse import Namespace

from dragoman.cli.errors import DONE, FAILED
from dragoman.cli.run import Surroundings
from dragoman.interruptible import run_interruptible
from dragoman.lm import Closing
from dragoman.lm.check import Report, check, render
from dragoman.models import build_unguarded

__all__ = ["run"]


def run(arguments: Namespace, surroundings: Surroundings) -> int:
    # Without the guard: it would mend what is to be seen.
    model = build_unguarded(surroundings.config(), arguments.target)

    async def work() -> Report:
        try:
            return await check(model)
        finally:
            if isinstance(model, Closing):
                await model.close()

    report = run_interruptible(work)
    print(render(report))
    return DONE if report.passed else FAILED
