"""A record of our child processes, so that the next start can end what a crash left behind.

The supervisor ends a child with us even when we are killed. The ledger is for the day the supervisor is killed as well.
Each process has a small file of its own in a folder that several of us may share: its owner, what was started and
when. `sweep` ends only processes whose owner is dead, and only the very processes that were written down, with what they
have started: see `marks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dragoman.process.identity import ProcessIdentity
from dragoman.process.marks import end_marked

__all__ = ["Ledger", "LedgerEntry"]

_log = logging.getLogger(__name__)

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600
_SUFFIX = ".json"
# Between SIGTERM and SIGKILL, for a process whose owner is gone.
_GRACE_SECONDS = 1.0
# Between two looks whether it is gone.
_LOOK_SECONDS = 0.02


class LedgerEntry(msgspec.Struct, frozen=True):
    # The leader of a process group of its own.
    process: ProcessIdentity
    owner: ProcessIdentity
    command: tuple[str, ...]
    # In the environment of the process and of what it has started; empty in entries of earlier versions.
    mark: str = ""


class Ledger:
    """The entries in `folder`, which is made, for this user alone, when the first is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owner = ProcessIdentity.own()
        # Ended, and perhaps still written down.
        self._ended: set[ProcessIdentity] = set()

    def record(self, process: ProcessIdentity, command: Sequence[str], mark: str = "") -> None:
        """Record that we started `process`."""
        self._folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        path = self._path(process.pid)
        # Under another name first, so that no process reads half of it.
        partial = path.with_suffix(f".{self._owner.pid}")
        try:
            partial.touch(_PRIVATE_FILE)
            partial.write_bytes(msgspec.json.encode(LedgerEntry(process, self._owner, tuple(command), mark)))
            partial.replace(path)
        except OSError:
            # Half of it, on a disk that is full.
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

    def forget(self, process: ProcessIdentity) -> None:
        """Remove the entry of a process that has ended. An entry that cannot be read now is removed later."""
        self._ended.add(process)
        for each in tuple(self._ended):
            path = self._path(each.pid)
            try:
                entry = _decoded(path.read_bytes())
                # By now the pid may be another's, and so may the entry.
                if entry is not None and entry.process == each:
                    path.unlink(missing_ok=True)
            except FileNotFoundError:
                pass
            except OSError as error:
                _log.warning("the ledger cannot be used: %s", error)
                continue
            self._ended.discard(each)

    def entries(self) -> list[LedgerEntry]:
        return [entry for path in self._paths() if (entry := _read(path)) is not None]

    async def sweep(self) -> list[LedgerEntry]:
        """End the processes that dead owners left behind. Returns them."""
        ended = []
        for path in self._paths():
            try:
                entry = _decoded(path.read_bytes())
            except OSError as error:
                # It may be readable again, and is the only trace of a process.
                _log.warning("an entry of the ledger cannot be read now: %s: %s", path.name, error)
                continue
            if entry is None:
                _log.warning("the ledger has an entry that cannot be read: %s", path.name)
            elif entry.owner.lives():
                continue
            else:
                if entry.process.lives():
                    _log.info("ending process %d (%s), left behind", entry.process.pid, entry.command[0])
                    await _end_group(entry.process)
                    ended.append(entry)
                # What left its group: its own supervisor would have ended it.
                for each in await end_marked(entry.mark):
                    _log.info("ended process %d, which %s had started", each.pid, entry.command[0])
            path.unlink(missing_ok=True)
        return ended

    def _path(self, pid: int) -> Path:
        return self._folder / f"{pid}{_SUFFIX}"

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"))


def _read(path: Path) -> LedgerEntry | None:
    try:
        return _decoded(path.read_bytes())
    except OSError:
        return None


def _decoded(data: bytes) -> LedgerEntry | None:
    try:
        return msgspec.json.decode(data, type=LedgerEntry)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


async def _end_group(leader: ProcessIdentity) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        # As long as the leader lives, the group is the one that was written down.
        if not leader.lives():
            return
        with contextlib.suppress(OSError):
            os.killpg(leader.pid, number)
        deadline = time.monotonic() + _GRACE_SECONDS
        while leader.lives() and time.monotonic() < deadline:  # noqa: ASYNC110 - it is not our child, so there is no event
            await asyncio.sleep(_LOOK_SECONDS)
