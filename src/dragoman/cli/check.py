"""`dragoman check`: checks a model against the stream rules, and an endpoint against those for its events too."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace

from dragoman.checker.check import CheckReport, check, render
from dragoman.checker.probes import Probe, all_probes
from dragoman.cli.errors import DONE, FAILED, UsageError
from dragoman.cli.run import CommandContext
from dragoman.interruptible import run_interruptible
from dragoman.lm import Capabilities, Closing, LanguageModel, ModelInfo
from dragoman.models import build_unguarded, log_cautions

__all__ = ["run"]


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    is_address = arguments.target.startswith(("http://", "https://"))
    if not is_address:
        config = context.agreed(config, arguments.target)

    async def work() -> tuple[CheckReport, ...]:
        # Without the guard, which would correct what is to be checked.
        model = await _endpoint(arguments) if is_address else build_unguarded(config, arguments.target)
        if not is_address:
            log_cautions(config, arguments.target)
        try:
            return await _checked(model)
        finally:
            if isinstance(model, Closing):
                await model.close()

    reports = run_interruptible(work)
    print("\n\n".join(map(render, reports)))
    return DONE if all(report.passed for report in reports) else FAILED


async def _checked(model: LanguageModel) -> tuple[CheckReport, ...]:
    """Check the model's parts; of an endpoint also its events, which our client partly corrects."""
    from dragoman.backends.responses.model import EndpointModel  # noqa: PLC0415
    from dragoman.checker.event_check import check_events, event_probes  # noqa: PLC0415 - takes a while

    endpoint = model if isinstance(model, EndpointModel) else None
    progress = _Progress(len(all_probes(model.info)) + len(event_probes(endpoint) if endpoint else ()))
    try:
        reports = [await check(model, on_probe=progress.begin)]
        # Not for an endpoint that has not answered before.
        if endpoint is not None and reports[0].inconclusive is None:
            reports.append(await check_events(endpoint, on_probe=progress.begin))
        return tuple(reports)
    finally:
        progress.end()


async def _endpoint(arguments: Namespace) -> LanguageModel:
    """The model at an address, as a configured one would be."""
    from dragoman.backends.responses.model import EndpointModel  # noqa: PLC0415 - only endpoints need it
    from dragoman.backends.responses.settings import EndpointSettings  # noqa: PLC0415

    variable: str | None = arguments.key_variable
    if variable is not None and variable not in os.environ:
        raise UsageError(f"the environment variable {variable} is not set.")
    key = os.environ[variable] if variable is not None else None
    place = f"the environment variable {variable}" if variable is not None else None

    def made(name: str) -> EndpointModel:
        info = ModelInfo(name, name, name, "1", 1_000_000, 64_000, Capabilities(image_input=True))
        return EndpointModel(info, EndpointSettings(name, name, arguments.target, name, key, key_place=place))

    if arguments.model is not None:
        return made(arguments.model)
    asking = made("")
    try:
        listed = await asking.models()
    finally:
        await asking.close()
    if not listed:
        raise UsageError(f"{arguments.target} lists no models: name one with --model.")
    return made(listed[0].id)


class _Progress:
    """Shows the running probe on standard error: an agent may take long over each."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun = 0
        # One line that changes on a terminal; nothing where standard error goes to a file.
        self._is_shown = sys.stderr.isatty()

    def begin(self, probe: Probe) -> None:
        self._begun += 1
        if self._is_shown:
            # Not wider than the screen: a line that has been broken cannot be taken back whole.
            line = f"{self._begun}/{self._count} {probe.name}"[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
