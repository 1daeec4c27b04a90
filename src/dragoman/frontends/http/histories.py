"""What came before: responses that a client goes on from by their id.

Those that are stored are in SQLite, for whoever made them. A WebSocket also has those of its own that were not to be
stored, for as long as it is open. A history is the chain of all of them, the oldest first.
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

# Of one chain. Longer ones are not histories but loops of somebody's program.
_MOST_RESPONSES = 10_000
_MOST_BYTES = 64 * 1024 * 1024
# Of one WebSocket: a client goes on from the last, or a few back.
_MOST_LOCAL = 16


class HistoryEntry(msgspec.Struct, frozen=True):
    """A response and what was new in its request."""

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
    items: list[JsonObject]
    ids: tuple[str, ...] = ()
    consumer_id: str | None = None


class SocketHistory(OrderedDict[str, HistoryEntry]):
    """What one WebSocket remembers. The oldest are forgotten first."""

    def keep(self, id_: str, kept: HistoryEntry) -> None:
        self[id_] = kept
        while len(self) > _MOST_LOCAL:
            self.popitem(last=False)


class Histories:
    def __init__(self, store: ResponseStore | None) -> None:
        self._store = store

    @property
    def stores(self) -> bool:
        return self._store is not None

    def chain(self, id_: str | None, connection: str, local: SocketHistory | None = None) -> ResponseChain:
        """Everything up to a response and with it. An unknown one is an error: nobody may talk past a gap."""
        links: dict[str, HistoryEntry] = {}
        size = 0
        while id_ is not None:
            kept = local.get(id_) if local is not None else None
            if kept is None:
                kept, length = self._find(id_, connection)
                size += length
            if kept is None or id_ in links or len(links) >= _MOST_RESPONSES or size > _MOST_BYTES:
                raise _not_found(id_)
            links[id_] = kept
            id_ = kept.previous
        items = [item for kept in reversed(links.values()) for item in (*kept.items, *kept.output)]
        last = next(iter(links.values()), None)
        return ResponseChain(items, tuple(links), None if last is None else last.consumer_id)

    def find(self, id_: str, connection: str) -> HistoryEntry:
        kept, _ = self._find(id_, connection)
        if kept is None:
            raise ApiError(
                404,
                "not_found",
                f"There is no response {id_[:128]!r} that was stored.",
                code="response_not_found",
            )
        return kept

    def keep(
        self,
        id_: str,
        kept: HistoryEntry,
        connection: str,
        used: tuple[str, ...],
        conversation: str | None = None,
    ) -> None:
        """A response that cannot be kept has been given all the same."""
        if self._store is None:
            return
        now = datetime.now(UTC)
        try:
            self._store.save(StoredResponse(id_, connection, kept.previous, now, encode(kept), conversation))
            if used:
                self._store.touch(used, now)
        except StoreError as error:
            _log.warning("response %s cannot be gone on from: %s", id_, error)

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
