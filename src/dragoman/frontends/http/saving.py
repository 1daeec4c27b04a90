"""Describes a response from its beginning to its end, and stores it."""

from __future__ import annotations

import time

from dragoman.config import Serve
from dragoman.frontends.http.histories import Histories, HistoryEntry, SocketHistory
from dragoman.frontends.http.ignored import IGNORED_KEY, METADATA_LENGTH, with_ignored
from dragoman.frontends.http.item_lists import ItemLists
from dragoman.frontends.http.preparing import Prepared
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.stream import ResponseStream
from dragoman.frontends.http.stream_rebuild import new_stream
from dragoman.journal.response_events import ResponseOpened
from dragoman.lm import JsonObject

__all__ = ["ResponseSaver"]

# The key of a response's metadata that names the folder, if the request named one.
_WORKSPACE = "dragoman.workspace"


class ResponseSaver:
    """Stores responses by their ids, and in their conversations."""

    def __init__(self, serve: Serve, histories: Histories, conversations: ItemLists) -> None:
        self._reasoning_events = serve.reasoning_events
        self._histories = histories
        self._conversations = conversations

    def resource(self, prepared: Prepared) -> Resource:
        """The response at its beginning."""
        create = prepared.create
        named: JsonObject = {}
        if prepared.names_workspace and prepared.workspace is not None:
            named[_WORKSPACE] = prepared.workspace[:METADATA_LENGTH]
        return Resource(
            id=prepared.response_id,
            model=create.model,
            created_at=prepared.created_at,
            echoed=create.echoed,
            metadata=with_ignored({**create.metadata, **named}, prepared.ignored),
            previous=create.previous,
            is_stored=prepared.is_stored,
            is_background=create.is_background,
            conversation=create.conversation,
        )

    def name_far_folder(self, prepared: Prepared, resource: Resource, folder: str | None) -> None:
        """Note where an agent behind an endpoint works, if the request named a folder."""
        if prepared.client.workspace is not None and folder is not None:
            resource.metadata = {**resource.metadata, _WORKSPACE: folder[:METADATA_LENGTH]}

    def opened(self, prepared: Prepared, resource: Resource) -> ResponseOpened:
        return ResponseOpened(
            self._reasoning_events,
            prepared.client.approves_items,
            str(resource.metadata.get(IGNORED_KEY, "")),
            prepared.files.terms,
            prepared.request.options.has_form,
            prepared.client.sees_paths,
        )

    def stream(self, prepared: Prepared) -> ResponseStream:
        resource = self.resource(prepared)
        return new_stream(resource, self.opened(prepared, resource))

    def entry(self, prepared: Prepared, resource: Resource) -> HistoryEntry:
        create = prepared.create
        return HistoryEntry(
            create.items,
            resource.as_json(),
            create.previous,
            create.consumer_id or prepared.chain.consumer_id,
            create.conversation,
            prepared.copies,
        )

    async def completed(
        self,
        prepared: Prepared,
        stream: ResponseStream,
        local: SocketHistory | None = None,
        conversation: str | None = None,
    ) -> list[JsonObject]:
        """Store a response, and only then return its last events. `conversation` is its agent's."""
        events = list(stream.complete(int(time.time())))
        resource = stream.resource
        await self.save(prepared, resource, conversation)
        if local is not None and not resource.is_stored:
            local.add(resource.id, self.entry(prepared, resource))
        return events

    async def save(self, prepared: Prepared, resource: Resource, conversation: str | None) -> None:
        """Store a response that has ended, however it has. `conversation` is its agent's."""
        entry, connection = self.entry(prepared, resource), prepared.client.connection
        await self.add_to_conversation(entry, connection, resource)
        if resource.is_stored:
            await self._histories.save(resource.id, entry, connection, prepared.chain.ids, conversation)

    async def add_to_conversation(self, entry: HistoryEntry, connection: str, resource: Resource) -> None:
        """Add a response and its input to its conversation, unless it failed before it said anything."""
        if entry.conversation is not None and (resource.output or resource.status == "completed"):
            await self._conversations.add_turn(entry.conversation, connection, entry.items, resource.output)
