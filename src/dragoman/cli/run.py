"""Runs a command inside everything it needs: logs, the configuration, and a handler for its exceptions."""

from __future__ import annotations

import errno
import logging
import os
import select
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias, cast

from dragoman.cli.asking import agreed, can_ask
from dragoman.cli.command import CliCommand
from dragoman.cli.errors import FAILED, WRONG_USAGE, CommandError, UsageError, complain
from dragoman.cli.known_agents import KnownAgents
from dragoman.cli.layout import say
from dragoman.config import (
    Config,
    ConfigError,
    FleetConfig,
    TrustedFiles,
    config_file,
    effects,
    found_file,
    ignored,
    layered,
    load,
    named_file,
    quoted,
    secrets,
    state_folder,
    trusted,
)
from dragoman.config.folders import STATE_VARIABLE
from dragoman.lm import LanguageModelError
from dragoman.logs import Redaction, logging_to, one_line
from dragoman.models import ModelNotUsable, find

__all__ = ["CommandContext", "run"]

_log = logging.getLogger(__name__)

# The disk is full, whatever was being written.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The values of the global options, and what follows from them."""

    # The file that `--config` names.
    option: Path | None
    state_dir: Path
    redaction: Redaction

    @property
    def config_file(self) -> Path | None:
        """The user's configuration file: the one that they have named, or their own. None if there is none."""
        return config_file(self.option)

    @property
    def named_file(self) -> Path | None:
        """The file that `--config` or the environment names; then no other one is read."""
        return named_file(self.option)

    @property
    def found_file(self) -> Path | None:
        """The second layer: a file in the current folder that the user has not named."""
        return found_file(self.option)

    @property
    def known_agents(self) -> Collection[str]:
        """The ids of agents that are known beyond the catalogue that came with us."""
        return KnownAgents(self.state_dir).ids

    def config(self) -> Config:
        """The configuration as it is now. Says on standard error which keys of a found file are ignored."""
        agents = self.known_agents
        config = load(self.config_file, agents)
        if (file := self.found_file) is not None:
            config = self._layered(config, load(file, agents, only_found=True))
        return self._ready(config)

    def _layered(self, own: Config, found: Config) -> Config:
        if (line := ignored(own, found)) is not None:
            say(line, sys.stderr)
        config = layered(own, found)
        is_trusted = config.found is not None and config.found in TrustedFiles(self.state_dir)
        return trusted(config) if is_trusted else config

    def _ready(self, config: Config) -> Config:
        """Add the commands of installed agents, and redact the configuration's secrets in the logs from here on."""
        self.redaction.add(secrets(config))
        return KnownAgents(self.state_dir).applied(config)

    def agreed(self, config: Config, model: str) -> Config:
        """Ask the user to trust the found file, if it defines this model. Without their yes, `CommandError`."""
        if model not in config.untrusted:
            return config
        if not can_ask():
            # Says why it cannot be used, and what to do.
            find(config, model)
        if (answer := self._ask_for_trust(config)) is None:
            raise UsageError(
                "Nothing was started. To trust the file later: dragoman trust. To use another file: --config FILE."
            )
        return answer

    def fleet(self) -> FleetConfig | None:
        """The fleet that this machine is a node of, if it is one and its configuration can be read."""
        try:
            fleet = self.config().fleet
        except ConfigError:
            # What is stored here can be read without it.
            return None
        return fleet if fleet.urls else None

    def offered(self, config: Config) -> Config:
        """The configuration for a command that offers all models: those of the found file only with the user's yes."""
        if not config.untrusted:
            return config
        answer = self._ask_for_trust(config) if can_ask() else None
        if answer is None and config.found is not None:
            models = ", ".join(map(quoted, config.untrusted))
            say(
                f"{one_line(str(config.found.source.path))}: not offered: {models}. The file came with this folder and "
                "is not trusted. To look at what it starts and to trust it: dragoman trust",
                sys.stderr,
            )
        return answer or config

    def _ask_for_trust(self, config: Config) -> Config | None:
        """The configuration with the found file trusted; None if the answer was no."""
        found = config.found
        if found is None:
            return config
        for line in effects(found).values():
            say(self.redaction.redacted(line), sys.stderr)
        if not agreed(f"{found.source.path} came with this folder. Do you trust it with this?"):
            return None
        try:
            TrustedFiles(self.state_dir).add(found)
        except OSError as error:
            _log.warning("you will be asked again: %s cannot be written: %s", error.filename, error.strerror)
        return self._ready(trusted(config))


