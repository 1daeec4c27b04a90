"""Sessions on disk: a file each, so that another process can take one up."""

from __future__ import annotations

import logging
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.lm import Message
from dragoman.lm.json import encode

__all__ = ["MAX_SESSIONS", "SessionStore", "StoredSession", "new_id"]

_log = logging.getLogger(__name__)

# Of a demo. The ones that were not used for the longest time go first.
MAX_SESSIONS = 200
# An id from outside becomes the name of a file.
_ID = re.compile(r"demo-[0-9a-f]{16}")


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    mode: str
    pace: str
    messages: tuple[Message, ...] = ()


def new_id() -> str:
    return f"demo-{secrets.token_hex(8)}"


class SessionStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, saved: StoredSession) -> None:
        """Store a session. A failure, such as a full disk, is logged, and the session goes on in memory."""
        path = self._path(saved.id)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                self._make_room()
            unfinished = path.with_suffix(".tmp")
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(encode(saved))
            # In one step, so that no process ever reads half of it.
            unfinished.replace(path)
        except OSError as error:
            _log.warning("session %s cannot be stored: %s", saved.id, error)

    def load(self, session: str) -> StoredSession | None:
        """The stored session; None if there is none that can be read."""
        if not _ID.fullmatch(session):
            return None
        try:
            return msgspec.json.decode(self._path(session).read_bytes(), type=StoredSession)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("session %s cannot be read: %s", session, error)
            return None

    def _path(self, session: str) -> Path:
        return self._folder / f"{session}.json"

    def _make_room(self) -> None:
        files = sorted(self._folder.glob("demo-*.json"), key=lambda file: file.stat().st_mtime)
        for file in files[: len(files) - MAX_SESSIONS + 1] if len(files) >= MAX_SESSIONS else ():
            with suppress(FileNotFoundError):
                file.unlink()
