"""What was learnt about agents, by their names and versions."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from dragoman.store.database import Database

__all__ = ["AgentStore"]


class _Facts(msgspec.Struct, frozen=True, array_like=True):
    facts: bytes


class AgentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, name: str, version: str) -> bytes | None:
        query = "SELECT facts FROM agents_learnt WHERE name = ? AND version = ?"
        found = self._database.rows(_Facts, query, name, version)
        return found[0].facts if found else None

    def write(self, name: str, version: str, facts: bytes) -> None:
        with self._database.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO agents_learnt (name, version, facts, seen_at) VALUES (?, ?, ?, ?)",
                name,
                version,
                facts,
                datetime.now(UTC).isoformat(),
            )