_Run: TypeAlias = Callable[[Namespace, CommandContext], int]


def run(command: CliCommand, arguments: Namespace) -> int:
    log_file: Path | None = arguments.log_file
    with ExitStack() as stack:
        try:
            redaction = stack.enter_context(logging_to(log_file, arguments.log_level))
        except OSError as error:
            return _report(f"the log file {log_file} cannot be written: {error.strerror}.", WRONG_USAGE)
        try:
            _record(arguments.record, redaction, stack)
        except OSError as error:
            return _report(
                f"the recording {arguments.record} cannot be written: {error.strerror}.", WRONG_USAGE
            )
        state_dir = state_folder(arguments.state_dir)
        if arguments.state_dir is not None:
            stack.enter_context(_exported(state_dir))
        context = CommandContext(arguments.config, state_dir, redaction)
        try:
            chosen = cast("_Run", import_module(command.module).run)
            return chosen(arguments, context)
        except CommandError as error:
            return _report(str(error), error.exit_code)
        except ConfigError as error:
            # Each of its lines begins with a file and a line already.
            say(redaction.redacted(str(error)), sys.stderr)
            return WRONG_USAGE
        except ModelNotUsable as error:
            return _report(error.sentence, WRONG_USAGE)
        except LanguageModelError as error:
            return _report(error.sentence, FAILED)
        except OSError as error:
            if _is_of_output(error):
                raise
            if error.errno in _NO_ROOM:
                what = error.filename or "something"
                return _report(f"{what} could not be written: {error.strerror}. Make room for it.", FAILED)
            if _is_folder_gone():
                return _report("the folder you are in is no longer there. Go to another one.", FAILED)
            return _report_unexpected(error, log_file)
        except Exception as error:
            return _report_unexpected(error, log_file)


def _record(file: Path | None, redaction: Redaction, stack: ExitStack) -> None:
    if file is not None:
        from dragoman.traces.recording import recording_to  # noqa: PLC0415 - for those who record

        stack.enter_context(recording_to(file, redaction))


def _is_of_output(error: OSError) -> bool:
    """Whether standard output is what could not be written, as far as we can see: Python does not say."""
    if isinstance(error, BrokenPipeError):
        polled = select.poll()
        # Without asking for anything: that the other end is gone is always reported.
        polled.register(sys.stdout, 0)
        return bool(polled.poll(0))
    try:
        # What could not be written is still there, and cannot be written now.
        sys.stdout.flush()
    except OSError:
        return True
    return False


@contextmanager
def _exported(state_dir: Path) -> Iterator[None]:
    """Pass the state folder to every Dragoman that is started from here: the demo agent stores its sessions there."""
    before = os.environ.get(STATE_VARIABLE)
    os.environ[STATE_VARIABLE] = str(state_dir)
    try:
        yield
    finally:
        if before is None:
            del os.environ[STATE_VARIABLE]
        else:
            os.environ[STATE_VARIABLE] = before


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _report(text: str, status: int) -> int:
    complain(text)
    return status


def _report_unexpected(error: Exception, log_file: Path | None) -> int:
    """Report a bug of ours: one line for the user, and the traceback in the log."""
    if log_file is None:
        _log.debug("unexpected", exc_info=error)
        more = "Run it again with --log-level debug to see where."
    else:
        _log.error("unexpected", exc_info=error)
        more = f"The details are in {log_file}."
    return _report(f"this should not have happened: {type(error).__name__}: {error}. {more}", FAILED)
