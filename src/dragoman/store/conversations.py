"""Conversations that outlive the process, and the key that authenticates what we hand out about them.

What a conversation consists of is its back end's affair: a row holds it as bytes, beside what everybody may want to know
of it. Other processes use the same file: a conversation has an *owner*, the process in which it is under way.
"""

from __future__ import annotations

import secrets
from datetime import datetime

import msgspec

from dragoman.store.database import Database

__all__ = ["ConversationStore", "StoredConversation"]

_KEY_BYTES = 32


class StoredConversation(msgspec.Struct, frozen=True, array_like=True):
    """A row. `owner` names a process, as whoever owns conversations sees fit; empty when nobody has it."""

    id: str
    model: str
    # The first words of it, for a list.
    title: str
    workspace: str
    owner: str
    used_at: datetime
    content: bytes


class _Key(msgspec.Struct, frozen=True, array_like=True):
    key: bytes


_COLUMNS = "id, model, title, workspace, owner, used_at, content"


class ConversationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def key(self) -> bytes:
        """The key of this state folder. Made once, by whoever asks first; it never leaves the machine."""
        with self._database.writing() as database:
            database.execute(
                "INSERT OR IGNORE INTO keys (name, key) VALUES ('tokens', ?)", secrets.token_bytes(_KEY_BYTES)
            )
            [found] = database.rows(_Key, "SELECT key FROM keys WHERE name = 'tokens'")
        return found.key

    def save(self, conversation: StoredConversation) -> None:
        with self._database.writing() as database:
            database.execute(
                f"INSERT INTO conversations ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - our own words
                "ON CONFLICT (id) DO UPDATE SET title = excluded.title, owner = excluded.owner, "
                "used_at = excluded.used_at, content = excluded.content",
                conversation.id,
                conversation.model,
                conversation.title,
                conversation.workspace,
                conversation.owner,
                conversation.used_at.isoformat(),
                conversation.content,
            )

    def claim(self, id_: str, owner: str, instead_of: str) -> bool:
        """Become the owner of a conversation, if it still belongs to whom one thinks it does."""
        with self._database.writing() as database:
            changed = database.execute(
                "UPDATE conversations SET owner = ? WHERE id = ? AND owner = ?", owner, id_, instead_of
            )
        return changed == 1

    def find(self, id_: str) -> StoredConversation | None:
        found = self._database.rows(
            StoredConversation,
            f"SELECT {_COLUMNS} FROM conversations WHERE id = ?",  # noqa: S608 - our own words
            id_,
        )
        return found[0] if found else None

    def of_model(self, model: str) -> list[StoredConversation]:
        return self._database.rows(
            StoredConversation,
            f"SELECT {_COLUMNS} FROM conversations WHERE model = ? ORDER BY used_at",  # noqa: S608 - our own words
            model,
        )

    def all(self) -> list[StoredConversation]:
        """The latest first."""
        return self._database.rows(
            StoredConversation,
            f"SELECT {_COLUMNS} FROM conversations ORDER BY used_at DESC, id",  # noqa: S608 - our own words
        )

    def delete(self, id_: str) -> bool:
        with self._database.writing() as database:
            return database.execute("DELETE FROM conversations WHERE id = ?", id_) == 1

    def forget_before(self, moment: datetime) -> int:
        """Delete what nobody has used since, and nobody has. Returns how many."""
        with self._database.writing() as database:
            return database.execute(
                "DELETE FROM conversations WHERE owner = '' AND used_at < ?", moment.isoformat()
            )
