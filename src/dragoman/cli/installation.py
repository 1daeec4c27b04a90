"""What Dragoman needs of the machine: Python, the platform, the libraries, and a state folder."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from pathlib import Path

from dragoman import __version__
from dragoman.cli.finding import Finding
from dragoman.store import Database, StoreError

__all__ = ["libraries", "python", "state", "system", "versions"]

OLDEST_PYTHON = (3, 11)
_DISTRIBUTION = re.compile(r"[A-Za-z0-9_.-]+")
# In the marker of what only developers need.
_OPTIONAL = "extra =="
_PLATFORMS = {"linux": "Linux", "darwin": "macOS"}


def versions() -> Finding:
    """Everything that has a version and is right, on one line."""
    python_ = ".".join(map(str, sys.version_info[:3]))
    return Finding(
        "ok", f"Dragoman {__version__}, Python {python_}, {_PLATFORMS.get(sys.platform, sys.platform)}"
    )


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


def libraries() -> Iterator[Finding]:
    """One finding for each library that Dragoman requires."""
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
            yield _library(name[0], distributions)


def _library(name: str, distributions: Mapping[str, list[str]]) -> Finding:
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


def state(folder: Path) -> Finding:
    """Whether the state folder can be written."""
    try:
        with Database.open(folder) as database, database.writing():
            # Nothing to write: that one can begin is what there is to know.
            return Finding("ok", f"state in {database.path}")
    except StoreError as error:
        return Finding("fail", f"{error.path}: {error.problem}", error.hint)
