"""Stored responses in SQLite. Responses that were not used for long, and the oldest beyond a size, are deleted.

The index of items has hashes of their ids: a search may find a response without that item. The server's own items have a
second hash. A file is a row of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from dragoman.store.database import Database
from dragoman.store.responses import MOST_CONVERSATIONS, StoredResponse, file_ids, item_key, own_item_key

__all__ = ["SqliteResponses"]

_log = logging.getLogger(__name__)

# Of all stored responses. A history with pictures has megabytes; thousands without have fewer.
_LIMIT_BYTES = 512 * 1024 * 1024
# The same where they are in memory: a few long histories.
_MEMORY_LIMIT_BYTES = 64 * 1024 * 1024

_FIRST_FILE, _AFTER_FILES = "file_", "file`"
_COLUMNS = "id, connection, previous, used_at, content, conversation"


class SqliteResponses:
    def __init__(self, database: Database, limit: int = _LIMIT_BYTES) -> None:
        self._database = database
        self._limit = limit

    @classmethod
    @contextmanager
    def in_memory(cls, limit: int = _MEMORY_LIMIT_BYTES) -> Iterator[SqliteResponses]:
        """A store that ends with the block. No other process has its responses, and no file."""
        with Database.in_memory() as database:
            yield cls(database, limit)

    async def save(
        self, response: StoredResponse, items: Iterable[str] = (), own: Iterable[str] = ()
    ) -> None:
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

    async def update(
        self,
        id_: str,
        connection: str,
        change: Callable[[bytes], bytes | None],
        items: Iterable[str] = (),
        own: Iterable[str] = (),
    ) -> None:
        with self._database.writing() as database:
            found = self._find(id_, connection)
            content = None if found is None else change(found.content)
            if content is not None:
                database.execute(
                    "UPDATE responses SET content = ?, size = ? WHERE id = ?", content, len(content), id_
                )
                self._index(id_, items, own)

    async def index(self, conversation: str, connection: str, items: Iterable[str]) -> None:  # noqa: ARG002 - its journal has the connection
        with self._database.writing():
            self._index(conversation, items)

    def _index(self, owner: str, items: Iterable[str], own: Iterable[str] = ()) -> None:
        keys = b"".join((*map(item_key, items), *map(own_item_key, own)))
        if keys:
            self._database.execute(
                "INSERT INTO stored_items (owner, keys) VALUES (?, ?) "
                "ON CONFLICT (owner) DO UPDATE SET keys = CAST(keys || excluded.keys AS BLOB)",
                owner,
                keys,
            )

    async def find_by_item(
        self, item: str, connection: str, *, is_own: bool = False
    ) -> StoredResponse | None:
        found = self._database.rows(
            tuple[str],
            # In this order of the tables: the rows are read from the end, and few of them.
            "SELECT r.id FROM stored_items s CROSS JOIN responses r ON r.id = s.owner "
            "WHERE instr(s.keys, ?) AND r.connection = ? ORDER BY s.number DESC LIMIT 1",
            own_item_key(item) if is_own else item_key(item),
            connection,
        )
        return self._find(found[0][0], connection) if found else None

    async def conversations_with(self, item: str, connection: str) -> list[str]:
        found = self._database.rows(
            tuple[str],
            "SELECT j.id FROM stored_items s CROSS JOIN journals j ON j.id = s.owner AND j.kind = 'items' "
            "WHERE instr(s.keys, ?) AND j.connection = ? ORDER BY s.number DESC LIMIT ?",
            item_key(item),
            connection,
            MOST_CONVERSATIONS,
        )
        return [id_ for (id_,) in found]

    async def assign(self, id_: str, connection: str, conversation: str) -> None:
        with self._database.writing() as database:
            database.execute(
                "UPDATE responses SET conversation = ? WHERE id = ? AND connection = ?",
                conversation,
                id_,
                connection,
            )

    async def find(self, id_: str, connection: str, *, is_latest: bool = False) -> StoredResponse | None:  # noqa: ARG002 - it always is
        return self._find(id_, connection)

    def _find(self, id_: str, connection: str) -> StoredResponse | None:
        found = self._database.rows(
            StoredResponse,
            f"SELECT {_COLUMNS} FROM responses WHERE id = ? AND connection = ?",  # noqa: S608 - our own words
            id_,
            connection,
        )
        return found[0] if found else None

    async def file(self, id_: str) -> StoredResponse | None:
        found = self._database.rows(
            StoredResponse,
            f"SELECT {_COLUMNS} FROM responses WHERE id = ? AND id > ? AND id < ?",  # noqa: S608 - our own words
            id_,
            _FIRST_FILE,
            _AFTER_FILES,
        )
        return found[0] if found else None

    async def touch(self, ids: Iterable[str], connection: str, now: datetime) -> None:
        """Their journals are used as well."""
        with self._database.writing() as database:
            for id_ in ids:
                database.execute(
                    "UPDATE responses SET used_at = ? WHERE connection = ? AND (id = ? OR id > ? AND id < ?)",
                    now.isoformat(),
                    connection,
                    id_,
                    *_range_of_files(id_),
                )
                database.execute(
                    "UPDATE journal_heads SET used_at = max(used_at, ?) "
                    "WHERE number = (SELECT number FROM journals WHERE id = ?)",
                    now.timestamp(),
                    id_,
                )

    async def delete(self, id_: str, connection: str) -> str | None:
        found = self._find(id_, connection)
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
        await self._database.scrub()


def _range_of_files(response: str) -> tuple[str, str]:
    """The ids between which all files of a response are."""
    first = file_ids(response)
    return first, first[:-1] + chr(ord(first[-1]) + 1)
