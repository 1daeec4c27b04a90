"""Approvals that outlive the process: for one workspace, or for everywhere."""

from __future__ import annotations

from datetime import datetime

import msgspec

from dragoman.store.database import Database

__all__ = ["ApprovalStore", "StoredApproval"]


class StoredApproval(msgspec.Struct, frozen=True, array_like=True):
    """A row. `workspace` is the absolute path of a folder, or None for everywhere."""

    id: int
    tool: str
    key: str
    workspace: str | None
    granted_at: datetime


_COLUMNS = "id, tool, key, workspace, granted_at"
_SUBJECT = "tool = ? AND key = ? AND workspace IS ?"


class ApprovalStore:
    """Approvals on disk, without a cache: a change by another process counts from the next question on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tool: str, key: str, workspace: str | None) -> StoredApproval | None:
        """The approval for exactly this key, in this workspace or everywhere."""
        found = self._database.rows(
            StoredApproval,
            f"SELECT {_COLUMNS} FROM approvals WHERE tool = ? AND key = ?"  # noqa: S608 - our own words
            " AND (workspace IS NULL OR workspace = ?) ORDER BY workspace IS NULL LIMIT 1",
            tool,
            key,
            workspace,
        )
        return found[0] if found else None

    def add(self, tool: str, key: str, workspace: str | None, granted_at: datetime) -> StoredApproval:
        """Store an approval. One that is there already stays as it was."""
        with self._database.writing() as database:
            database.execute(
                "INSERT OR IGNORE INTO approvals (tool, key, workspace, granted_at) VALUES (?, ?, ?, ?)",
                tool,
                key,
                workspace,
                granted_at.isoformat(),
            )
            [stored] = database.rows(
                StoredApproval,
                f"SELECT {_COLUMNS} FROM approvals WHERE {_SUBJECT}",  # noqa: S608 - our own words
                tool,
                key,
                workspace,
            )
            return stored

    def list(self) -> tuple[StoredApproval, ...]:
        """All approvals, oldest first."""
        return tuple(
            self._database.rows(StoredApproval, f"SELECT {_COLUMNS} FROM approvals ORDER BY id")  # noqa: S608 - our own words
        )

    def remove(self, number: int) -> bool:
        with self._database.writing() as database:
            return database.execute("DELETE FROM approvals WHERE id = ?", number) > 0

    def clear(self) -> None:
        """Remove all approvals, and notify every process that holds some in memory."""
        with self._database.writing() as database:
            database.execute("DELETE FROM approvals")
            database.execute("UPDATE approval_resets SET count = count + 1")

    def resets(self) -> int:
        """How often `clear` was called."""
        [(count,)] = self._database.rows(tuple[int], "SELECT max(count) FROM approval_resets")
        return count
