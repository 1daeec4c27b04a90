"""Reads the input of a request: the history that it continues, the items that it refers to, and its own items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.client import HttpClient
from dragoman.frontends.http.compaction import compacted, expanded
from dragoman.frontends.http.create_request import CompactBody, CreateRequest, items_of
from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.frontends.http.histories import Histories, ResponseChain, SocketHistory
from dragoman.frontends.http.item_lists import ItemLists
from dragoman.frontends.http.items import RequestInput, messages_from_items
from dragoman.frontends.http.references import ItemReferences
from dragoman.lm import JsonObject, Message, system

__all__ = ["ReadRequest", "RequestReader"]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request whose references are resolved, and the history that it continues."""

    create: CreateRequest
    chain: ResponseChain
    # The history and the items of the request, as messages.
    given: RequestInput
    # The places of its items that were references to what the server had said.
    copies: tuple[int, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages of the request, with its instructions."""
        messages = (*self.create.messages, *self.given.messages)
        return (system(self.create.instructions), *messages) if self.create.instructions else messages


class RequestReader:
    """Reads requests of clients. Every call may raise `ApiError`."""

    def __init__(
        self, histories: Histories, conversations: ItemLists, references: ItemReferences, *, max_bytes: int
    ) -> None:
        """`max_bytes` limits what the compactions of one request hold: it is the limit of an unpacked body."""
        self._histories = histories
        self._conversations = conversations
        self._references = references
        self._max_bytes = max_bytes

    async def read(
        self,
        create: CreateRequest,
        client: HttpClient,
        local: SocketHistory | None = None,
        *,
        for_endpoint: bool,
    ) -> ReadRequest:
        chain = await self._chain(create.previous, client, local)
        if create.conversation is not None:
            chain = await self._conversation(create, create.conversation, client)
        items, copies = await self._references.resolved(
            create.items, client.connection, chain=chain, local=local
        )
        given = messages_from_items(
            [*chain.items, *items], create.model, Budget(self._max_bytes), for_endpoint=for_endpoint
        )
        return ReadRequest(replace(create, items=items), chain, given, copies)

    async def compacted(self, body: CompactBody, client: HttpClient) -> str:
        """Pack the input of a request, with the history that it continues."""
        chain = await self._chain(body.previous_response_id, client)
        given, _ = await self._references.resolved(items_of(body.input), client.connection, chain=chain)
        budget = Budget(self._max_bytes)
        items = [*_expanded([*chain.items, *given], budget)]
        if not items:
            raise bad_request("There is nothing to compact.", param="input")
        # Raise an error for items that a later request could not bring back.
        messages_from_items(items, body.model, budget)
        if body.instructions:
            items.insert(0, {"type": "message", "role": "system", "content": body.instructions})
        return compacted(items, Budget(self._max_bytes))

    async def _chain(
        self, previous: str | None, client: HttpClient, local: SocketHistory | None = None
    ) -> ResponseChain:
        chain = await self._histories.chain(previous, client.connection, local)
        if chain.conversation is None:
            return chain
        if not await self._conversations.has(chain.conversation, client.connection):
            raise ApiError(
                404,
                "not_found",
                f"This response is in the conversation {chain.conversation!r}, which was deleted. Send the whole history "
                "instead.",
                param="previous_response_id",
                code="conversation_not_found",
            )
        raise bad_request(
            f"This response is in a conversation: continue it with `conversation`: {chain.conversation!r}.",
            param="previous_response_id",
            code="conflicting_ids",
        )

    async def _conversation(
        self, create: CreateRequest, conversation: str, client: HttpClient
    ) -> ResponseChain:
        """The items of a conversation that this server keeps."""
        if create.refuses_storing:
            raise bad_request(
                "The conversation stores what is said in it: leave `store: false` out, or send the history itself.",
                param="store",
                code="conflicting_fields",
            )
        found = await self._conversations.find(conversation, client.connection)
        return ResponseChain(list(found.items.values()))


def _expanded(items: list[JsonObject], budget: Budget) -> Iterator[JsonObject]:
    for item in items:
        if item.get("type") == "compaction":
            yield from expanded(str(item.get("encrypted_content")), "input", budget)
        else:
            yield item
