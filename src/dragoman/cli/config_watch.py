"""A configuration that changes while it is in use: its rules and its new models count without a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from dragoman.cli.run import CommandContext
from dragoman.config import Config, ConfigError, TrustedFiles, user_config_file
from dragoman.config.folders import FILE_NAME

__all__ = ["follow", "followed_file"]

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 1.0


def followed_file(context: CommandContext) -> Path:
    """The user's configuration file, or the one that would be if it were there."""
    return context.config_file or user_config_file()


def _log_failure(error: ConfigError) -> None:
    _log.warning("the configuration is used as it was before: %s", error)


async def follow(
    context: CommandContext,
    adopt: Callable[[Config], object],
    failed: Callable[[ConfigError], object] = _log_failure,
) -> None:
    """Poll both layers, and call `adopt` with each new configuration. Runs until it is cancelled.

    A file that appears is read, too: the first agent that is added brings it. Models of a found file appear when the
    user trusts the file, and go when it changes. If a file has mistakes, `failed` gets them, and nothing changes.
    """
    places = (followed_file(context), Path(FILE_NAME), TrustedFiles(context.state_dir).folder)
    seen = tuple(map(_state, places))
    while True:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        now = tuple(map(_state, places))
        if now == seen:
            continue
        seen = now
        try:
            config = context.config()
        except ConfigError as error:
            failed(error)
            continue
        if config.untrusted and config.found is not None:
            _log.warning(
                "%s is not trusted, so its models are not offered: dragoman trust", config.found.source.path
            )
        adopt(config)


def _state(place: Path) -> tuple[int, int, int] | None:
    """A value that differs after a file was written or replaced."""
    try:
        stat = place.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
