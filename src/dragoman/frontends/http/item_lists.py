"""The conversations of `/v1/conversations`: lists of items that this server stores for a client, as OpenAI does.

Each list is a journal, and belongs to the connection that made it. Two requests may add to a list at the same time: each
appends after the last event that it has read, and reads again if the other request was faster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.create_request import OUR_CONVERSATION, Labels
from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.frontends.http.histories import Histories
from dragoman.frontends.http.input_items import full_item, item_id
from dragoman.frontends.http.items import messages_from_items
from dragoman.frontends.http.resource import new_id
from dragoman.frontends.http.response_journals import mapping_store_errors
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.response_events import ItemRemoved, ItemsAdded, MetadataChanged
from dragoman.journal.store import JournalConflict, JournalStore
from dragoman.journal.writer import Journals
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["ConversationBody", "ItemList", "ItemLists", "ItemsBody", "MetadataBody", "item_of"]

_log = logging.getLogger(__name__)

# Of one request, as at OpenAI.
_MOST_ADDED = 20
# Of a whole conversation, as of a chain of responses.
_MOST_BYTES = 64 * 1024 * 1024
# Each failed try means that another request has added something.
_MOST_TRIES = 100


class ConversationBody(msgspec.Struct, frozen=True):
    items: list[JsonObject] | None = None
    metadata: Labels | None = None


class ItemsBody(msgspec.Struct, frozen=True):
    items: list[JsonObject]


class MetadataBody(msgspec.Struct, frozen=True):
    metadata: Labels


@dataclass(slots=True)
class ItemList:
    """The items and metadata of one conversation, computed from its journal."""

    id: str
    created_at: int = 0
    metadata: JsonObject = field(default_factory=dict)
    items: dict[str, JsonObject] = field(default_factory=dict)
    # The event that added each item.
    places: dict[str, int] = field(default_factory=dict)
    # The number of the last event.
    sequence: int = 0

    def apply(self, entry: JournalEntry) -> None:
        self.sequence = entry.sequence
        match entry.event:
            case JournalStarted():
                self.created_at = int(entry.at)
            case MetadataChanged(metadata=metadata):
                self.metadata = metadata
            case ItemsAdded(items=items):
                self.items |= {item_id(item): item for item in items}
                self.places |= {item_id(item): entry.sequence for item in items}
            case ItemRemoved(item=item):
                self.items.pop(item, None)
            case _:
                pass

    def as_json(self) -> JsonObject:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


class ItemLists:
    """Makes, finds and changes conversations. Every call may raise `ApiError`."""

    def __init__(self, journals: Journals, histories: Histories, *, max_bytes: int, is_on: bool) -> None:
        """`max_bytes` limits the packed content of items."""
        self._journals = journals
        self._histories = histories
        self._max_bytes = max_bytes
        self._is_on = is_on

    async def create(self, body: ConversationBody, connection: str) -> ItemList:
        conversation = ItemList(new_id("conv"))
        items = self._checked(conversation, body.items or [])
        started = JournalStarted("items", "", connection=connection)
        events: list[AnyEvent] = [started]
        events += [MetadataChanged(dict(body.metadata))] if body.metadata else []
        events += [ItemsAdded(tuple(items))] if items else []
        return await self._append(conversation, connection, events)

    async def has(self, id_: str, connection: str) -> bool:
        """Whether this connection has made such a conversation, and it was not deleted."""
        store = self._store()
        with mapping_store_errors():
            info = await store.find(id_) if OUR_CONVERSATION.fullmatch(id_) else None
        return info is not None and info.kind == "items" and info.connection == connection

    async def find(self, id_: str, connection: str) -> ItemList:
        """Return a conversation. For one of another connection the error is the same as for an unknown one."""
        if not await self.has(id_, connection):
            raise ApiError(
                404,
                "not_found",
                f"There is no conversation {id_[:128]!r}. `POST /v1/conversations` makes one.",
                code="conversation_not_found",
                param="conversation",
            )
        conversation = ItemList(id_)
        with mapping_store_errors():
            for entry in await self._store().read(id_):
                conversation.apply(entry)
        return conversation

    async def add(self, id_: str, connection: str, items: list[JsonObject]) -> list[JsonObject]:
        """Add the items of a request. Return them as they are stored, with their ids."""
        added: list[JsonObject] = []

        def change(conversation: ItemList) -> list[AnyEvent]:
            added[:] = self._checked(conversation, items)
            return [ItemsAdded(tuple(added))]

        await self._change(id_, connection, change)
        return added

    async def add_turn(
        self, id_: str, connection: str, items: Iterable[JsonObject], output: Iterable[JsonObject]
    ) -> None:
        """Add the input and output of a response, once. If that fails, log it: the client has the response."""

        def change(conversation: ItemList) -> list[AnyEvent]:
            if any(item_id(each) in conversation.items for each in output):
                # By a server that ended before it could store the response's end.
                return []
            return [ItemsAdded(tuple(_with_ids((*items, *output), conversation.items)))]

        try:
            await self._change(id_, connection, change)
        except ApiError as error:
            _log.warning("a response was not added to %s: %s", id_, error.message)

    async def set_metadata(self, id_: str, connection: str, metadata: dict[str, str]) -> ItemList:
        return await self._change(id_, connection, lambda _: [MetadataChanged(dict(metadata))])

    async def remove(self, id_: str, connection: str, item: str) -> ItemList:
        """Remove an item: first its content from the event that added it. If the rest fails, the item is gone all the same."""

        def change(conversation: ItemList) -> list[AnyEvent]:
            # Another request may have added an item with the same id meanwhile. That one stays.
            return [] if item in conversation.items else [ItemRemoved(item)]

        def without(event: AnyEvent) -> AnyEvent:
            if not isinstance(event, ItemsAdded):
                return event
            return ItemsAdded(tuple(each for each in event.items if item_id(each) != item))

        conversation = await self.find(id_, connection)
        item_of(conversation, item)
        with mapping_store_errors():
            await self._store().amend(id_, conversation.places[item], without)
        return await self._change(id_, connection, change)

    async def delete(self, id_: str, connection: str) -> None:
        await self.find(id_, connection)
        with mapping_store_errors():
            await self._store().delete(id_)

    def _store(self) -> JournalStore:
        store = self._journals.store
        if store is None or not self._is_on or self._journals.content != "full":
            raise bad_request(
                "This server keeps no conversations: that needs `store` in [serve], and `content` in [journal] must be "
                '"full". Send the history with each request, or an id of your own.',
                param="conversation",
                code="unsupported",
            )
        return store

    def _checked(self, conversation: ItemList, items: list[JsonObject]) -> list[JsonObject]:
        """The items with ids. Raise an error for items that a later request could not read."""
        if len(items) > _MOST_ADDED:
            raise bad_request(f"A request adds at most {_MOST_ADDED} items.", param="items")
        if not all(isinstance(item.get("id"), str | None) for item in items):
            raise bad_request("The id of an item is a text.", param="items")
        given = [item_id(item) for item in items if item.get("id")]
        if len(set(given)) < len(given) or not conversation.items.keys().isdisjoint(given):
            raise bad_request("An item with this id is in the conversation already.", param="items")
        found = [*conversation.items.values(), *items]
        messages_from_items(found, "", Budget(self._max_bytes))
        if len(encode(found)) > _MOST_BYTES:
            raise bad_request("The conversation has too many bytes. Make another one.", param="items")
        return _with_ids(items, conversation.items)

    async def _change(
        self, id_: str, connection: str, change: Callable[[ItemList], list[AnyEvent]]
    ) -> ItemList:
        for _ in range(_MOST_TRIES):
            conversation = await self.find(id_, connection)
            try:
                return await self._append(conversation, connection, change(conversation))
            except JournalConflict:
                continue
        raise ApiError(503, "server_error", "Too many requests change this conversation.", retry_after=1)

    async def _append(self, conversation: ItemList, connection: str, events: Sequence[AnyEvent]) -> ItemList:
        at = time.time()
        first = conversation.sequence
        with mapping_store_errors():
            stamped = [(at, event) for event in events]
            # No process owns it: each append stands alone.
            await self._store().append(conversation.id, first, stamped, holds=False)
        for sequence, event in enumerate(events, first + 1):
            conversation.apply(JournalEntry(sequence, at, event))
            if isinstance(event, ItemsAdded):
                await self._histories.index(conversation.id, connection, map(item_id, event.items))
        return conversation


def item_of(conversation: ItemList, item: str) -> JsonObject:
    if item not in conversation.items:
        raise ApiError(
            404,
            "not_found",
            f"There is no item {item[:128]!r} in this conversation.",
            code="item_not_found",
        )
    return conversation.items[item]


def _with_ids(items: Iterable[JsonObject], present: dict[str, JsonObject]) -> list[JsonObject]:
    """Items in their full form. One without an id, or with one that is present already, gets a new one."""
    taken = set(present)
    found: list[JsonObject] = []
    for item in items:
        full = full_item(item, new_id)
        if item_id(full) in taken:
            full = full_item({**item, "id": None}, new_id)
        taken.add(item_id(full))
        found.append(full)
    return found
