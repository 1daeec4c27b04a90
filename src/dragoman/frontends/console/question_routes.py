"""The event stream, and the calls about questions."""

from __future__ import annotations

import asyncio
from typing import Annotated, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dragoman.frontends.console.access import session_of
from dragoman.frontends.console.data import ConsoleData
from dragoman.frontends.console.deciding import DecisionLevel, DecisionWord
from dragoman.frontends.console.errors import API_ROOT, ConsoleError
from dragoman.frontends.console.feed import Feed, FeedStream
from dragoman.frontends.console.json_bodies import json_response, read_call
from dragoman.frontends.console.questions import offer_json
from dragoman.frontends.event_streams import EventStream, WriteEvent, until_disconnected

__all__ = ["DecisionBody", "SeenBody", "question_routes"]

_ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
_HEADERS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    # A proxy that collects the events before it passes them on would hold questions back.
    "x-accel-buffering": "no",
}


class SeenBody(msgspec.Struct, frozen=True):
    """A page acknowledges a beat of its stream."""

    stream: _ShortText


class DecisionBody(msgspec.Struct, frozen=True):
    """A person's decision. `offer` and `toml` are the number and the text of the rule that they have chosen."""

    decision: DecisionWord
    level: DecisionLevel = "once"
    offer: Annotated[int, msgspec.Meta(ge=0, le=1_000)] | None = None
    toml: str | None = None
    reason: str | None = None


def question_routes(data: ConsoleData) -> list[Route]:
    calls = _QuestionCalls(data)
    return [
        Route(f"{API_ROOT}events", calls.events, methods=["GET"]),
        Route(f"{API_ROOT}seen", calls.seen, methods=["POST"]),
        Route(f"{API_ROOT}questions/{{id}}", calls.question, methods=["GET"]),
        Route(f"{API_ROOT}questions/{{id}}/decision", calls.decide, methods=["POST"]),
    ]


class _QuestionCalls:
    def __init__(self, data: ConsoleData) -> None:
        self._data = data

    async def events(self, request: Request) -> Response:
        session = session_of(request, change=False)
        stream = self._data.feed.open(session, request.headers.get("last-event-id"))
        return _FeedResponse(self._data.feed, stream, request)

    async def seen(self, request: Request) -> Response:
        session, body = await read_call(request, SeenBody, change=False)
        if not self._data.feed.seen(session, body.stream):
            raise ConsoleError(409, "no_stream", "This session has no open event stream.")
        return json_response({})

    async def question(self, request: Request) -> Response:
        """A question with all of its text, and the rules that can be made of it."""
        session = session_of(request, change=False)
        decider = self._data.decider
        question = decider.question(request.path_params["id"], session)
        # All of a large action takes seconds, in which the server would do nothing else.
        shown = await asyncio.to_thread(self._data.question, question, session.scope, is_whole=True)
        is_open = shown["state"] == "waiting"
        offers = decider.show_offers(question, session) if is_open and session.may_decide else ()
        # Where the rules stand is only for those who can make one.
        file = decider.rules_file if session.scope.key is None else ""
        return json_response({**shown, "offers": [offer_json(each) for each in offers], "rules_file": file})

    async def decide(self, request: Request) -> Response:
        session, body = await read_call(request, DecisionBody, change=True)
        outcome = await self._data.decider.decide(
            request.path_params["id"],
            session,
            body.decision,
            body.level,
            offer=body.offer,
            toml=body.toml,
            reason=body.reason,
        )
        return json_response(outcome)


class _FeedResponse(EventStream):
    """The response that sends a stream, and closes it however it ends."""

    def __init__(self, feed: Feed, stream: FeedStream, request: Request) -> None:
        async def write(put: WriteEvent) -> None:
            async def send() -> None:
                async for frame in stream.frames():
                    await put(frame)

            await until_disconnected(request.receive, send())

        super().__init__(write, _HEADERS)
        self._feed = feed
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.close_stream(self._stream)
