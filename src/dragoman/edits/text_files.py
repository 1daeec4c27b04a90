"""Text files by their paths: read whole, written and removed only while they are as they were seen.

A path is resolved first. From its nearest existing folder on, no symbolic link is followed (`tools.builtin.workspace`), so a
link that is put there meanwhile makes the access fail.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.tools.builtin.files import MAX_FILE_BYTES, text_or_none
from dragoman.tools.builtin.replacing import FileSeen, content_of, put
from dragoman.tools.builtin.workspace import TooLarge, Workspace, WorkspaceError, WorkspacePath, explained

__all__ = ["FileUnusable", "mode_of", "put_text", "remove_file", "text_of"]


class FileUnusable(Exception):
    """A file cannot be read as text, or not be written. The message is a sentence with its path."""


def text_of(path: str) -> str | None:
    """The whole text of a file; None if there is none. `FileUnusable` if it is no text in UTF-8, too large, or no file."""
    with _explaining(path):
        data = content_of(_place(path))
        text = None if data is None else text_or_none(data)
    if data is not None and text is None:
        raise FileUnusable(f"{path} is not text in UTF-8.")
    return text


def mode_of(path: str) -> int | None:
    """The permission bits of a file; None if there is none."""
    try:
        return stat.S_IMODE(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return None


def put_text(path: str, text: str, expected: str | None, mode: int | None = None) -> bool:
    """Write a file if its text is `expected` (None: there is no file). Returns whether it was written.

    A new file gets the permission bits `mode`. One that is there keeps its own.
    """
    with _explaining(path):
        place = _place(path)
        return put(place, text.encode(), _seen(place, expected), mode)


def remove_file(path: str, expected: str) -> bool:
    """Remove a file if its text is `expected`. Returns whether it was removed."""
    with _explaining(path):
        place = _place(path)
        if FileSeen.now(place) != _seen(place, expected):
            return False
        parent = place.open_parent()
        try:
            os.unlink(place.parts[-1], dir_fd=parent)
        finally:
            os.close(parent)
        return True


def _seen(place: WorkspacePath, text: str | None) -> FileSeen:
    return FileSeen.with_content(place, None if text is None else text.encode())


def _place(path: str) -> WorkspacePath:
    """The path from its nearest existing folder on: the folders below that were removed, or never made."""
    resolved = Path(os.path.realpath(path))
    folder = next(folder for folder in (*resolved.parents, Path("/")) if folder.is_dir())
    return Workspace.of((folder,)).place(str(resolved))


@contextmanager
def _explaining(path: str) -> Iterator[None]:
    try:
        yield
    except TooLarge as error:
        raise FileUnusable(f"{path} is larger than {MAX_FILE_BYTES:,} bytes.") from error
    except WorkspaceError as error:
        raise FileUnusable(f"{path}: {error}") from error
    except (OSError, ValueError) as error:
        why = explained(error, path) if isinstance(error, OSError) else f"{path!r} is no path."
        raise FileUnusable(why) from error
