"""The earlier prompts, for the arrow keys: a private file in the state folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from dragoman.store import private_folder

__all__ = ["prompt_history"]

_HISTORY_FILE = "prompts"
_PRIVATE_FILE = 0o600
# Some thousands of prompts: more than a user scrolls back to.
_HISTORY_BYTES = 1024 * 1024


def prompt_history(state_dir: Path | None, is_recalled: Callable[[str], bool]) -> History:
    """The history in the state folder, without the prompts that `is_recalled` leaves out."""
    if state_dir is None:
        return _InMemory(is_recalled)
    path = state_dir / _HISTORY_FILE
    try:
        private_folder(state_dir)
        _shorten(path)
        # Prompts are private: the file is created before the library would create it readable for all users.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE_FILE))
        path.chmod(_PRIVATE_FILE)
    except OSError:
        # A folder that cannot be written costs the history, not the chat.
        return _InMemory(is_recalled)
    return _InFile(path, is_recalled)


class _InMemory(InMemoryHistory):
    def __init__(self, is_recalled: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_recalled = is_recalled

    def append_string(self, string: str) -> None:
        if self._is_recalled(string):
            super().append_string(string)


class _InFile(FileHistory):
    def __init__(self, path: Path, is_recalled: Callable[[str], bool]) -> None:
        super().__init__(str(path))
        self._is_recalled = is_recalled

    def load_history_strings(self) -> Iterable[str]:
        # Earlier versions stored all of them.
        return filter(self._is_recalled, super().load_history_strings())

    def append_string(self, string: str) -> None:
        if self._is_recalled(string):
            super().append_string(string)


def _shorten(path: Path) -> None:
    """Delete the older half of a history that has grown too long."""
    if not path.exists() or path.stat().st_size <= _HISTORY_BYTES:
        return
    newest = path.read_bytes()[-_HISTORY_BYTES // 2 :]
    # Entries begin with an empty line and a comment.
    path.write_bytes(newest[max(0, newest.find(b"\n\n# ")) :])
