"""The calls about conversations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.frontends.console.access import session_of
from dragoman.frontends.console.conversation_list import ConversationFilter
from dragoman.frontends.console.data import ConsoleData
from dragoman.frontends.console.errors import API_ROOT, ConsoleError
from dragoman.frontends.console.json_bodies import json_response
from dragoman.journal.store import JournalStoreError

__all__ = ["conversation_routes"]

# Of the number of an event: no journal has more.
_NUMBER_LENGTH = 12


def conversation_routes(data: ConsoleData) -> list[Route]:
    calls = _ConversationCalls(data)
    one = f"{API_ROOT}conversations/{{id}}"
    return [
        Route(f"{API_ROOT}conversations", calls.page, methods=["GET"]),
        Route(one, calls.entries, methods=["GET"]),
        Route(one, calls.delete, methods=["DELETE"]),
        Route(f"{one}/stop", calls.stop, methods=["POST"]),
        Route(f"{one}/park", calls.park, methods=["POST"]),
    ]


class _ConversationCalls:
    def __init__(self, data: ConsoleData) -> None:
        self._conversations = data.conversations

    async def page(self, request: Request) -> Response:
        session = session_of(request, change=False)
        query = request.query_params
        wanted = ConversationFilter(
            query.get("model") or None,
            query.get("client") or None,
            query.get("state") or None,
            _moment(query.get("before")),
        )
        with _mapped_store_errors():
            return json_response(await self._conversations.page(session, wanted))

    async def entries(self, request: Request) -> Response:
        session = session_of(request, change=False)
        after = _number(request.query_params.get("after"))
        with _mapped_store_errors():
            return json_response(await self._conversations.entries(session, request.path_params["id"], after))

    async def stop(self, request: Request) -> Response:
        session = session_of(request, change=True)
        with _mapped_store_errors():
            await self._conversations.stop(session, request.path_params["id"])
        return json_response({})

    async def park(self, request: Request) -> Response:
        session = session_of(request, change=True)
        with _mapped_store_errors():
            await self._conversations.park(session, request.path_params["id"])
        return json_response({})

    async def delete(self, request: Request) -> Response:
        session = session_of(request, change=True)
        with _mapped_store_errors():
            await self._conversations.delete(session, request.path_params["id"])
        return json_response({"deleted": request.path_params["id"]})


@contextmanager
def _mapped_store_errors() -> Iterator[None]:
    try:
        yield
    except JournalStoreError as error:
        raise ConsoleError(503, "store", f"What is stored cannot be read or changed now: {error}") from error


def _moment(given: str | None) -> float | None:
    if not given:
        return None
    try:
        moment = float(given)
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        raise ConsoleError(400, "bad_request", "`before` is a time in seconds.")
    return moment


def _number(given: str | None) -> int:
    if not given:
        return 0
    if not (given.isascii() and given.isdecimal() and len(given) <= _NUMBER_LENGTH):
        raise ConsoleError(400, "bad_request", "`after` is the number of an event.")
    return int(given)
