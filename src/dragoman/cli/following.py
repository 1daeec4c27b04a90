"""A configuration that changes while its models are in use: what is new in it is offered without a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dragoman.cli.run import Surroundings
from dragoman.config import ConfigError, user_config_file
from dragoman.models import Models

__all__ = ["follow", "followed_file"]

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 1.0


def followed_file(surroundings: Surroundings) -> Path:
    """The file in use, or the one that would be if it were there."""
    return surroundings.config_file or user_config_file()


async def follow(surroundings: Surroundings, models: Models, changed: Callable[[], None]) -> None:
    """Look at the file again and again; tell when there are other models. Ends when it is cancelled.

    A file that appears is read, too: the first agent that is added brings it.
    """
    file = followed_file(surroundings)
    seen = _state(file)
    while True:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        now = _state(file)
        if now == seen:
            continue
        seen = now
        try:
            config = replace(surroundings, config_file=file if now is not None else None).config()
        except ConfigError as error:
            _log.warning("the configuration is used as it was before: %s", error)
            continue
        if config.announcements:
            _log.warning("%s came with this folder and was changed: restart to use it as it is now", file)
        elif models.adopt(config):
            changed()


def _state(file: Path) -> tuple[int, int, int] | None:
    """What is different when a file was written, or another put in its place."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
