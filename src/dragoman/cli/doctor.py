"""`dragoman doctor`: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import asyncio
import platform
import re
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module, metadata
from pathlib import Path

from dragoman import __version__
from dragoman.cli.errors import DONE, FAILED
from dragoman.cli.finding import Finding
from dragoman.cli.layout import say, width_of
from dragoman.cli.run import CommandContext
from dragoman.cli.steps import StepProgress
from dragoman.config import (
    AcpModel,
    Config,
    ConfigError,
    ModelConfig,
    key_problems,
    resolved,
    user_config_file,
)
from dragoman.interruptible import run_interruptible
from dragoman.lm import CancellationSource, GuardedModel, LanguageModelError, Request, Response, user
from dragoman.logs import one_line
from dragoman.models import ModelNotUsable, build, build_unguarded, cautions_of, find
from dragoman.store import AgentStore, Database, StoreError

__all__ = ["Finding", "run"]

OLDEST_PYTHON = (3, 11)
_DISTRIBUTION = re.compile(r"[A-Za-z0-9_.-]+")
# In the marker of what only developers need.
_OPTIONAL = "extra =="
_PLATFORMS = {"linux": "Linux", "darwin": "macOS"}

_PROMPT = "Say hello in one short sentence."
# Agents take half a minute to start for the first time; one that has said nothing by then is not going to.
_ANSWER_SECONDS = 120.0
_ANSWER_SHOWN = 60


def run(arguments: Namespace, context: CommandContext) -> int:
    status = DONE

    def report(finding: Finding) -> None:
        nonlocal status
        print(finding.laid_out(width_of(sys.stdout)), flush=True)
        if finding.level == "fail":
            status = FAILED

    _look(arguments.model, context, report)
    return status


def _look(model: str | None, context: CommandContext, report: Callable[[Finding], None]) -> None:
    report(Finding("ok", f"Dragoman {__version__}"))
    report(python(sys.version_info[:3]))
    report(system(sys.platform))
    for finding in _dependencies():
        report(finding)
    report(_state(context.state_dir))
    try:
        config = context.config()
    except ConfigError as error:
        report(Finding("fail", "the configuration cannot be used", str(error)))
        return
    for finding in _configuration(config):
        report(finding)
    if model is not None:
        config = context.agreed(config, model)
        # Before the others: a name that does not exist is a mistake in the command line.
        find(config, model)
    for model_id in config.models:
        if model in (None, model_id):
            report(_model(config, model_id))
    for model_id, untrusted in config.untrusted.items():
        report(_untrusted(model_id, untrusted))
    if model is not None:
        _start(config, model, context.state_dir, report)


def python(version: tuple[int, ...]) -> Finding:
    found = f"Python {'.'.join(map(str, version))} ({sys.executable})"
    if version >= OLDEST_PYTHON:
        return Finding("ok", found)
    return Finding("fail", found, f"Install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer.")


def system(name: str) -> Finding:
    if name in _PLATFORMS:
        return Finding("ok", f"{_PLATFORMS[name]} ({platform.machine()})")
    if name in {"win32", "cygwin"}:
        return Finding("fail", "Windows", "Install WSL (wsl --install) and run Dragoman in it.")
    return Finding("warn", f"the platform {name} is not tested", "Linux and macOS are.")


def _dependencies() -> Iterator[Finding]:
    try:
        requirements = metadata.requires("dragoman") or []
    except metadata.PackageNotFoundError:
        step = "Install it (pip install .), so that what it needs is installed too."
        yield Finding("warn", "Dragoman runs from its source and is not installed", step)
        return
    # Looks through everything that is installed: once for all.
    distributions = metadata.packages_distributions()
    for requirement in requirements:
        if _OPTIONAL not in requirement and (name := _DISTRIBUTION.match(requirement)):
            yield _dependency(name[0], distributions)


def _dependency(name: str, distributions: Mapping[str, list[str]]) -> Finding:
    try:
        for module in _modules(name, distributions):
            import_module(module)
        return Finding("ok", f"{name} {metadata.version(name)}")
    except Exception as error:
        # A library that is there may still fail in any way when it is loaded.
        step = "Install Dragoman again: pip install --force-reinstall dragoman"
        return Finding("fail", f"{name} cannot be loaded: {type(error).__name__}: {error}", step)


def _modules(name: str, distributions: Mapping[str, list[str]]) -> list[str]:
    """The modules of a distribution, whose names may differ from its own."""
    found = [module for module, names in distributions.items() if name in names]
    return [module for module in found if module.isidentifier() and not module.startswith("_")] or [name]


def _state(folder: Path) -> Finding:
    try:
        with Database.open(folder) as database, database.writing():
            # Nothing to write: that one can begin is what there is to know.
            return Finding("ok", f"state in {database.path}")
    except StoreError as error:
        return Finding("fail", f"{error.path}: {error.problem}", error.hint)


def _configuration(config: Config) -> Iterator[Finding]:
    yield _own_file(config)
    if config.found is not None:
        state = (
            "trusted" if config.found.is_trusted else "not trusted" if config.untrusted else "adds no models"
        )
        yield Finding("ok", f"configuration of this folder in {config.found.source.path} ({state})")


def _own_file(config: Config) -> Finding:
    if config.source.path is None:
        steps = (
            "For an agent that is known: dragoman agents",
            f"For any other, or an endpoint: write {user_config_file()}",
        )
        return Finding("ok", "no configuration file: everything as it comes", "\n".join(steps))
    if problems := key_problems(config):
        return Finding("warn", f"configuration in {config.source.path}", "\n".join(map(str, problems)))
    return Finding("ok", f"configuration in {config.source.path}")


def _model(config: Config, model_id: str) -> Finding:
    """Check a model's settings without starting it."""
    configured = config.models[model_id]
    what = f"model {model_id} (kind {configured.__struct_config__.tag})"
    steps: list[str] = []
    try:
        ready = resolved(config, model_id)
        if isinstance(ready, AcpModel) and ready.command and shutil.which(ready.command[0]) is None:
            steps.append(f"The command {ready.command[0]} is not found. Install it, or give its full path.")
        steps += cautions_of(config, model_id)
        info = build_unguarded(config, model_id).info
        what += f": {info.name}"
    except ConfigError as error:
        steps.append(str(error))
    except ModelNotUsable as error:
        steps.append(error.sentence)
    return Finding("warn" if steps else "ok", what, "\n".join(steps))


