"""The store of responses, as its users see it: responses, which clients refer to by their id, and the files in them.

SQLite implements it (`sqlite_responses`), and NATS for a fleet (`fleet.responses`).

Each has what was new in its request, what was answered, and the response before it: a history is a chain of them. They
belong to a connection, and other connections do not find them. What was not used for long, and the oldest beyond a size,
is deleted.

An index finds the response or the conversation that has an item with a given id. A client may send another item under the
id of one of the server's own, and that must not be found in its place.

A file's id contains that of its response, with which it is used and deleted, and a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Protocol

import msgspec

__all__ = ["MOST_CONVERSATIONS", "ResponseStore", "StoredResponse", "file_ids", "item_key", "own_item_key"]

# Conversations with the same item that are searched for it: it may have been removed from some.
MOST_CONVERSATIONS = 8


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    """A stored response or file. The front end defines the format of `content`."""

    id: str
    connection: str
    previous: str | None
    used_at: datetime
    content: bytes
    # The id of the agent's conversation that it belongs to.
    conversation: str | None = None


class ResponseStore(Protocol):
    """All calls raise `JournalStoreError` when the store cannot be used."""

    async def save(
        self, response: StoredResponse, items: Iterable[str] = (), own: Iterable[str] = ()
    ) -> None:
        """Store a response or a file, and index the ids of its items. Deletes the oldest ones if there is no room.

        `own`: the ids of those that the server made.
        """
        ...

    async def update(
        self,
        id_: str,
        connection: str,
        change: Callable[[bytes], bytes | None],
        items: Iterable[str] = (),
        own: Iterable[str] = (),
    ) -> None:
        """Replace the content of a response by what `change` makes of it, and index its items.

        `change` returns None to leave it as it is. It may be called again, if another process was faster. Does nothing if
        the response was deleted meanwhile.
        """
        ...

    async def assign(self, id_: str, connection: str, conversation: str) -> None:
        """Note the agent's conversation that a response belongs to."""
        ...

    async def touch(self, ids: Iterable[str], connection: str, now: datetime) -> None:
        """Mark the responses of a chain, or files, as used, so that the chain is deleted as a whole."""
        ...

    async def find(self, id_: str, connection: str, *, is_latest: bool = False) -> StoredResponse | None:
        """`is_latest`: as it is now, and not as it was a moment ago. That may take longer."""
        ...

    async def file(self, id_: str) -> StoredResponse | None:
        """Find a file by its id, which only those know who were given it."""
        ...

    async def index(self, conversation: str, connection: str, items: Iterable[str]) -> None:
        """Index the ids of items that were added to a conversation."""
        ...

    async def find_by_item(
        self, item: str, connection: str, *, is_own: bool = False
    ) -> StoredResponse | None:
        """The newest response with this item. `is_own`: only one in which the server made it."""
        ...

    async def conversations_with(self, item: str, connection: str) -> list[str]:
        """The ids of conversations that have had this item, the newest first."""
        ...

    async def delete(self, id_: str, connection: str) -> str | None:
        """Delete a response. Returns the id of its conversation if it was the last response of it: delete that, too."""
        ...

    async def scrub(self) -> None:
        """Remove copies of what was deleted."""
        ...


def file_ids(response: str) -> str:
    """The beginning of the ids of all files in a response."""
    return f"file_{response.rpartition('_')[2]}_"


def item_key(item: str) -> bytes:
    return blake2b(item.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def own_item_key(item: str) -> bytes:
    # No id that a client can choose has this hash in the other form.
    return blake2b(item.encode("utf-8", "surrogatepass"), digest_size=8, person=b"own").digest()
