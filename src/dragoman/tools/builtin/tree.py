"""Walks down a folder, in order and with a limit, without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.globs import Glob
from dragoman.tools.builtin.workspace import WorkspacePath

__all__ = ["MAX_VISITED", "NOT_ENTERED", "TreeEntry", "Walk", "few"]

# A large repository has some ten thousand files; with more, the folder is probably a home folder.
MAX_VISITED = 100_000

# Folders that programs fill and people do not read. To look inside, a call names them as the path.
NOT_ENTERED = frozenset(
    {
        ".git", ".hg", ".svn", ".jj",
        "node_modules", "bower_components",
        ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",
        ".gradle", ".terraform", ".next", ".cache",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeEntry:
    place: WorkspacePath
    is_folder: bool

    @property
    def label(self) -> str:
        return f"{self.place.label}/" if self.is_folder else self.place.label


class Walk:
    """The entries below `top` that match `glob`. After the walk, its fields say what was left out."""

    def __init__(self, top: WorkspacePath, glob: Glob) -> None:
        self._top = top
        self._glob = glob
        self._visited = 0
        self.not_entered: list[str] = []
        self.unreadable: list[str] = []

    @property
    def is_cut(self) -> bool:
        return self._visited > MAX_VISITED

    def __iter__(self) -> Iterator[TreeEntry]:
        # The way down from the top to the folders that are still to be read; the last is next.
        waiting: list[tuple[str, ...]] = [()]
        while waiting and not self.is_cut:
            way = waiting.pop()
            folders: list[tuple[str, ...]] = []
            for name, is_folder in self._names_in(way):
                names = (*way, name)
                place = self._top.below(*names)
                if self._glob.matches(names):
                    yield TreeEntry(place, is_folder)
                if is_folder and self._glob.may_match_below(names):
                    if name in NOT_ENTERED:
                        self.not_entered.append(place.label)
                    else:
                        folders.append(names)
            waiting.extend(reversed(folders))

    def _names_in(self, way: tuple[str, ...]) -> list[tuple[str, bool]]:
        found: list[tuple[str, bool]] = []
        place = self._top.below(*way)
        try:
            descriptor = place.open_folder()
        except OSError:
            # The top itself must be readable; unreadable folders below it are listed at the end.
            if not way:
                raise
            self.unreadable.append(place.label)
            return found
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    self._visited += 1
                    if self.is_cut:
                        break
                    found.append((entry.name, entry.is_dir(follow_symlinks=False)))
        finally:
            os.close(descriptor)
        return sorted(found)

    def notices(self) -> Iterator[str]:
        if self.is_cut:
            yield f"Stopped after {MAX_VISITED:,} entries: name a folder further down as the path."
        if self.not_entered:
            yield f"Not entered: {few(self.not_entered)}. To look inside, name one of them as the path."
        if self.unreadable:
            yield f"Could not be read: {few(self.unreadable)}."


# A notice names a few; more would be a list of its own.
_NAMED = 5


def few(labels: list[str]) -> str:
    """The first of some paths, and how many more there are."""
    more = len(labels) - _NAMED
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")
