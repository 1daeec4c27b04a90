"""Which files of a folder people do not name: those that programs make, and those that `.gitignore` lists."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.globs import Glob, GlobError
from dragoman.regular_file import read_regular
from dragoman.tools.builtin.tree import NOT_ENTERED

__all__ = ["IgnoredFiles"]

_FILE_NAME = ".gitignore"
# A list that is longer was not written by hand.
_MOST_BYTES = 64 * 1024
_MOST_LINES = 500


@dataclass(frozen=True, slots=True)
class _IgnoreLine:
    # How deep the folder of its file is.
    depth: int
    is_exception: bool
    only_folders: bool
    # A pattern of a name, at any depth; or of a path from that folder.
    name: re.Pattern[str] | None
    path: Glob | None

    def matches(self, names: tuple[str, ...], *, is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        if self.name is not None:
            return self.name.match(names[-1]) is not None
        return self.path is not None and self.path.matches(names[self.depth :])


class IgnoredFiles:
    """What is ignored in one folder and below it, as the lists from the top down to it say."""

    def __init__(self, lines: tuple[_IgnoreLine, ...] = ()) -> None:
        self._lines = lines

    def inside(self, folder: Path, names: tuple[str, ...]) -> IgnoredFiles:
        """The same for a folder below, with its own list. `names` lead there from the top."""
        own = tuple(_lines(folder / _FILE_NAME, len(names)))
        return IgnoredFiles((*self._lines, *own)) if own else self

    def has(self, names: tuple[str, ...], *, is_folder: bool) -> bool:
        """Whether a file or folder is ignored. `names` lead there from the top."""
        if is_folder and names[-1] in NOT_ENTERED:
            return True
        for line in reversed(self._lines):
            if line.matches(names, is_folder=is_folder):
                return not line.is_exception
        return False


def _lines(file: Path, depth: int) -> Iterator[_IgnoreLine]:
    try:
        text = read_regular(file, _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines()[:_MOST_LINES]:
        pattern = line.rstrip()
        is_exception = pattern.startswith("!")
        pattern = pattern.removeprefix("!")
        only_folders = pattern.endswith("/")
        bare = pattern.strip("/")
        if not bare or line.startswith("#"):
            continue
        try:
            # "If there is a separator at the beginning or middle of the pattern, then the pattern is relative".
            is_path = pattern.startswith("/") or "/" in bare
            yield _IgnoreLine(
                depth,
                is_exception,
                only_folders,
                None if is_path else re.compile(fnmatch.translate(bare)),
                Glob(bare) if is_path else None,
            )
        except (GlobError, re.error):
            continue
