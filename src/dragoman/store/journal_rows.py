"""The rows of a journal, as they are inserted: by an append, and by the migration of what was stored before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["SPACE", "Statements", "insert_events", "insert_journal"]

# A row's key is its journal's number times this, plus the sequence number of its last event.
SPACE = 1 << 32

_Row = TypeVar("_Row")


class Statements(Protocol):
    """A transaction."""

    def rows(self, row: type[_Row], sql: str, *parameters: str | float | bytes | None) -> list[_Row]: ...

    def execute(self, sql: str, *parameters: str | float | bytes | None) -> int: ...


def insert_journal(
    database: Statements,
    id_: str,
    kind: str,
    model: str,
    workspace: str,
    connection: str,
    title: str,
    parent: str | None,
    at: float,
) -> int:
    """Make a journal without events. Returns its number."""
    database.execute(
        "INSERT INTO journals (id, kind, model, workspace, connection, title, parent, started_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        id_,
        kind,
        model,
        workspace,
        connection,
        title,
        parent,
        at,
    )
    [(number,)] = database.rows(tuple[int], "SELECT number FROM journals WHERE id = ?", id_)
    database.execute("INSERT INTO journal_heads (number, used_at) VALUES (?, ?)", number, at)
    return number


def insert_events(
    database: Statements, number: int, last: int, content: bytes, decisions: Iterable[int], at: float
) -> None:
    database.execute(
        "INSERT INTO journal_entries (key, content) VALUES (?, ?)", number * SPACE + last, content
    )
    for sequence in decisions:
        database.execute(
            "INSERT INTO journal_permissions (at, number, sequence) VALUES (?, ?, ?)", at, number, sequence
        )
