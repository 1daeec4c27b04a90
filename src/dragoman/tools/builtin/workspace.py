"""The folders that tools may touch, and nothing outside them.

A path is taken by what it leads to: every symbolic link on the way is resolved, and where it ends must be inside one
of the folders. The file is then opened step by step from that folder, refusing links at each step: the resolved path
has none, so a link that is put there in the meantime causes an error instead of an access outside.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "MAX_PATH_LENGTH",
    "TooLarge",
    "Workspace",
    "WorkspaceError",
    "WorkspacePath",
    "explained",
    "is_binary",
]

# As long as the system takes them.
MAX_PATH_LENGTH = 4_096

# A NUL near the beginning marks a binary file, as in other tools.
_BINARY_PROBE = 8_192

# The ends of a line, and half characters: what is left of a name that is not UTF-8, and cannot be sent.
_NOT_OF_A_LINE = {0x0A: "␊", 0x0D: "␍"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Not blocking: opening a named pipe would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WorkspaceError(Exception):
    """A path is not allowed or cannot be used. The message says why."""


class TooLarge(WorkspaceError):
    """A file that is larger than what was to be read of it."""


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """A path in the workspace, which need not exist: one of its folders, and the way down, free of links."""

    folder: Path
    parts: tuple[str, ...]
    # In the first of the folders, where relative paths begin.
    is_relative: bool = True

    @property
    def path(self) -> Path:
        return self.folder.joinpath(*self.parts)

    @property
    def label(self) -> str:
        """The path that a model sees: as short as possible without becoming ambiguous, and usable as an argument.

        Only what is no part of a line is replaced; what may hide otherwise is made visible where a person looks.
        """
        label = "/".join(self.parts) or "." if self.is_relative else str(self.path)
        return label.translate(_NOT_OF_A_LINE)

    def below(self, *parts: str) -> WorkspacePath:
        """A path below this one. The parts must be free of links, for example names from a listing."""
        return WorkspacePath(self.folder, (*self.parts, *parts), self.is_relative)

    def open_folder(self, *, missing_made: bool = False) -> int:
        """A descriptor of this folder, for the caller to close."""
        return _descend(self.folder, self.parts, missing_made=missing_made)

    def open_parent(self, *, missing_made: bool = False) -> int:
        return _descend(self.folder, self.parts[:-1], missing_made=missing_made)

    def open_file(self) -> BinaryIO:
        """Open this file to read. It must be a regular file."""
        if not self.parts:
            raise WorkspaceError("The workspace itself is a folder, not a file.")
        parent = self.open_parent()
        try:
            descriptor = os.open(self.parts[-1], _FILE, dir_fd=parent)
        finally:
            os.close(parent)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            what = "a folder, not a file" if stat.S_ISDIR(mode) else "not an ordinary file"
            raise WorkspaceError(f"{self.label} is {what}.")
        return os.fdopen(descriptor, "rb")

    def read(self, limit: int) -> bytes:
        """Read this file, which must not be larger than `limit`."""
        with self.open_file() as file:
            data = file.read(limit + 1)
            if len(data) > limit:
                size = os.fstat(file.fileno()).st_size
                raise TooLarge(f"{self.label} has {size:,} bytes; at most {limit:,} can be read at once.")
            return data


@dataclass(frozen=True, slots=True)
class Workspace:
    # Absolute and resolved. The first is where relative paths begin.
    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Iterable[Path | str]) -> Workspace:
        resolved = tuple(Path(os.path.realpath(folder)) for folder in folders)
        if not resolved:
            raise WorkspaceError("No folder is open, so there are no files to work with.")
        return cls(resolved)

    def place(self, path: str) -> WorkspacePath:
        """Resolve `path` inside the workspace. It need not exist."""
        if not _is_path(path):
            raise WorkspaceError(f"{path!r} is no path.")
        resolved = Path(os.path.realpath(self.folders[0] / path))
        for index, folder in enumerate(self.folders):
            if resolved.is_relative_to(folder):
                return WorkspacePath(folder, resolved.relative_to(folder).parts, index == 0)
        raise WorkspaceError(
            f"{path} is outside the workspace ({', '.join(map(str, self.folders))}). Only what is inside can be used."
        )


def _is_path(text: str) -> bool:
    """Whether the system can take this text as a path."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        # Half of a surrogate pair, which has no bytes.
        return False
    return text != "" and "\0" not in text


def explained(error: OSError, label: str) -> str:
    """The system's error about a path, in a sentence."""
    return f"{label}: {error.strerror or error}."


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:_BINARY_PROBE]


def _descend(folder: Path, parts: tuple[str, ...], *, missing_made: bool) -> int:
    descriptor = os.open(folder, _FOLDER)
    try:
        for part in parts:
            if missing_made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
