"""Text files of the workspace for an agent that reads and writes through us: what is there, and what would change.

Everything here takes its time and is run in a thread. A path is taken by what it leads to (`tools.builtin.workspace`),
and a change is made only to the file as it was when the change was shown.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath

from dragoman.acp.messages import Diff, ReadTextFile, ToolActivity, WriteTextFile
from dragoman.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from dragoman.tools.builtin.files import MAX_FILE_BYTES, lines_of
from dragoman.tools.builtin.replacing import FileSeen, content_of, put
from dragoman.tools.builtin.workspace import Workspace, WorkspaceError, WorkspacePath, explained, is_binary

__all__ = ["ApprovedEdits", "Change", "FileRefused", "read_text", "wanted_lines"]

# ACP's own code for it.
_NOT_FOUND = -32002


class FileRefused(Exception):
    """A file request is refused. The agent gets this code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_text(workspace: tuple[str, ...], path: str) -> tuple[str, str]:
    """The path with links resolved, and all of the file."""
    place = _place(workspace, path)
    with _refusing(path):
        return str(place.path), _text(place, place.read(MAX_FILE_BYTES))


def wanted_lines(text: str, request: ReadTextFile) -> str:
    """All of a text, or so many lines from the one that is named; lines are counted from 1."""
    if request.line is None and request.limit is None:
        return text
    start = max((request.line or 1) - 1, 0)
    stop = None if request.limit is None else start + request.limit
    return "".join(lines_of(text)[start:stop])


@dataclass(frozen=True, slots=True)
class Change:
    """One file with other content. `old` is None where there is none yet."""

    place: WorkspacePath
    old: str | None
    new: str
    seen: FileSeen

    @classmethod
    def of(cls, workspace: tuple[str, ...], request: WriteTextFile) -> Change:
        place = _place(workspace, request.path)
        if not place.parts:
            raise FileRefused(INVALID_PARAMS, f"{request.path} is a folder, not a file.")
        try:
            size = len(request.content.encode())
        except UnicodeEncodeError:
            raise FileRefused(INVALID_PARAMS, "The content has half a character in it.") from None
        if "\0" in request.content:
            # Programs stop reading there, or treat the file as binary: a diff could not show what it does.
            raise FileRefused(INVALID_PARAMS, "The content has a NUL character. Only text can be written.")
        if size > MAX_FILE_BYTES:
            raise FileRefused(
                INVALID_PARAMS,
                f"The content has {size:,} bytes; at most {MAX_FILE_BYTES:,} can be written at once.",
            )
        with _refusing(request.path):
            data = content_of(place)
            old = None if data is None else _text(place, data)
        return cls(place, old, request.content, FileSeen.with_content(place, data))

    @property
    def path(self) -> str:
        """The path with links resolved."""
        return str(self.place.path)

    @property
    def activity(self) -> ToolActivity:
        """The write as a tool call of a permission request."""
        title = f"{'Create' if self.old is None else 'Change'} {self.place.label}"
        diff = {"type": "diff", "path": self.path, "oldText": self.old, "newText": self.new}
        return ToolActivity("", title, kind="edit", content=(diff,))

    def make(self) -> None:
        with _refusing(self.path):
            if put(self.place, self.new.encode(), self.seen):
                return
        raise self.outdated

    def check(self) -> None:
        """Raise `FileRefused` if the file is not what it was when the change was shown."""
        with _refusing(self.path):
            if FileSeen.now(self.place) == self.seen:
                return
        raise self.outdated

    @property
    def outdated(self) -> FileRefused:
        return FileRefused(
            INTERNAL_ERROR,
            f"{self.path} was not written: it is not what it was when the change was shown. Read it again first.",
        )


def _place(workspace: tuple[str, ...], path: str) -> WorkspacePath:
    # "All file paths in the protocol MUST be absolute", says ACP.
    if not PurePath(path).is_absolute():
        raise FileRefused(INVALID_PARAMS, f"{path!r} is not an absolute path.")
    try:
        return Workspace.of(workspace).place(path)
    except WorkspaceError as error:
        raise FileRefused(INVALID_PARAMS, str(error)) from error


def _text(place: WorkspacePath, data: bytes) -> str:
    try:
        if not is_binary(data):
            return data.decode()
    except UnicodeDecodeError:
        pass
    raise WorkspaceError(f"{place.label} is not text in UTF-8.")


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise FileRefused(_NOT_FOUND, explained(error, path)) from error
    except OSError as error:
        raise FileRefused(INTERNAL_ERROR, explained(error, path)) from error
    except WorkspaceError as error:
        raise FileRefused(INVALID_PARAMS, str(error)) from error


class ApprovedEdits:
    """Edits that a person approved in the turn under way. Each path is valid for one write.

    An approval covers the change of its diff. A request without a diff showed no content, and covers no write.
    """

    def __init__(self) -> None:
        self._by_path: dict[str, tuple[Diff, ...]] = {}

    @staticmethod
    def named(activity: ToolActivity) -> dict[str, tuple[Diff, ...]]:
        """The changes of an edit by file. Links are resolved now, because the person decides about these files."""
        return {
            os.path.realpath(path): tuple(diff for diff in activity.diffs if diff.path == path)
            for path in (diff.path for diff in activity.diffs)
            if PurePath(path).is_absolute() and "\0" not in path
        }

    def add(self, named: dict[str, tuple[Diff, ...]]) -> None:
        self._by_path.update(named)

    def spend(self, change: Change) -> bool:
        """Whether this change is approved. The approval of its file is used up in any case."""
        diffs = self._by_path.pop(change.path, None)
        return diffs is not None and change.new == _outcome(change.old or "", diffs)

    def clear(self) -> None:
        self._by_path.clear()


def _outcome(text: str, diffs: Iterable[Diff]) -> str:
    """The text of a file after these diffs. Agents send the whole file, or only the passage that changes."""
    for diff in diffs:
        text = text.replace(diff.old_text, diff.new_text, 1) if diff.old_text else diff.new_text
    return text
