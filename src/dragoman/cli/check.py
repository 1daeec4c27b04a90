"""`dragoman check`: holds a model against the stream rules."""

from __future__ import annotations

import sys
from argparse import Namespace

from dragoman.cli.errors import DONE, FAILED
from dragoman.cli.run import Surroundings, announce
from dragoman.interruptible import run_interruptible
from dragoman.lm import Closing
from dragoman.lm.check import Report, check, render
from dragoman.lm.probes import Probe, all_probes
from dragoman.models import build_unguarded

__all__ = ["run"]


def run(arguments: Namespace, surroundings: Surroundings) -> int:
    config = surroundings.config()
    # Without the guard: it would mend what is to be seen.
    model = build_unguarded(config, arguments.target)
    announce(config, arguments.target)
    progress = _Progress(len(all_probes(model.info)))

    async def work() -> Report:
        try:
            return await check(model, on_probe=progress.begin)
        finally:
            progress.end()
            if isinstance(model, Closing):
                await model.close()

    report = run_interruptible(work)
    print(render(report))
    return DONE if report.passed else FAILED


class _Progress:
    """Which probe is being put, on standard error: an agent may take its time over each."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun = 0
        # One line that changes where somebody watches; nothing where the errors are collected.
        self._is_shown = sys.stderr.isatty()

    def begin(self, probe: Probe) -> None:
        self._begun += 1
        if self._is_shown:
            print(f"\r\x1b[K{self._begun}/{self._count} {probe.name}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
