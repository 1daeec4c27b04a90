"""Files that were only found, and whose programs a person has agreed to: kept in the state folder.

An agreement is for a place and for what stands there, to the letter: a file that has changed is a new one, and the same
words in another folder may name another program.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from dragoman.config.source import Source

__all__ = ["Agreed"]

_PRIVATE_FOLDER = 0o700


class Agreed:
    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "agreed"

    def __contains__(self, source: Source) -> bool:
        return self._mark(source).exists()

    def add(self, source: Source) -> None:
        """`OSError` if it cannot be kept."""
        self._folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        # For whoever looks into the folder; the name alone counts.
        self._mark(source).write_text(f"{_place(source)}\n", "utf-8", "surrogateescape")

    def remove(self, source: Source) -> bool:
        """Whether there was an agreement to take back."""
        was_there = source in self
        self._mark(source).unlink(missing_ok=True)
        return was_there

    def _mark(self, source: Source) -> Path:
        said = f"{_place(source)}\0{source.text}".encode("utf-8", "surrogateescape")
        return self._folder / hashlib.sha256(said).hexdigest()


def _place(source: Source) -> str:
    return str((source.path or Path()).resolve())
