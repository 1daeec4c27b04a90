"""Where files are stored: the configuration file and the state folder.

Linux has the folders of the XDG base directory specification, macOS its own. Nothing here reads or creates anything
but by looking whether a file is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "CONFIG_VARIABLE",
    "FILE_NAME",
    "STATE_VARIABLE",
    "config_file",
    "found_file",
    "named_file",
    "state_folder",
    "user_config_file",
]

FILE_NAME = "dragoman.toml"
CONFIG_VARIABLE = "DRAGOMAN_CONFIG"
STATE_VARIABLE = "DRAGOMAN_STATE_DIR"

_NAME = "dragoman"


def config_file(option: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's file: the one that was named, even if it is not there; else their own, if it is there."""
    own = user_config_file(environ)
    return named_file(option, environ) or (own if own.is_file() else None)


def found_file(option: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file in the current folder, if there is one, no file was named, and it is not the user's own."""
    here = Path(FILE_NAME)
    if named_file(option, environ) is not None or not here.is_file():
        return None
    return None if here.resolve() == user_config_file(environ).resolve() else here


def named_file(option: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that the user has named, by `--config` or `$DRAGOMAN_CONFIG`."""
    named = environ.get(CONFIG_VARIABLE)
    return option or (Path(named) if named else None)


def user_config_file(environ: Mapping[str, str] = os.environ) -> Path:
    return _user_folder("XDG_CONFIG_HOME", ".config", environ) / FILE_NAME


def state_folder(option: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder for what outlives the process. The first writer creates it."""
    named = option or environ.get(STATE_VARIABLE)
    return Path(named).absolute() if named else _user_folder("XDG_STATE_HOME", ".local/state", environ)


def _user_folder(variable: str, default: str, environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - Path.home fails without a home
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / _NAME
    # "All paths set in these environment variables must be absolute. If […] relative […] consider the path invalid
    # and ignore it."
    given = Path(environ.get(variable, ""))
    return (given if given.is_absolute() else home / default) / _NAME
