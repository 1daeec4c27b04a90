"""Stored responses, and the histories that they form.

A client continues from a response by its id. Stored responses are in SQLite, and belong to the connection that created
them. A WebSocket also remembers its responses with `store: false`, for as long as it is open. A history is the chain of
all previous responses, the oldest first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from dragoman.frontends.http.errors import ApiError
from dragoman.lm import JsonObject
from dragoman.lm.json import encode
from dragoman.store import ResponseStore, StoredResponse, StoreError

__all__ = ["Histories", "HistoryEntry", "ResponseChain", "SocketHistory"]

_log = logging.getLogger(__name__)

# The limits of one chain. A longer one comes from a loop in a client program.
_MOST_RESPONSES = 10_000
_MOST_BYTES = 64 * 1024 * 1024
# Responses that one WebSocket remembers: a client continues from the last, or a few back.
_MOST_LOCAL = 16


class HistoryEntry(msgspec.Struct, frozen=True):
    """A response and the new items of its request."""

    items: list[JsonObject]
    response: JsonObject
    previous: str | None = None
    consumer_id: str | None = None

    @property
    def output(self) -> list[JsonObject]:
        output = self.response.get("output")
        return msgspec.convert(output, list[JsonObject])


@dataclass(frozen=True, slots=True)
class ResponseChain:
    """The items of a response and of all before it, with the ids of these responses."""

    items: list[JsonObject]
    ids: tuple[str, ...] = ()
    consumer_id: str | None = None


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

    def chain(self, id_: str | None, connection: str, local: SocketHistory | None = None) -> ResponseChain:
        """Return the history up to a response, with it. An unknown response is an error: a history has no gaps."""
        links: dict[str, HistoryEntry] = {}
        size = 0
        while id_ is not None:
            entry = local.get(id_) if local is not None else None
            if entry is None:
                entry, length = self._find(id_, connection)
                size += length
            if entry is None or id_ in links or len(links) >= _MOST_RESPONSES or size > _MOST_BYTES:
                raise _not_found(id_)
            links[id_] = entry
            id_ = entry.previous
        items = [item for entry in reversed(links.values()) for item in (*entry.items, *entry.output)]
        last = next(iter(links.values()), None)
        return ResponseChain(items, tuple(links), None if last is None else last.consumer_id)

    def find(self, id_: str, connection: str) -> HistoryEntry:
        entry, _ = self._find(id_, connection)
        if entry is None:
            raise ApiError(
                404,
                "not_found",
                f"There is no stored response {id_[:128]!r}.",
                code="response_not_found",
            )
        return entry

    def save(
        self,
        id_: str,
        entry: HistoryEntry,
        connection: str,
        used: tuple[str, ...],
        conversation: str | None = None,
    ) -> None:
        """Store a response. If that fails, log it: the client gets the response all the same."""
        if self._store is None:
            return
        now = datetime.now(UTC)
        try:
            self._store.save(
                StoredResponse(id_, connection, entry.previous, now, encode(entry), conversation)
            )
            if used:
                self._store.touch(used, now)
        except StoreError as error:
            _log.warning("response %s is not stored: %s", id_, error)

    def delete(self, id_: str, connection: str) -> None:
        self.find(id_, connection)
        if self._store is not None:
            self._store.delete(id_, connection)

    def _find(self, id_: str, connection: str) -> tuple[HistoryEntry | None, int]:
        if self._store is None:
            return None, 0
        try:
            stored = self._store.find(id_, connection)
            if stored is None:
                return None, 0
            return msgspec.json.decode(stored.content, type=HistoryEntry), len(stored.content)
        except (StoreError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            _log.warning("response %s cannot be read: %s", id_, error)
            return None, 0


def _not_found(id_: str) -> ApiError:
    return ApiError(
        400,
        "invalid_request",
        f"There is no response {id_[:128]!r} to go on from. Send the whole history instead.",
        code="previous_response_not_found",
        param="previous_response_id",
    )
