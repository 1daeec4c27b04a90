"""The file a configuration came from, stored so that a later error message can name the line."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dragoman.config.positions import KeyPath, positions

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    # As it was named or found, for messages; None: there is no file, and the defaults hold.
    path: Path | None = None
    # Not shown with the rest: there may be keys in it.
    text: str = field(default="", repr=False)

    @property
    def folder(self) -> Path:
        """The folder to which paths in the file are relative."""
        return Path.cwd() if self.path is None else self.path.absolute().parent

    def at(self, keys: KeyPath) -> str:
        """File and line of a key, or of the nearest thing around it that is written down."""
        return "the configuration" if self.path is None else f"{self.path}:{self.line(keys)}"

    def writes(self, keys: KeyPath) -> bool:
        """Whether the file has this key."""
        return self.path is not None and keys in self._lines

    def line(self, keys: KeyPath) -> int:
        while keys not in self._lines:
            keys = keys[:-1]
        return self._lines[keys]

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        # Only complaints need it, and there are usually none.
        return positions(self.text)
