"""Runs a command inside everything it needs around it: logs, the configuration, and somebody who catches it."""

from __future__ import annotations

import errno
import logging
import select
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias, cast

import msgspec

from dragoman.agents.known import KnownAgents
from dragoman.cli.asking import agreed, can_ask
from dragoman.cli.commands import Command
from dragoman.cli.errors import FAILED, WRONG_USAGE, CommandError, UsageError, complain
from dragoman.cli.layout import say
from dragoman.config import (
    Agreed,
    Config,
    ConfigError,
    config_file,
    is_only_found,
    load,
    narrowed,
    secrets,
    state_folder,
)
from dragoman.lm import LanguageModelError
from dragoman.logs import Redaction, logging_to
from dragoman.models import ModelNotUsable

__all__ = ["Surroundings", "run"]

_log = logging.getLogger(__name__)

# Nobody's mistake, whatever was being written.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the global options say. A command asks for what it needs of it."""

    config_file: Path | None
    state_dir: Path
    redaction: Redaction
    # Whether the person has named the file, or it is their own.
    is_trusted: bool = True

    def config(self) -> Config:
        """The configuration, as far as its file is to be trusted; from here on nothing secret of it gets into the logs."""
        agents = KnownAgents(self.state_dir)
        config = load(self.config_file, agents.ids)
        self.redaction.add(secrets(config))
        if self.is_trusted:
            return agents.applied(config)
        config, notices = narrowed(config)
        for notice in notices:
            say(self.redaction.redacted(notice), sys.stderr)
        told = {} if config.source in Agreed(self.state_dir) else config.announcements
        told = {id_: self.redaction.redacted(text) for id_, text in told.items()}
        return agents.applied(msgspec.structs.replace(config, announcements=told))

    def agreed(self, config: Config, *models: str) -> Config:
        """Say what is about to be started, where somebody else may have written that down; and ask, where one can.

        Without a terminal it is only said: whoever starts us from a program has chosen the folder.
        """
        told = [config.announcements[model] for model in models if model in config.announcements]
        for line in told:
            say(line, sys.stderr)
        if not told or not can_ask():
            return config
        if not agreed(f"{config.source.path} came with this folder. Is this yours to start?"):
            raise UsageError(
                "Nothing was started. To agree to it later: dragoman trust. To use another file: --config FILE."
            )
        try:
            Agreed(self.state_dir).add(config.source)
        except OSError as error:
            _log.warning("it will be asked again: %s cannot be written: %s", error.filename, error.strerror)
        return msgspec.structs.replace(config, announcements={})


_Run: TypeAlias = Callable[[Namespace, Surroundings], int]


def run(command: Command, arguments: Namespace) -> int:
    log_file: Path | None = arguments.log_file
    with ExitStack() as stack:
        try:
            redaction = stack.enter_context(logging_to(log_file, arguments.log_level))
        except OSError as error:
            return _tell(f"the log file {log_file} cannot be written: {error.strerror}.", WRONG_USAGE)
        try:
            _record(arguments.record, redaction, stack)
        except OSError as error:
            return _tell(
                f"the recording {arguments.record} cannot be written: {error.strerror}.", WRONG_USAGE
            )
        file = config_file(arguments.config)
        surroundings = Surroundings(
            file,
            state_folder(arguments.state_dir),
            redaction,
            is_trusted=not is_only_found(file, arguments.config),
        )
        try:
            chosen = cast("_Run", import_module(command.module).run)
            return chosen(arguments, surroundings)
        except CommandError as error:
            return _tell(str(error), error.exit_code)
        except ConfigError as error:
            # Each of its lines begins with a file and a line already.
            say(redaction.redacted(str(error)), sys.stderr)
            return WRONG_USAGE
        except ModelNotUsable as error:
            return _tell(error.sentence, WRONG_USAGE)
        except LanguageModelError as error:
            return _tell(error.sentence, FAILED)
        except OSError as error:
            if _is_of_output(error):
                raise
            if error.errno in _NO_ROOM:
                what = error.filename or "something"
                return _tell(f"{what} could not be written: {error.strerror}. Make room for it.", FAILED)
            if _is_folder_gone():
                return _tell("the folder you are in is no longer there. Go to another one.", FAILED)
            return _tell_unexpected(error, log_file)
        except Exception as error:
            return _tell_unexpected(error, log_file)


def _record(file: Path | None, redaction: Redaction, stack: ExitStack) -> None:
    if file is not None:
        from dragoman.traces.recording import recording_to  # noqa: PLC0415 - for those who record

        stack.enter_context(recording_to(file, redaction))


def _is_of_output(error: OSError) -> bool:
    """Whether it was standard output that could not be written, as far as that can be told: Python does not say."""
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


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _tell(text: str, status: int) -> int:
    complain(text)
    return status


def _tell_unexpected(error: Exception, log_file: Path | None) -> int:
    """A mistake of ours: one line for the user, and the rest where it was asked for."""
    if log_file is None:
        _log.debug("unexpected", exc_info=error)
        more = "Run it again with --log-level debug to see where."
    else:
        _log.error("unexpected", exc_info=error)
        more = f"The details are in {log_file}."
    return _tell(f"this should not have happened: {type(error).__name__}: {error}. {more}", FAILED)
