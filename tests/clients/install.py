"""Puts the HTTP clients of the matrix into a cache outside the clone. Everything is pinned with its hash in `pins/`."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.installing import made

from agents import install as agents

__all__ = ["PINS", "cache", "codex", "node", "node_clients", "opencode", "prepare", "python"]

PINS = Path(__file__).with_name("pins")
_NODE = 24


def cache() -> Path:
    named = os.environ.get("DRAGOMAN_TEST_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "dragoman-tests") / "clients"


def python(name: str) -> Path:
    """The interpreter of an environment with the packages of `pins/NAME.txt`."""
    pins = PINS / f"{name}.txt"

    def install(to: Path) -> None:
        agents.run(sys.executable, "-m", "venv", str(to / "venv"))
        # Its programs would name a folder that is moved: only modules are used.
        options = ("--require-hashes", "--only-binary=:all:", "--no-compile")
        agents.pip(str(to / "venv" / "bin" / "python"), *options, "-r", str(pins))

    return made(name, (pins,), install, cache()) / "venv" / "bin" / "python"


def node() -> Path:
    return agents.node(_NODE) / "node"


def node_clients() -> Path:
    """The folder whose `node_modules` has the JavaScript libraries."""
    pins = PINS / "node"
    files = (pins / "package.json", pins / "package-lock.json")

    def install(to: Path) -> None:
        for file in files:
            shutil.copy(file, to / file.name)
        agents.npm_ci(to, agents.node(_NODE))

    return made("node", files, install, cache())


def codex() -> Path:
    """The program that `make test-agents` installs as an agent: a client like any other when it runs by itself."""
    folder = agents.npm_package("codex", agents.node(_NODE)) / "@openai"
    [program] = folder.glob("codex-*/vendor/*/bin/codex")
    return program


def opencode() -> Path:
    folder = agents.npm_package("opencode", agents.node(_NODE))
    return folder / "opencode-linux-x64-baseline" / "bin" / "opencode"


def prepare() -> None:
    """Install all clients, several at a time: most of it is waiting for the registry."""
    cache().mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(3) as pool:
        steps = [pool.submit(python, name) for name in ("aider", "python", "older")]
        steps += [pool.submit(step) for step in (codex, opencode, node_clients)]
        for step in steps:
            step.result()
