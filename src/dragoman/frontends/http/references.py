"""Resolves `item_reference`: a client names an item that this server has stored, and does not send it again.

An item is found in the history that the request continues, in what its WebSocket remembers, or by an index of all stored
responses and conversations of the same connection. The response is stored with the items themselves, so it stays complete
when the response that had them first is deleted.

A few bytes may name a large item many times. So a named item counts as if it were sent: the limits of a body apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.frontends.http.histories import Histories, HistoryEntry, SocketHistory
from dragoman.frontends.http.input_items import full_item, listed_id
from dragoman.frontends.http.item_lists import ItemLists
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["ItemReferences"]

# How many bytes of stored responses are read for one request: as many as for a chain of responses.
_MOST_BYTES = 64 * 1024 * 1024
# How many conversations are read for one request. Each may have `max_bytes`.
_MOST_CONVERSATIONS = 16
# The id that `GET /v1/responses/{id}/input_items` gives to an item without one.
_LISTED = re.compile(r"[a-z]+_in[0-9]{1,6}_(resp_[0-9a-f]{32})")


class ItemReferences:
    """Finds the items that requests refer to. Every call may raise `ApiError`."""

    def __init__(self, histories: Histories, conversations: ItemLists, *, max_bytes: int) -> None:
        """`max_bytes` limits the items that one request names."""
        self._histories = histories
        self._conversations = conversations
        self._max_bytes = max_bytes

    async def resolved(
        self,
        items: list[JsonObject],
        connection: str,
        *,
        known: Iterable[JsonObject] = (),
        local: SocketHistory | None = None,
        param: str = "input",
    ) -> list[JsonObject]:
        """Return the items with each reference replaced. `known` is the history that the request continues."""
        if not any(map(_is_reference, items)):
            return items
        search = _Search(self._histories, self._conversations, connection, Budget(self._max_bytes))
        search.add(known)
        for entry in (local or {}).values():
            search.add_entry(entry)
        return [
            await search.item(item.get("id"), f"{param}[{index}]") if _is_reference(item) else item
            for index, item in enumerate(items)
        ]


class _Search:
    """The search for the items of one request. Whatever it has read serves all references."""

    def __init__(
        self, histories: Histories, conversations: ItemLists, connection: str, budget: Budget
    ) -> None:
        self._histories = histories
        self._conversations = conversations
        self._connection = connection
        self._budget = budget
        self._found: dict[str, JsonObject] = {}
        self._bytes = 0
        self._conversations_read = 0

    def add(self, items: Iterable[JsonObject]) -> None:
        self._found |= {id_: item for item in items if isinstance(id_ := item.get("id"), str)}

    def add_entry(self, entry: HistoryEntry) -> None:
        self.add(entry.items)
        self.add(entry.output)

    async def item(self, id_: object, where: str) -> JsonObject:
        if not isinstance(id_, str) or not id_:
            raise bad_request("A reference must have the `id` of an item.", param=f"{where}.id")
        if id_ not in self._found:
            self._read_response(id_)
        if id_ not in self._found:
            await self._read_conversations(id_)
        if id_ not in self._found:
            raise self._not_found(id_, where)
        self._budget.spend(encode(self._found[id_]), where)
        return self._found[id_]

    def _read_response(self, id_: str) -> None:
        listed = _LISTED.fullmatch(id_)
        if listed is not None:
            entry, size = self._histories.read(listed[1], self._connection)
            if entry is not None:
                self.add(_with_listed_ids(entry.items, listed[1]))
        else:
            entry, size = self._histories.read_with_item(id_, self._connection)
            if entry is not None:
                self.add_entry(entry)
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise _too_many("bytes in the stored responses")

    async def _read_conversations(self, id_: str) -> None:
        for conversation in self._histories.conversations_with(id_, self._connection):
            self._conversations_read += 1
            if self._conversations_read > _MOST_CONVERSATIONS:
                raise _too_many("conversations")
            items = (await self._conversations.find(conversation, self._connection)).items
            if id_ in items:
                self.add(items.values())
                return

    def _not_found(self, id_: str, where: str) -> ApiError:
        reason = (
            "It was deleted, or its response has `store: false`."
            if self._histories.stores
            else "This server stores nothing: `store` in [serve] is false, or its state folder cannot be used."
        )
        return ApiError(
            404,
            "not_found",
            f"There is no stored item {id_[:128]!r}. {reason} Send the item itself.",
            code="item_not_found",
            param=where,
        )


def _too_many(what: str) -> ApiError:
    return ApiError(
        413,
        "invalid_request",
        f"There are too many {what} that the request refers to. Send the items themselves.",
        code="body_too_large",
        param="input",
    )


def _is_reference(item: JsonObject) -> bool:
    # The type may be left out.
    return item.get("type") == "item_reference" or item.keys() == {"id"}


def _with_listed_ids(items: Sequence[JsonObject], response: str) -> Iterable[JsonObject]:
    for index, item in enumerate(items):
        yield full_item(item, listed_id(index, response))
