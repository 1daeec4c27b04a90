"""`dragoman doctor`: what works, what does not, and what to do next.

The models come first: whether they can be used is what a user wants to know. Then what is wrong with the installation and
the configuration; versions and paths last. The last line is one next step.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from dragoman.cli.errors import DONE, FAILED
from dragoman.cli.finding import Finding
from dragoman.cli.fleet_doctor import fleet_findings
from dragoman.cli.installation import libraries, python, state, system, versions
from dragoman.cli.layout import say, width_of
from dragoman.cli.model_status import BUILT_IN, ModelStatus, model_status, model_statuses
from dragoman.cli.run import CommandContext
from dragoman.cli.steps import StepProgress
from dragoman.cli.trial import try_model
from dragoman.config import Config, ConfigError, key_problems
from dragoman.interruptible import run_interruptible
from dragoman.lm import LanguageModelError, Response
from dragoman.logs import one_line
from dragoman.models import build_unguarded, find
from dragoman.store import AgentStore, Database, StoreError

__all__ = ["run"]

_ANSWER_SHOWN = 60


class _Report:
    """Prints findings, and remembers what follows from them."""

    def __init__(self) -> None:
        self.status = DONE
        self._steps: dict[str, str] = {}

    def __call__(self, finding: Finding) -> None:
        print(finding.laid_out(width_of(sys.stdout)), flush=True)
        if finding.level == "fail":
            self.status = FAILED
        if finding.level != "ok" and finding.next_step:
            step = finding.next_step.splitlines()[0]
            # A warning's step may be about one of many things: it says which.
            self._steps.setdefault(
                finding.level, step if finding.level == "fail" else f"{step} ({finding.what})"
            )

    def next_step(self, otherwise: str) -> str:
        """The first step about something that failed, else about a warning."""
        return self._steps.get("fail") or self._steps.get("warn") or otherwise


def run(arguments: Namespace, context: CommandContext) -> int:
    report = _Report()
    model: str | None = arguments.model
    try:
        config = context.config()
    except ConfigError as error:
        report(Finding("fail", "the configuration cannot be used", str(error)))
        _report_installation(context.state_dir, report, is_verbose=arguments.verbose)
        _say_next("Correct the file: dragoman config edit")
        return report.status
    if model is None:
        for each in model_statuses(config):
            report(_of_model(each))
    else:
        config = context.agreed(config, model)
        # Before anything is reported: a name that does not exist is a mistake in the command line.
        find(config, model)
        report(_of_model(model_status(config, model)))
        _start(config, model, context.state_dir, report)
    for finding in _configuration(config):
        report(finding)
    _report_installation(context.state_dir, report, is_verbose=arguments.verbose)
    _say_next(report.next_step(_when_all_is_right(config, model)))
    return report.status


def _say_next(step: str) -> None:
    say(f"\nNext: {one_line(step)}")


def _when_all_is_right(config: Config, model: str | None) -> str:
    if model is not None:
        return f"dragoman chat {model}"
    has_own = any(each.origin != BUILT_IN for each in model_statuses(config))
    return (
        f"dragoman chat {config.default_model}" if has_own else "dragoman init, to choose an agent and try it"
    )


def _report_installation(state_dir: Path, report: _Report, *, is_verbose: bool) -> None:
    """Report what is wrong, and where the state is. `-v`: every version, too."""
    found = [python(sys.version_info[:3]), system(sys.platform), *libraries()]
    for finding in found if is_verbose else (each for each in found if each.level != "ok"):
        report(finding)
    report(state(state_dir))
    report(versions())


def _configuration(config: Config) -> Iterator[Finding]:
    yield _own_file(config)
    if config.found is not None:
        state_ = (
            "trusted" if config.found.is_trusted else "not trusted" if config.untrusted else "adds no models"
        )
        yield Finding("ok", f"configuration of this folder in {config.found.source.path} ({state_})")
    yield from _declared_tools(config)
    yield from fleet_findings(config.fleet)


def _declared_tools(config: Config) -> Iterator[Finding]:
    """A warning about `declarations`, from which users expect tools."""
    if config.tools.declarations:
        where = config.at(("tools", "declarations"))
        yield Finding(
            "warn",
            f"{where}: `declarations` makes no tool usable",
            "It only describes tools. No command of Dragoman has an implementation for them, so no model is offered them."
            " Remove it, unless a program that embeds Dragoman registers them.",
        )


def _own_file(config: Config) -> Finding:
    if config.source.path is None:
        return Finding("ok", "no configuration file; using defaults")
    if problems := key_problems(config):
        return Finding("warn", f"configuration in {config.source.path}", "\n".join(map(str, problems)))
    return Finding("ok", f"configuration in {config.source.path}")


def _of_model(status: ModelStatus) -> Finding:
    named = status.id if status.name == status.id else f"{status.id} ({status.name})"
    is_right = status.is_usable and not status.steps
    return Finding("ok" if is_right else "warn", f"{named}: {status.state}", "\n".join(status.steps))


def _start(config: Config, model_id: str, state_dir: Path, report: _Report) -> None:
    try:
        model = build_unguarded(config, model_id)
    except LanguageModelError as error:
        report(_silent(model_id, error))
        return
    from dragoman.backends.agent.model import AgentModel  # noqa: PLC0415 - only agents need it

    if not isinstance(model, AgentModel):
        report(_answer(config, model_id))
        return
    from dragoman.backends.agent.profile.observations import Observations  # noqa: PLC0415 - as above
    from dragoman.cli.agent_probe.examine import NOTICE, examine  # noqa: PLC0415

    settings = model.settings
    say(NOTICE.format(name=one_line(settings.name)), sys.stderr)
    with ExitStack() as stack:
        try:
            memory = AgentStore(stack.enter_context(Database.open(state_dir)))
        except StoreError:
            # It is reported below.
            memory = None
        steps = stack.enter_context(StepProgress())
        experience = Observations(memory)
        run_interruptible(lambda: examine(settings, experience, report, steps.step))


def _answer(config: Config, model_id: str) -> Finding:
    begun, response = time.monotonic(), Response()
    try:
        with StepProgress() as steps:
            steps.step(f"asking {model_id}")
            try_model(config, model_id, response)
    except LanguageModelError as error:
        return _silent(model_id, error)
    text = response.text.strip()
    shown = text if len(text) <= _ANSWER_SHOWN else text[:_ANSWER_SHOWN] + "…"
    return Finding("ok", f"{model_id} answered in {time.monotonic() - begun:.1f} s: {shown}")


def _silent(model_id: str, error: LanguageModelError) -> Finding:
    return Finding("fail", f"{model_id} does not answer: {error.message}", error.hint or "")
