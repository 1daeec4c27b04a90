"""Facts learnt about agents, by their names and versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from dragoman.store.database import Database

__all__ = ["AgentStore"]

# A fact may have been chance, or is fixed by now: after this time it is deleted, and learnt anew.
_MAX_AGE = timedelta(days=30)
# Far more than a user has.
_MAX_AGENTS = 1_000


class _Facts(msgspec.Struct, frozen=True, array_like=True):
    facts: bytes


class AgentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, name: str, version: str) -> bytes | None:
        """The stored facts, unless they are old: a newer version of the agent may have the same name."""
        query = "SELECT facts FROM agents_learnt WHERE name = ? AND version = ? AND seen_at > ?"
        found = self._database.rows(_Facts, query, name, version, (datetime.now(UTC) - _MAX_AGE).isoformat())
        return found[0].facts if found else None

    def update(self, name: str, version: str, change: Callable[[bytes | None], bytes]) -> None:
        with self._database.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO agents_learnt (name, version, facts, seen_at) VALUES (?, ?, ?, ?)",
                name,
                version,
                change(self.read(name, version)),
                datetime.now(UTC).isoformat(),
            )
            database.execute(
                "DELETE FROM agents_learnt WHERE rowid NOT IN "
                "(SELECT rowid FROM agents_learnt ORDER BY seen_at DESC LIMIT ?)",
                _MAX_AGENTS,
            )
