"""Resolves `item_reference`: a client names an item that this server has stored, and does not send it again.

An item is found in the history that the request continues, in what its WebSocket remembers, or by an index of all stored
responses and conversations of the same connection. The response is stored with the items themselves, so it stays complete
when the response that had them first is deleted.

What the server said counts before what a client sent: a client may send another text under an id of the server's, and a
reference gives the item as the server made it. Of a client's own items the newest counts.

A few bytes may name a large item many times. So a named item counts as if it were sent: the limits of a body apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.frontends.http.histories import Histories, HistoryEntry, ResponseChain, SocketHistory
from dragoman.frontends.http.input_items import full_item, listed_id
from dragoman.frontends.http.item_lists import ItemLists
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["ItemReferences", "ResolvedItems"]

# How many bytes of stored responses are read for one request: as many as for a chain of responses.
_MOST_BYTES = 64 * 1024 * 1024
# How many conversations are read for one request. Each may have `max_bytes`.
_MOST_CONVERSATIONS = 16
# The id that `GET /v1/responses/{id}/input_items` gives to an item without one.
_LISTED = re.compile(r"[a-z]+_in[0-9]{1,6}_(resp_[0-9a-f]{32})")


class ResolvedItems(NamedTuple):
    """The items of a request, with each reference replaced."""

    items: list[JsonObject]
    # The places of references to what the server had said.
    copies: tuple[int, ...] = ()


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
        chain: ResponseChain | None = None,
        local: SocketHistory | None = None,
        param: str = "input",
    ) -> ResolvedItems:
        """Replace each reference by its item. `chain` is the history that the request continues."""
        places = [place for place, item in enumerate(items) if _is_reference(item)]
        if not places:
            return ResolvedItems(items)
        search = _Search(self._histories, self._conversations, connection, Budget(self._max_bytes))
        for entry in (local or {}).values():
            search.add_entry(entry)
        if chain is not None:
            search.add(chain.items, chain.own_items)
        resolved = list(items)
        for place in places:
            resolved[place] = await search.item(items[place].get("id"), f"{param}[{place}]")
        return ResolvedItems(resolved, tuple(place for place in places if search.is_own(resolved[place])))


class _Search:
    """The search for the items of one request. Whatever it has read serves all references."""

    def __init__(
        self, histories: Histories, conversations: ItemLists, connection: str, budget: Budget
    ) -> None:
        self._histories = histories
        self._conversations = conversations
        self._connection = connection
        self._budget = budget
        # What the server made, and what clients sent. Both by their ids.
        self._own: dict[str, JsonObject] = {}
        self._given: dict[str, JsonObject] = {}
        self._bytes = 0
        self._conversations_read = 0

    def add(self, items: Iterable[JsonObject], own: Iterable[JsonObject] = ()) -> None:
        self._given |= _by_id(items)
        self._own |= _by_id(own)

    def add_entry(self, entry: HistoryEntry) -> None:
        self.add(entry.items, entry.own_items)

    def is_own(self, item: JsonObject) -> bool:
        """Whether the server made an item that was found."""
        id_ = item.get("id")
        return isinstance(id_, str) and id_ in self._own

    async def item(self, id_: object, where: str) -> JsonObject:
        if not isinstance(id_, str) or not id_:
            raise bad_request("A reference must have the `id` of an item.", param=f"{where}.id")
        if id_ not in self._own:
            await self._read_response(id_, is_own=True)
        if id_ not in self._own and id_ not in self._given:
            await self._read_response(id_, is_own=False)
        if id_ not in self._own and id_ not in self._given:
            await self._read_conversations(id_)
        found = self._own.get(id_) or self._given.get(id_)
        if found is None:
            raise self._not_found(id_, where)
        self._budget.spend(encode(found), where)
        return found

    async def _read_response(self, id_: str, *, is_own: bool) -> None:
        listed = _LISTED.fullmatch(id_)
        if listed is not None:
            entry, size = await self._histories.read(listed[1], self._connection)
            if entry is not None:
                self.add((), _with_listed_ids(entry.items, listed[1]))
        else:
            entry, size = await self._histories.read_with_item(id_, self._connection, is_own=is_own)
            if entry is not None:
                self.add_entry(entry)
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise _too_many("bytes in the stored responses")

    async def _read_conversations(self, id_: str) -> None:
        for conversation in await self._histories.conversations_with(id_, self._connection):
            self._conversations_read += 1
            if self._conversations_read > _MOST_CONVERSATIONS:
                raise _too_many("conversations")
            if not await self._conversations.has(conversation, self._connection):
                # It was deleted. The index may still have it.
                continue
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


def _by_id(items: Iterable[JsonObject]) -> dict[str, JsonObject]:
    return {id_: item for item in items if isinstance(id_ := item.get("id"), str)}


def _with_listed_ids(items: Sequence[JsonObject], response: str) -> Iterable[JsonObject]:
    """The items that had no id, each with the one that says where it is stored."""
    for index, item in enumerate(items):
        if not item.get("id"):
            yield full_item(item, listed_id(index, response))
