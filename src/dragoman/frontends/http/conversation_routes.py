"""The routes of `/v1/conversations` and their request handlers."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.frontends.http.create_request import object_of, read_form
from dragoman.frontends.http.input_items import listed
from dragoman.frontends.http.item_lists import (
    ConversationBody,
    ItemsBody,
    MetadataBody,
    item_of,
)
from dragoman.frontends.http.middleware import client_of
from dragoman.frontends.http.service import HttpService
from dragoman.frontends.http.wire import JsonResponse, read_body
from dragoman.lm import JsonObject

__all__ = ["conversation_routes"]


def conversation_routes(service: HttpService) -> list[Route]:
    routes = _Routes(service)
    one, items, item = (f"/v1/conversations{rest}" for rest in ("/{id}", "/{id}/items", "/{id}/items/{item}"))
    return [
        Route("/v1/conversations", routes.create, methods=["POST"]),
        Route(one, routes.retrieve, methods=["GET"]),
        Route(one, routes.update, methods=["POST"]),
        Route(one, routes.delete, methods=["DELETE"]),
        Route(items, routes.add_items, methods=["POST"]),
        Route(items, routes.items, methods=["GET"]),
        Route(item, routes.item, methods=["GET"]),
        Route(item, routes.remove_item, methods=["DELETE"]),
    ]


class _Routes:
    def __init__(self, service: HttpService) -> None:
        self._conversations = service.conversations
        self._references = service.references
        self._limit = service.serve.max_body_bytes

    async def create(self, request: Request) -> Response:
        body = read_form(await self._body(request), ConversationBody)
        connection = client_of(request).connection
        items = (await self._references.resolved(body.items or [], connection, param="items")).items
        body = msgspec.structs.replace(body, items=items)
        return JsonResponse((await self._conversations.create(body, connection)).as_json())

    async def retrieve(self, request: Request) -> Response:
        return JsonResponse((await self._conversations.find(*_named(request))).as_json())

    async def update(self, request: Request) -> Response:
        body = read_form(await self._body(request), MetadataBody)
        changed = await self._conversations.set_metadata(*_named(request), body.metadata)
        return JsonResponse(changed.as_json())

    async def delete(self, request: Request) -> Response:
        id_, connection = _named(request)
        await self._conversations.delete(id_, connection)
        return JsonResponse({"id": id_, "object": "conversation.deleted", "deleted": True})

    async def add_items(self, request: Request) -> Response:
        body = read_form(await self._body(request), ItemsBody)
        id_, connection = _named(request)
        items = (await self._references.resolved(body.items, connection, param="items")).items
        added = await self._conversations.add(id_, connection, items)
        return JsonResponse(listed(added, id_, {"order": "asc"}))

    async def items(self, request: Request) -> Response:
        id_, connection = _named(request)
        conversation = await self._conversations.find(id_, connection)
        return JsonResponse(listed(list(conversation.items.values()), id_, request.query_params))

    async def item(self, request: Request) -> Response:
        conversation = await self._conversations.find(*_named(request))
        return JsonResponse(item_of(conversation, request.path_params["item"]))

    async def remove_item(self, request: Request) -> Response:
        left = await self._conversations.remove(*_named(request), request.path_params["item"])
        return JsonResponse(left.as_json())

    async def _body(self, request: Request) -> JsonObject:
        return object_of(await read_body(request, self._limit))


def _named(request: Request) -> tuple[str, str]:
    """The conversation that the path names, and the connection of the client."""
    return request.path_params["id"], client_of(request).connection
