"""Found files that the user trusts, stored in the state folder.

An agreement is for a place, for the exact text of the file there, and for the models that the user was shown. A file
that has changed needs a new agreement, and so does the same text in another folder. A model that the user's own file
also defined at that time was not shown; if the user removes theirs, the found one needs a new agreement.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from dragoman.config.loading import Found
from dragoman.config.source import Source

__all__ = ["TrustedFiles"]

_PRIVATE_FOLDER = 0o700


class TrustedFiles:
    def __init__(self, state_dir: Path) -> None:
        # Its modification time changes with every agreement.
        self.folder = state_dir / "agreed"

    def __contains__(self, found: Found) -> bool:
        return self._mark(found).exists()

    def add(self, found: Found) -> None:
        """Store the user's trust in a file. `OSError` if it cannot be written."""
        self.folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        # The name alone counts. The text helps a person who looks into the folder.
        self._mark(found).write_text(f"{_place(found.source)}\n", "utf-8", "surrogateescape")

    def remove(self, found: Found) -> bool:
        """Remove the user's trust in a file. Returns whether there was any."""
        was_there = found in self
        self._mark(found).unlink(missing_ok=True)
        return was_there

    def _mark(self, found: Found) -> Path:
        parts = (_place(found.source), found.source.text, *sorted(found.models))
        said = "\0".join(parts).encode("utf-8", "surrogateescape")
        return self.folder / hashlib.sha256(said).hexdigest()


def _place(source: Source) -> str:
    return str((source.path or Path()).resolve())