def _untrusted(model_id: str, model: ModelConfig) -> Finding:
    """The finding for an untrusted model. Nothing of it is read, looked for or started."""
    what = f"model {model_id} (kind {model.__struct_config__.tag})"
    return Finding(
        "warn", what, "It is not trusted. To look at what it starts and to trust it: dragoman trust"
    )


def _start(config: Config, model_id: str, state_dir: Path, report: Callable[[Finding], None]) -> None:
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
            # The unusable store has been reported.
            memory = None
        steps = stack.enter_context(StepProgress())
        experience = Observations(memory)
        run_interruptible(lambda: examine(settings, experience, report, steps.step))


def _answer(config: Config, model_id: str) -> Finding:
    started = time.monotonic()
    try:
        built = build(config, model_id)
        with StepProgress() as steps:
            steps.step(f"asking {model_id}")
            text = run_interruptible(lambda: _ask(built))
    except TimeoutError:
        step = "Look at its log with --log-level debug."
        return Finding("fail", f"{model_id} has not answered in {_ANSWER_SECONDS:g} seconds", step)
    except LanguageModelError as error:
        return _silent(model_id, error)
    shown = text if len(text) <= _ANSWER_SHOWN else text[:_ANSWER_SHOWN] + "…"
    return Finding("ok", f"{model_id} answered in {time.monotonic() - started:.1f} s: {shown}")


def _silent(model_id: str, error: LanguageModelError) -> Finding:
    return Finding("fail", f"{model_id} does not answer: {error.message}", error.hint or "")


async def _ask(model: GuardedModel) -> str:
    response = Response()
    source = CancellationSource()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await model.respond(Request((user(_PROMPT),)), response, source.token)
    finally:
        source.cancel()
        await model.close()
    return response.text.strip()
