"""Stored responses, and the histories that they form.

A client continues from a response by its id. Stored responses are in a store, and belong to the connection that created
them. Where `content` in [journal] is not "full", they are in memory only. A WebSocket also remembers its responses with
`store: false`, for as long as it is open. A history is the chain of all previous responses, the oldest first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from dragoman.frontends.http.errors import ApiError, storage_unavailable
from dragoman.frontends.http.file_links import is_file_id
from dragoman.journal.content import JournalContent
from dragoman.lm import JsonObject
from dragoman.lm.json import encode
from dragoman.store import Database, ResponseStore, SqliteResponses, StoredResponse
from dragoman.store.errors import DamagedEntry, JournalStoreError

__all__ = ["Histories", "HistoryEntry", "ResponseChain", "SocketHistory", "response_store"]

_log = logging.getLogger(__name__)

# The limits of one chain. A longer one comes from a loop in a client program.
_MOST_RESPONSES = 10_000
_MOST_BYTES = 64 * 1024 * 1024
# Responses that one WebSocket remembers: a client continues from the last, or a few back.
_MOST_LOCAL = 16


@contextmanager
def response_store(
    database: Database | None, content: JournalContent, shared: ResponseStore | None = None
) -> Iterator[ResponseStore | None]:
    """Open the store of responses. It is in memory if `content` forbids to store what is said. None: there is none.

    `shared`: that of the fleet, if this server is one of its gateways.
    """
    if content != "full":
        with SqliteResponses.in_memory() as store:
            yield store
    elif shared is not None:
        yield shared
    else:
        yield None if database is None else SqliteResponses(database)


class HistoryEntry(msgspec.Struct, frozen=True):
    """A response and the new items of its request."""

    items: list[JsonObject]
    response: JsonObject
    previous: str | None = None
    consumer_id: str | None = None
    # The conversation of this server that it is in.
    conversation: str | None = None
    # The places of items that the server put in for references: copies of what it had said.
    copies: tuple[int, ...] = ()

    def ended(self, response: JsonObject) -> HistoryEntry:
        return msgspec.structs.replace(self, response=response)

    @property
    def is_background(self) -> bool:
        return self.response.get("background") is True

    @property
    def is_under_way(self) -> bool:
        """Whether it was, when this was stored."""
        return self.response.get("status") == "in_progress"

    @property
    def can_be_continued(self) -> bool:
        return self.response.get("status") in ("completed", "incomplete")

    @property
    def output(self) -> list[JsonObject]:
        output = self.response.get("output")
        return msgspec.convert(output, list[JsonObject])

    @property
    def own_items(self) -> list[JsonObject]:
        """What the server said here, or had said before. A client may send other items under the same ids."""
        return [*(self.items[place] for place in self.copies), *self.output]

    @property
    def item_ids(self) -> list[str]:
        """The ids by which a client may refer to its items."""
        return _ids((*self.items, *self.output))

    @property
    def own_ids(self) -> list[str]:
        return _ids(self.own_items)


@dataclass(frozen=True, slots=True)
class ResponseChain:
    """The items of a response and of all before it, with the ids of these responses."""

    items: list[JsonObject]
    ids: tuple[str, ...] = ()
    consumer_id: str | None = None
    # The conversation of this server that the last response is in.
    conversation: str | None = None
    # Of the items: what the server said.
    own_items: tuple[JsonObject, ...] = ()


class SocketHistory(OrderedDict[str, HistoryEntry]):
    """The responses that one WebSocket remembers. The oldest are discarded first."""

    def add(self, id_: str, entry: HistoryEntry) -> None:
        self[id_] = entry
        while len(self) > _MOST_LOCAL:
            self.popitem(last=False)


class Histories:
    """Finds, saves and deletes stored responses."""

    def __init__(self, store: ResponseStore | None) -> None:
        self._store = store

    @property
    def stores(self) -> bool:
        return self._store is not None

    async def chain(
        self, id_: str | None, connection: str, local: SocketHistory | None = None
    ) -> ResponseChain:
        """Return the history up to a response, with it. An unknown response is an error: a history has no gaps."""
        links: dict[str, HistoryEntry] = {}
        size = 0
        while id_ is not None:
            entry = local.get(id_) if local is not None else None
            if entry is None:
                entry, length = await self.read(id_, connection)
                if entry is not None and entry.is_under_way:
                    # It may have ended a moment ago, at another gateway.
                    entry, length = await self.read(id_, connection, is_latest=True)
                size += length
            if entry is not None and not entry.can_be_continued:
                raise _not_completed(id_, entry)
            if entry is None or id_ in links or len(links) >= _MOST_RESPONSES or size > _MOST_BYTES:
                raise _not_found(id_)
            links[id_] = entry
            id_ = entry.previous
        items = [item for entry in reversed(links.values()) for item in (*entry.items, *entry.output)]
        last = next(iter(links.values()), None)
        if last is None:
            return ResponseChain(items)
        own = tuple(item for entry in reversed(links.values()) for item in entry.own_items)
        return ResponseChain(items, tuple(links), last.consumer_id, last.conversation, own)

    async def find(self, id_: str, connection: str) -> HistoryEntry:
        entry, _ = await self.read(id_, connection)
        if entry is None:
            raise ApiError(
                404,
                "not_found",
                f"There is no stored response {id_[:128]!r}.",
                code="response_not_found",
            )
        return entry

    async def save(
        self,
        id_: str,
        entry: HistoryEntry,
        connection: str,
        used: tuple[str, ...],
        conversation: str | None = None,
    ) -> bool:
        """Store a response. If that fails, log it and return false: the client gets the response all the same."""
        if self._store is None:
            return False
        now = datetime.now(UTC)
        try:
            await self._store.save(
                StoredResponse(id_, connection, entry.previous, now, encode(entry), conversation),
                entry.item_ids,
                entry.own_ids,
            )
            if used:
                await self._store.touch(used, connection, now)
        except JournalStoreError as error:
            _log.warning("response %s is not stored: %s", id_, error)
            return False
        return True

    async def update(self, id_: str, connection: str, entry: HistoryEntry) -> None:
        """Store how a response has ended. If it has already, that stays: it ends once."""

        def change(stored: bytes) -> bytes | None:
            is_under_way = msgspec.json.decode(stored, type=HistoryEntry).is_under_way
            return encode(entry) if is_under_way else None

        await self._write(
            id_, lambda store: store.update(id_, connection, change, entry.item_ids, entry.own_ids)
        )

    async def index(self, conversation: str, connection: str, items: Iterable[str]) -> None:
        """Note the ids of items that were added to a conversation of this server."""
        await self._write(conversation, lambda store: store.index(conversation, connection, items))

    async def assign(self, id_: str, connection: str, conversation: str) -> None:
        """Note the agent's conversation of a response: it is deleted with the last of its responses."""
        await self._write(id_, lambda store: store.assign(id_, connection, conversation))

    async def _write(self, id_: str, work: Callable[[ResponseStore], Awaitable[None]]) -> None:
        if self._store is not None:
            try:
                await work(self._store)
            except (JournalStoreError, msgspec.MsgspecError, UnicodeError) as error:
                _log.warning("%s is not stored: %s", id_, error)

    async def delete(self, id_: str, connection: str) -> str | None:
        """Delete a response. Return the id of its agent's conversation, if it was the last response of it."""
        await self.find(id_, connection)
        return None if self._store is None else await self._store.delete(id_, connection)

    async def scrub(self) -> None:
        """Remove copies of what was deleted from the file."""
        if self._store is not None:
            await self._store.scrub()

    async def read(
        self, id_: str, connection: str, *, is_latest: bool = False
    ) -> tuple[HistoryEntry | None, int]:
        """Return a stored response and its size in bytes. None: there is none, or it is damaged.

        Raises `ApiError` if the store cannot be used now: the response may be there.
        """
        if is_file_id(id_):
            return None, 0
        return await self._read(lambda store: store.find(id_, connection, is_latest=is_latest))

    async def read_with_item(
        self, item: str, connection: str, *, is_own: bool
    ) -> tuple[HistoryEntry | None, int]:
        """The same for the newest response that has this item. `is_own`: as one that the server made."""
        return await self._read(lambda store: store.find_by_item(item, connection, is_own=is_own))

    async def conversations_with(self, item: str, connection: str) -> list[str]:
        """Return the conversations of this server that have had this item."""
        try:
            return [] if self._store is None else await self._store.conversations_with(item, connection)
        except JournalStoreError as error:
            _log.warning("stored items cannot be read now: %s", error)
            raise storage_unavailable() from error

    async def _read(
        self, find: Callable[[ResponseStore], Awaitable[StoredResponse | None]]
    ) -> tuple[HistoryEntry | None, int]:
        try:
            stored = None if self._store is None else await find(self._store)
            if stored is None:
                return None, 0
            return msgspec.json.decode(stored.content, type=HistoryEntry), len(stored.content)
        except (DamagedEntry, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            _log.warning("a stored response cannot be read: %s", error)
            return None, 0
        except JournalStoreError as error:
            _log.warning("a stored response cannot be read now: %s", error)
            raise storage_unavailable() from error


def _ids(items: Iterable[JsonObject]) -> list[str]:
    return [id_ for item in items if isinstance(id_ := item.get("id"), str)]


def _not_completed(id_: str, entry: HistoryEntry) -> ApiError:
    status = entry.response.get("status")
    hint = (
        f"Wait until `GET /v1/responses/{id_[:128]}` says `completed`, then continue it."
        if status in ("queued", "in_progress")
        else "Send its request again, continue an earlier response, or send the history as `input`."
    )
    return ApiError(
        400,
        "invalid_request",
        f"The response {id_[:128]!r} is {status}. Only one that has completed can be continued. {hint}",
        code="previous_response_not_completed",
        param="previous_response_id",
    )


def _not_found(id_: str) -> ApiError:
    return ApiError(
        400,
        "invalid_request",
        f"There is no response {id_[:128]!r} to go on from. Send the whole history instead.",
        code="previous_response_not_found",
        param="previous_response_id",
    )
