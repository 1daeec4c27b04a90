"""Replaces a file by a new one, if it is still as it was when its diff was made."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass

from dragoman.tools.builtin.files import MAX_FILE_BYTES
from dragoman.tools.builtin.workspace import WorkspacePath

__all__ = ["FileSeen", "content_of", "put"]

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as it was when its diff was made: where it is, whatever links lead there, and what was in it."""

    place: WorkspacePath
    # None: there was none.
    digest: str | None

    @classmethod
    def now(cls, place: WorkspacePath) -> FileSeen:
        return cls.with_content(place, content_of(place))

    @classmethod
    def with_content(cls, place: WorkspacePath, content: bytes | None) -> FileSeen:
        return cls(place, None if content is None else hashlib.sha256(content).hexdigest())


def content_of(place: WorkspacePath) -> bytes | None:
    """The current content; None if there is no file."""
    try:
        return place.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        return None


def put(place: WorkspacePath, data: bytes, seen: FileSeen, new_mode: int | None = None) -> bool:
    """Write the file, if it is unchanged. Returns whether it was. Creates missing folders.

    A file that was there keeps its permission bits; a new one gets `new_mode`, or what is usual.
    """
    # Before anything is made for it, and once more when it is about to be replaced.
    if FileSeen.now(place) != seen:
        return False
    parent = place.open_parent(missing_made=True)
    try:
        return _replace(parent, place, data, seen, new_mode)
    finally:
        os.close(parent)


def _replace(parent: int, place: WorkspacePath, data: bytes, seen: FileSeen, new_mode: int | None) -> bool:
    name = place.parts[-1]
    temporary = f".dragoman-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _NEW_FILE, 0o666, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            mode = new_mode
            with contextlib.suppress(FileNotFoundError):
                mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
            if mode is not None:
                os.fchmod(file.fileno(), mode & 0o777)
            os.fsync(file.fileno())
        # As late as can be: between this look and the next line lie microseconds.
        if FileSeen.now(place) != seen:
            return False
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
    return True
