"""A private folder for a socket. It also removes folders that killed processes have left."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

from dragoman.process import ProcessIdentity

__all__ = ["socket_folder"]

# macOS takes paths of 103 bytes, Linux of 107.
_MAX_PATH = 103
_PREFIX = "dragoman-"
# A listener on this machine accepts in less time.
_CONNECT_SECONDS = 1.0


def socket_folder(name: str) -> Path:
    """A new folder, with a path short enough for a socket of that name in it."""
    for place in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - what is made there is ours alone
        _sweep(Path(place), name)
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
        if len(bytes(folder / name)) <= _MAX_PATH:
            break
        folder.rmdir()
    else:
        raise OSError("no folder has a path that is short enough for a socket")
    return folder


def _sweep(place: Path, name: str) -> None:
    """Remove the folders of killed processes. A folder that cannot be read belongs to another user."""
    for folder in place.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and ProcessIdentity.of(int(pid)) is None and not _is_answered(folder / name):
            shutil.rmtree(folder, ignore_errors=True)


def _is_answered(path: Path) -> bool:
    """Whether a process listens there. Its pid may be invisible, if it runs in another container."""
    if len(bytes(path)) > _MAX_PATH:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_CONNECT_SECONDS)
        try:
            asking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
