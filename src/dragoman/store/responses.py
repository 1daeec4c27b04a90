"""Stored responses, which clients refer to by their id, and the files in them.

Each row has what was new in its request, what was answered, and the response before it: a history is a chain of rows. They
belong to a connection, and other connections do not find them. Responses that were not used for long, and the oldest
beyond a size, are deleted.

An index finds the response or the conversation that has an item with a given id. It has hashes of the ids: a search may
find a response without that item. The server's own items have a second hash. A client may send another item under the id
of one of these, and that must not be found in its place.

A file is a row of its own. Its id contains that of its response, with which it is used and deleted, and a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b

import msgspec

from dragoman.store.database import Database

__all__ = ["ResponseStore", "StoredResponse", "file_ids"]

_log = logging.getLogger(__name__)

# Of all stored responses. A history with pictures has megabytes; thousands without have fewer.
_LIMIT_BYTES = 512 * 1024 * 1024
# The same where they are in memory: a few long histories.
_MEMORY_LIMIT_BYTES = 64 * 1024 * 1024
# Conversations with the same item that are searched for it: it may have been removed from some.
_MOST_CONVERSATIONS = 8


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    """A row. The front end defines the format of `content`."""

    id: str
    connection: str
    previous: str | None
    used_at: datetime
    content: bytes
    # The id of the agent's conversation that it belongs to.
    conversation: str | None = None


def file_ids(response: str) -> str:
    """The beginning of the ids of all files in a response."""
    return f"file_{response.rpartition('_')[2]}_"


_FIRST_FILE, _AFTER_FILES = "file_", "file`"
_COLUMNS = "id, connection, previous, used_at, content, conversation"


class ResponseStore:
    def __init__(self, database: Database, limit: int = _LIMIT_BYTES) -> None:
        self._database = database
        self._limit = limit

    @classmethod
    @contextmanager
    def in_memory(cls, limit: int = _MEMORY_LIMIT_BYTES) -> Iterator[ResponseStore]:
        """A store that ends with the block. No other process has its responses, and no file."""
        with Database.in_memory() as database:
            yield cls(database, limit)

    def save(self, response: StoredResponse, items: Iterable[str] = (), own: Iterable[str] = ()) -> None:
        """Store a response, and index the ids of its items. Deletes the least recently used ones if there is no room.

        `own`: the ids of those that the server made.
        """
        with self._database.writing() as database:
            database.execute(
                f"INSERT INTO responses ({_COLUMNS}, size) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own words
                response.id,
                response.connection,
                response.previous,
                response.used_at.isoformat(),
                response.content,
                response.conversation,
                len(response.content),
            )
            self._index(response.id, items, own)
            database.execute(
                "DELETE FROM responses WHERE id IN (SELECT id FROM (SELECT id, "
                "sum(size) OVER (ORDER BY used_at DESC, rowid DESC) AS up_to FROM responses) WHERE up_to > ?)",
                self._limit,
            )

    def update(self, id_: str, content: bytes, items: Iterable[str] = (), own: Iterable[str] = ()) -> None:
        """Replace the content of a response, and index its items, unless it was deleted meanwhile."""
        with self._database.writing() as database:
            if database.execute(
                "UPDATE responses SET content = ?, size = ? WHERE id = ?", content, len(content), id_
            ):
                self._index(id_, items, own)

    def index(self, conversation: str, items: Iterable[str]) -> None:
        """Index the ids of items that were added to a conversation."""
        with self._database.writing():
            self._index(conversation, items)

    def _index(self, owner: str, items: Iterable[str], own: Iterable[str] = ()) -> None:
        keys = b"".join((*map(_key, items), *map(_own_key, own)))
        if keys:
            self._database.execute(
                "INSERT INTO stored_items (owner, keys) VALUES (?, ?) "
                "ON CONFLICT (owner) DO UPDATE SET keys = CAST(keys || excluded.keys AS BLOB)",
                owner,
                keys,
            )

    def find_by_item(self, item: str, connection: str, *, is_own: bool = False) -> StoredResponse | None:
        """The newest response with this item. `is_own`: only one in which the server made it."""
        found = self._database.rows(
            tuple[str],
            # In this order of the tables: the rows are read from the end, and few of them.
            "SELECT r.id FROM stored_items s CROSS JOIN responses r ON r.id = s.owner "
            "WHERE instr(s.keys, ?) AND r.connection = ? ORDER BY s.number DESC LIMIT 1",
            _own_key(item) if is_own else _key(item),
            connection,
        )
        return self.find(found[0][0], connection) if found else None

    def conversations_with(self, item: str, connection: str) -> list[str]:
        """The ids of conversations that have had this item, the newest first."""
        found = self._database.rows(
            tuple[str],
            "SELECT j.id FROM stored_items s CROSS JOIN journals j ON j.id = s.owner AND j.kind = 'items' "
            "WHERE instr(s.keys, ?) AND j.connection = ? ORDER BY s.number DESC LIMIT ?",
            _key(item),
            connection,
            _MOST_CONVERSATIONS,
        )
        return [id_ for (id_,) in found]

    def assign(self, id_: str, conversation: str) -> None:
        """Note the agent's conversation that a response belongs to."""
        with self._database.writing() as database:
            database.execute("UPDATE responses SET conversation = ? WHERE id = ?", conversation, id_)

    def find(self, id_: str, connection: str) -> StoredResponse | None:
        found = self._database.rows(
            StoredResponse,
            f"SELECT {_COLUMNS} FROM responses WHERE id = ? AND connection = ?",  # noqa: S608 - our own words
            id_,
            connection,
        )
        return found[0] if found else None

    def file(self, id_: str) -> StoredResponse | None:
        """Find a file by its id, which only those know who were given it."""
        found = self._database.rows(
            StoredResponse,
            f"SELECT {_COLUMNS} FROM responses WHERE id = ? AND id > ? AND id < ?",  # noqa: S608 - our own words
            id_,
            _FIRST_FILE,
            _AFTER_FILES,
        )
        return found[0] if found else None

    def touch(self, ids: Iterable[str], now: datetime) -> None:
        """Mark the responses of a chain and their journals as used, so that the chain is deleted as a whole."""
        with self._database.writing() as database:
            for id_ in ids:
                database.execute(
                    "UPDATE responses SET used_at = ? WHERE id = ? OR id > ? AND id < ?",
                    now.isoformat(),
                    id_,
                    *_range_of_files(id_),
                )
                database.execute(
                    "UPDATE journal_heads SET used_at = max(used_at, ?) "
                    "WHERE number = (SELECT number FROM journals WHERE id = ?)",
                    now.timestamp(),
                    id_,
                )

    def delete(self, id_: str, connection: str) -> str | None:
        """Delete a response. Returns the id of its conversation if it was the last response of it: delete that, too."""
        found = self.find(id_, connection)
        if found is None:
            return None
        left: list[tuple[int, ...]] = []
        with self._database.writing() as database:
            database.execute(
                "DELETE FROM responses WHERE connection = ? AND (id = ? OR id > ? AND id < ?)",
                connection,
                id_,
                *_range_of_files(id_),
            )
            if found.conversation is not None:
                left = database.rows(
                    tuple[int],
                    "SELECT 1 FROM responses WHERE conversation = ? AND NOT (id > ? AND id < ?) LIMIT 1",
                    found.conversation,
                    _FIRST_FILE,
                    _AFTER_FILES,
                )
        if not self._database.purge():
            _log.warning(
                "what was deleted stays in %s-wal until other processes have read it", self._database.path
            )
        return None if left else found.conversation

    async def scrub(self) -> None:
        """Remove copies of what was deleted from the whole file."""
        await self._database.scrub()


def _key(item: str) -> bytes:
    return blake2b(item.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _own_key(item: str) -> bytes:
    # No id that a client can choose has this hash in the other form.
    return blake2b(item.encode("utf-8", "surrogatepass"), digest_size=8, person=b"own").digest()


def _range_of_files(response: str) -> tuple[str, str]:
    """The ids between which all files of a response are."""
    first = file_ids(response)
    return first, first[:-1] + chr(ord(first[-1]) + 1)
