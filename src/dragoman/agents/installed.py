"""What is installed, and where: the folder of agents in the state folder.

    agents/claude/current             a link to the folder of the version in use
    agents/claude/0.99.1-k3x9/        a version, with what installed it beside its `installation.json`

A version is made in a folder of its own, at its final place, because an environment of Python cannot be moved. Nothing
looks there before `current` points to it, and that changes in one step: an incomplete version is never in use.
The previous version stays until the next one is installed, for agents that still run from it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from dragoman.agents.entry import DistributionKind
from dragoman.agents.failure import InstallError, of_system

__all__ = ["Installation", "InstalledAgents", "ready"]

_log = logging.getLogger(__name__)

_RECORD = "installation.json"
_CURRENT = "current"
_LOCK = ".lock"


class Installation(msgspec.Struct, frozen=True, rename="camel"):
    """How an installed agent is started. A path inside its folder begins with `./`."""

    id: str
    version: str
    kind: DistributionKind
    command: tuple[str, ...]
    env: dict[str, str] = {}
    # The checksum that verified the package; None if none was published.
    integrity: str | None = None


class InstalledAgents:
    """The agents of a state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "agents"

    def all(self) -> dict[str, Installation]:
        try:
            names = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        except OSError:
            return {}
        return {name: found for name in names if (found := self.find(name)) is not None}

    def find(self, agent: str) -> Installation | None:
        """The version in use, its command ready to be run."""
        folder = self.folder / agent / _CURRENT
        try:
            # The folder itself: an agent that runs stays with its version when `current` changes.
            real = folder.resolve(strict=True)
            record = msgspec.json.decode((real / _RECORD).read_bytes(), type=Installation)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            _log.warning("the installation of %s cannot be read: %s", agent, error)
            return None
        return ready(record, real)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that excludes other processes that install or remove."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self.folder / _LOCK).open("a+")
        except OSError as error:
            raise of_system(error, f"{self.folder} cannot be used") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                pid = lock.read(20).strip()
                who = f" (process {pid})" if pid.isdigit() else ""
                raise InstallError(
                    f"Another `dragoman agents` is at work{who}. Try again when it has ended."
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def new_folder(self, agent: str, version: str) -> Path:
        """A new folder to install a version into. `switch` puts it to use."""
        folder = self.folder / agent / f"{version}-{secrets.token_hex(3)}"
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def switch(self, installation: Installation, folder: Path) -> None:
        """Make this the version in use."""
        before = self._current(installation.id)
        (folder / _RECORD).write_bytes(msgspec.json.encode(installation))
        link = folder.parent / f".{_CURRENT}-{secrets.token_hex(3)}"
        link.symlink_to(folder.name)
        link.replace(folder.parent / _CURRENT)
        self._sweep(installation.id, {folder.name, before})

    def discard(self, folder: Path) -> None:
        """Delete the folder of a version that could not be installed."""
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            # If it was the first.
            folder.parent.rmdir()

    def remove(self, agent: str) -> bool:
        """Remove an agent. Returns whether it was installed."""
        folder = self.folder / agent
        if not folder.is_dir():
            return False
        try:
            # First the link: half an agent is none.
            (folder / _CURRENT).unlink(missing_ok=True)
            shutil.rmtree(folder)
        except OSError as error:
            raise of_system(error, f"{folder} cannot be removed") from error
        return True

    def _current(self, agent: str) -> str | None:
        try:
            return str((self.folder / agent / _CURRENT).readlink())
        except OSError:
            return None

    def _sweep(self, agent: str, retained: set[str | None]) -> None:
        for path in (self.folder / agent).iterdir():
            if path.name not in retained and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)


def ready(installation: Installation, folder: Path) -> Installation:
    """The installation with a command that can be run from any folder."""
    command = tuple(
        str(folder / word[2:]) if word.startswith("./") else word for word in installation.command
    )
    return msgspec.structs.replace(installation, command=command)
