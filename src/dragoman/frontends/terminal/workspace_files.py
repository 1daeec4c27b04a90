"""The files that `@` completes: paths of the workspace, found fast also in a large one.

Two sources. What is typed up to its last slash names a folder, which is listed: also one that is ignored, or outside of the
workspace, because the user has named it. And an index of the workspace finds names further down. It is built breadth first,
leaves out ignored folders, follows no links, and ends at a number of entries or after a time, whichever comes first.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

from dragoman.frontends.terminal.ignored_files import IgnoredFiles

__all__ = ["MOST_OFFERED", "WorkspaceFiles"]

# A menu has six rows; more than this is not looked through.
MOST_OFFERED = 50
# A large repository has some ten thousand files.
_MOST_INDEXED = 50_000
_INDEX_SECONDS = 0.5
_MOST_LISTED = 10_000
# A file that was made a moment ago can be completed; typing a word does not read the disk for each letter.
_FRESH_SECONDS = 5.0


class WorkspaceFiles:
    """Paths relative to `folder`. May be called from any thread."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._lock = Lock()
        self._index: tuple[str, ...] = ()
        self._indexed_at: float | None = None

    def matching(self, begun: str) -> list[str]:
        """The paths that may be meant by the beginning of one, the most likely first. Folders end with a slash."""
        listed = list(self._listed(begun))
        found = dict.fromkeys(listed)
        if not begun.startswith(("/", "~", "../")):
            found |= dict.fromkeys(_ranked(begun, self._indexed()))
        # Of a folder that was typed to its end, what is in it.
        found.pop(begun, None)
        return list(found)[:MOST_OFFERED]

    def _listed(self, begun: str) -> Iterator[str]:
        head, slash, tail = begun.rpartition("/")
        folder = self._folder / os.path.expanduser(f"{head}{slash}")  # noqa: PTH111 - Path's own fails without a home
        entries = sorted(_entries(folder), key=lambda entry: (not entry[1], entry[0].lower()))
        ignored = IgnoredFiles().inside(folder, ()) if not head else IgnoredFiles()
        for name, is_folder in entries:
            if not name.lower().startswith(tail.lower()) or (
                name.startswith(".") and not tail.startswith(".")
            ):
                continue
            if not head and not slash and ignored.has((name,), is_folder=is_folder):
                continue
            yield f"{head}{slash}{name}{'/' if is_folder else ''}"

    def _indexed(self) -> tuple[str, ...]:
        with self._lock:
            now = self._now()
            if self._indexed_at is None or now - self._indexed_at > _FRESH_SECONDS:
                self._index = tuple(self._walk(now + _INDEX_SECONDS))
                self._indexed_at = self._now()
            return self._index

    def _walk(self, until: float) -> Iterator[str]:
        waiting: deque[tuple[tuple[str, ...], IgnoredFiles]] = deque([((), IgnoredFiles())])
        visited = 0
        while waiting and self._now() <= until:
            names, above = waiting.popleft()
            folder = self._folder.joinpath(*names)
            ignored = above.inside(folder, names)
            for name, is_folder in sorted(_entries(folder)):
                visited += 1
                if visited > _MOST_INDEXED:
                    return
                below = (*names, name)
                if ignored.has(below, is_folder=is_folder):
                    continue
                if is_folder:
                    waiting.append((below, ignored))
                yield "/".join(below) + ("/" if is_folder else "")


def _ranked(begun: str, paths: tuple[str, ...]) -> list[str]:
    """Those that contain what was typed: first in the name, at its beginning, then anywhere. Short ones first."""
    wanted = begun.lower().removeprefix("./")
    if not wanted:
        return []
    ranked: list[tuple[int, int, str]] = []
    for path in paths:
        lower = path.lower()
        if wanted not in lower:
            continue
        name = lower.rstrip("/").rpartition("/")[2]
        rank = 0 if lower.startswith(wanted) else 1 if name.startswith(wanted) else 2 if wanted in name else 3
        ranked.append((rank, len(path), path))
    return [path for _, _, path in sorted(ranked)[:MOST_OFFERED]]


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """The names in a folder, and which are folders; none if it cannot be read."""
    found: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= _MOST_LISTED:
                    break
                # A name that is not UTF-8 cannot be typed.
                if entry.name.isprintable():
                    found.append((entry.name, entry.is_dir(follow_symlinks=False)))
    except (OSError, ValueError):
        pass
    return found
