"""Conversations that outlive the process, and the key that authenticates what we hand out about them.

The back end defines the format of a conversation: a row stores it as bytes, beside a few columns for lists and queries. Other processes use the same file: while a conversation is under way, it has an *owner*, which has it on a *lease*
and renews that as long as it lives. Only the owner writes. Each change has a *revision*, higher than all before it.
"""

from __future__ import annotations

import logging
import secrets
from datetime import datetime, timedelta

import msgspec

from dragoman.store.database import Database

__all__ = ["ConversationStore", "Holding", "StoredConversation"]

_log = logging.getLogger(__name__)

_KEY_BYTES = 32


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """The lease of a conversation: its owner, its end, and the revision."""

    owner: str
    # In seconds of the machine's monotonic clock, which all processes share.
    leased_until: float
    revision: int


class StoredConversation(msgspec.Struct, frozen=True, array_like=True):
    """A row. `owner` identifies the process that holds the conversation, in a form of its choice; empty if none does."""

    id: str
    model: str
    # The first words of it, for a list.
    title: str
    workspace: str
    owner: str
    used_at: datetime
    content: bytes
    leased_until: float = 0.0
    revision: int = 0


class _Key(msgspec.Struct, frozen=True, array_like=True):
    key: bytes


_COLUMNS = "id, model, title, workspace, owner, used_at, content, leased_until, revision"
_NEXT = "(SELECT count FROM conversation_revisions)"


class ConversationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def key(self) -> bytes:
        """The key of this state folder. The first caller creates it; it never leaves the machine."""
        with self._database.writing() as database:
            database.execute(
                "INSERT OR IGNORE INTO keys (name, key) VALUES ('tokens', ?)", secrets.token_bytes(_KEY_BYTES)
            )
            [found] = database.rows(_Key, "SELECT key FROM keys WHERE name = 'tokens'")
        return found.key

    def save(
        self, conversation: StoredConversation, holder: str = "", revision: int | None = None
    ) -> int | None:
        """Write a conversation that `holder` holds, or that is free and unchanged since `revision`.

        Returns the new revision; None, with nothing written, if another process holds or has changed it.
        """
        with self._database.writing() as database:
            _count(database)
            changed = database.execute(
                f"INSERT INTO conversations ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, {_NEXT}) "  # noqa: S608 - our own words
                "ON CONFLICT (id) DO UPDATE SET title = excluded.title, owner = excluded.owner, "
                "used_at = excluded.used_at, content = excluded.content, "
                "leased_until = excluded.leased_until, revision = excluded.revision "
                "WHERE conversations.owner = ? OR (conversations.owner = '' AND conversations.revision = ?)",
                conversation.id,
                conversation.model,
                conversation.title,
                conversation.workspace,
                conversation.owner,
                conversation.used_at.isoformat(),
                conversation.content,
                conversation.leased_until,
                holder,
                revision,
            )
            held = self.holding(conversation.id)
        return held.revision if changed and held is not None else None

    def holding(self, id_: str) -> Holding | None:
        found = self._database.rows(
            Holding, "SELECT owner, leased_until, revision FROM conversations WHERE id = ?", id_
        )
        return found[0] if found else None

    def claim(self, id_: str, owner: str, until: float, instead_of: Holding) -> int | None:
        """Become the owner, if the lease has not changed since the caller read it. Returns the revision; None if it has."""
        with self._database.writing() as database:
            _count(database)
            changed = database.execute(
                f"UPDATE conversations SET owner = ?, leased_until = ?, revision = {_NEXT} "  # noqa: S608 - our own words
                "WHERE id = ? AND owner = ? AND revision = ?",
                owner,
                until,
                id_,
                instead_of.owner,
                instead_of.revision,
            )
            held = self.holding(id_)
        return held.revision if changed and held is not None else None

    def renew(self, owner: str, until: float) -> None:
        """Extend all leases of this owner."""
        with self._database.writing() as database:
            database.execute("UPDATE conversations SET leased_until = ? WHERE owner = ?", until, owner)

    def version_seen(self) -> int:
        """A number that changes when other processes have written."""
        return self._database.version_seen()

    def changed_since(self, revision: int, model: str) -> list[tuple[str, int]]:
        """The conversations of a model that have changed, with their revisions. The oldest change first."""
        return self._database.rows(
            tuple[str, int],
            "SELECT id, revision FROM conversations WHERE revision > ? AND model = ? ORDER BY revision",
            revision,
            model,
        )

    def owners(self) -> list[str]:
        """The owners of all conversations."""
        found = self._database.rows(tuple[str], "SELECT DISTINCT owner FROM conversations WHERE owner != ''")
        return [owner for (owner,) in found]

    def release(self, owner: str, model: str | None = None) -> None:
        """End the leases of this owner, for one model or for all."""
        with self._database.writing() as database:
            database.execute(
                "UPDATE conversations SET owner = '', leased_until = 0 WHERE owner = ? AND model = ifnull(?, model)",
                owner,
                model,
            )

    def find(self, id_: str) -> StoredConversation | None:
        found = self._database.rows(
            StoredConversation,
            f"SELECT {_COLUMNS} FROM conversations WHERE id = ?",  # noqa: S608 - our own words
            id_,
        )
        return found[0] if found else None

    def all(self) -> list[StoredConversation]:
        """All conversations, the latest first."""
        return self._database.rows(
            StoredConversation,
            f"SELECT {_COLUMNS} FROM conversations ORDER BY used_at DESC, id",  # noqa: S608 - our own words
        )

    def delete(self, id_: str) -> bool:
        """Delete a conversation and the stored responses of it: nothing of it is left in the file."""
        with self._database.writing() as database:
            database.execute("DELETE FROM responses WHERE conversation = ?", id_)
            deleted = database.execute("DELETE FROM conversations WHERE id = ?", id_) == 1
        if not self._database.purge():
            _log.warning(
                "what was deleted stays in %s-wal until other processes have read it", self._database.path
            )
        return deleted

    def forget_unused(self, now: datetime, keep: timedelta) -> int:
        """Delete what was not used for so long and is not held now. Returns how many.

        What was used in the future, by a clock that was wrong, counts as used now: it must not stay for ever.
        """
        with self._database.writing() as database:
            database.execute(
                "UPDATE conversations SET used_at = ? WHERE used_at > ?", now.isoformat(), now.isoformat()
            )
            return database.execute(
                "DELETE FROM conversations WHERE owner = '' AND used_at < ?", (now - keep).isoformat()
            )


def _count(database: Database) -> None:
    """The revision of what is written next."""
    database.execute("UPDATE conversation_revisions SET count = count + 1")
