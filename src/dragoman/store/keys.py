"""The key that authenticates markers and call ids, for all processes that use the state folder."""

from __future__ import annotations

import secrets

import msgspec

from dragoman.store.database import Database

__all__ = ["signing_key"]

_KEY_BYTES = 32


class _Key(msgspec.Struct, frozen=True, array_like=True):
    key: bytes


def signing_key(database: Database) -> bytes:
    """The key of this state folder. The first caller creates it; it never leaves the machine."""
    with database.writing():
        database.execute(
            "INSERT OR IGNORE INTO keys (name, key) VALUES ('tokens', ?)", secrets.token_bytes(_KEY_BYTES)
        )
        [found] = database.rows(_Key, "SELECT key FROM keys WHERE name = 'tokens'")
    return found.key
