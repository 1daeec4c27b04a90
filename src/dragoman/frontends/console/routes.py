"""The paths of the console: its page, and the calls of its API."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from dragoman.frontends.console.console import Console
from dragoman.frontends.console.conversation_list import ConversationFilter
from dragoman.frontends.console.deciding import DecisionLevel, DecisionWord
from dragoman.frontends.console.feed import Feed, FeedStream
from dragoman.frontends.console.page_files import PageFiles
from dragoman.frontends.console.pairing import TooManyAttempts, WrongCode
from dragoman.frontends.console.qr_code import qr_rows
from dragoman.frontends.console.questions import offer_json
from dragoman.frontends.console.sessions import ConsoleRole, ConsoleSession, session_json
from dragoman.frontends.console.wire import API_ROOT, COMMON_HEADERS, ConsoleError, json_response, read_json
from dragoman.frontends.event_streams import EventStream, WriteEvent, until_disconnected
from dragoman.frontends.request_values import whole_number
from dragoman.journal.store import JournalStoreError

__all__ = ["DecisionBody", "PairBody", "PairingBody", "SeenBody", "console_routes"]

_T = TypeVar("_T")
_ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]

_STREAM_HEADERS = {
    **COMMON_HEADERS,
    # A proxy that collects the events before it passes them on would hold questions back.
    "x-accel-buffering": "no",
}


class PairBody(msgspec.Struct, frozen=True):
    """A pairing code that a person has typed, and the name that they give to their device."""

    code: _ShortText
    name: _ShortText = ""


class PairingBody(msgspec.Struct, frozen=True):
    """What another device may do. Without `key` it sees what the session sees that asks."""

    role: ConsoleRole = "decide"
    key: _ShortText | None = None


class SeenBody(msgspec.Struct, frozen=True):
    """A page acknowledges a beat of its stream."""

    stream: _ShortText


class DecisionBody(msgspec.Struct, frozen=True):
    """A person's decision. `toml` is the text of the offered rule that they have chosen."""

    decision: DecisionWord
    level: DecisionLevel = "once"
    toml: str | None = None
    reason: str | None = None


def console_routes(console: Console) -> list[BaseRoute]:
    page, calls = PageFiles(console.access), _Calls(console)
    called: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("POST", "pair", calls.pair),
        ("POST", "pairing", calls.new_pairing),
        ("GET", "sessions", calls.sessions),
        ("DELETE", "sessions/{id}", calls.end_session),
        ("GET", "events", calls.events),
        ("POST", "seen", calls.seen),
        ("GET", "questions/{id}", calls.question),
        ("POST", "questions/{id}/decision", calls.decide),
        ("GET", "conversations", calls.conversations),
        ("GET", "conversations/{id}", calls.conversation),
        ("DELETE", "conversations/{id}", calls.delete_conversation),
        ("POST", "conversations/{id}/stop", calls.stop_conversation),
        ("POST", "conversations/{id}/park", calls.park_conversation),
    ]
    return [
        Route("/", page.document, methods=["GET"]),
        Route("/console", _to_page, methods=["GET"]),
        Route("/console/", _to_page, methods=["GET"]),
        Route("/console/page/{name}", page.file, methods=["GET"]),
        Route("/console/sw.js", page.service_worker, methods=["GET"]),
        *(Route(f"{API_ROOT}{path}", call, methods=[method]) for method, path, call in called),
    ]


async def _to_page(_request: Request) -> Response:
    return RedirectResponse("/")


class _Calls:
    def __init__(self, console: Console) -> None:
        self._console = console

    def _session(self, request: Request, *, change: bool = False) -> ConsoleSession:
        return self._console.access.session(request.method, request.headers, change=change)

    async def _read(
        self, request: Request, type_: type[_T], *, change: bool = False
    ) -> tuple[ConsoleSession, _T]:
        """The session of a call and its body.

        The session is looked up again when the body is there: it may have been revoked while that was sent.
        """
        self._session(request, change=change)
        body = await read_json(request, type_)
        return self._session(request, change=change), body

    # Devices.

    async def pair(self, request: Request) -> Response:
        access = self._console.access
        earlier = access.check_pairing(request.method, request.headers)
        body = await read_json(request, PairBody)
        try:
            new = self._console.pair(body.code, body.name)
        except WrongCode:
            raise ConsoleError(
                403,
                "wrong_code",
                "This code is not valid. A code works once, within two minutes: get a new one.",
            ) from None
        except TooManyAttempts as error:
            seconds = max(1, round(error.seconds))
            raise ConsoleError(
                429, "too_many_attempts", f"Too many codes were tried. Try again in {seconds} s."
            ) from None
        if earlier is not None:
            # The browser forgets its secrets now. No one could use this session again.
            self._console.sessions.end(earlier.id)
        response = json_response({"token": new.token, "session": session_json(new.session, new.session)})
        return self._with_cookie(response, request, new.cookie)

    async def new_pairing(self, request: Request) -> Response:
        """A code for another device. It allows no more than the session that asks for it."""
        own, body = await self._read(request, PairingBody, change=True)
        scope = self._console.scope(body.key if body.key is not None else own.scope.key)
        if scope is None:
            raise ConsoleError(404, "no_key", "There is no key of this name.")
        if not own.scope.sees_all and scope != own.scope:
            raise ConsoleError(403, "other_key", "This device sees the conversations of one key only.")
        code = self._console.new_code(body.role, scope, maker=own.id)
        link = self._console.link(code)
        return json_response(
            {"code": code.text, "url": link, "qr": qr_rows(link), "expires_at": time.time() + code.seconds}
        )

    async def sessions(self, request: Request) -> Response:
        own = self._session(request)
        seen = [each for each in self._console.sessions.all() if _may_know(own, each)]
        return json_response({"sessions": [session_json(each, own) for each in seen]})

    async def end_session(self, request: Request) -> Response:
        """Sign out, or revoke another session. One that only watches can do the first."""
        own = self._session(request)
        id_ = request.path_params["id"]
        if id_ in ("self", own.id):
            self._console.sessions.end(own.id)
            return self._with_cookie(json_response({"ended": own.id}), request, None)
        self._session(request, change=True)
        found = next((each for each in self._console.sessions.all() if each.id == id_), None)
        if found is None or not _may_know(own, found):
            raise ConsoleError(404, "no_session", "There is no such session.")
        self._console.sessions.end(id_)
        return json_response({"ended": id_})

    def _with_cookie(self, response: Response, request: Request, value: str | None) -> Response:
        for cookie in self._console.access.cookie_headers(request.headers, value):
            response.headers.append("set-cookie", cookie)
        return response

    # Events and questions.

    async def events(self, request: Request) -> Response:
        feed = self._console.feed
        stream = feed.open(self._session(request), request.headers.get("last-event-id"))
        return _FeedResponse(feed, stream, request)

    async def seen(self, request: Request) -> Response:
        session, body = await self._read(request, SeenBody)
        if not self._console.feed.seen(session, body.stream):
            raise ConsoleError(409, "no_stream", "This session has no open event stream.")
        return json_response({})

    async def question(self, request: Request) -> Response:
        """A question with all of its text, and the rules that can be made of it."""
        session = self._session(request)
        decider = self._console.decider
        question = decider.question(request.path_params["id"], session)
        # All of a large action takes seconds, in which the server would do nothing else.
        shown = await asyncio.to_thread(self._console.question, question, session.scope, is_whole=True)
        offers = decider.offers(question, session) if session.may_decide else ()
        # Where the rules stand is only for those who can make one.
        file = decider.rules_file if session.scope.sees_all else ""
        return json_response({**shown, "offers": [offer_json(each) for each in offers], "rules_file": file})

    async def decide(self, request: Request) -> Response:
        session, body = await self._read(request, DecisionBody, change=True)
        outcome = await self._console.decider.decide(
            request.path_params["id"],
            session,
            body.decision,
            body.level,
            toml=body.toml,
            reason=body.reason,
        )
        return json_response(outcome)

    # Conversations.

    async def conversations(self, request: Request) -> Response:
        session = self._session(request)
        query = request.query_params
        wanted = ConversationFilter(
            query.get("model") or None,
            query.get("client") or None,
            query.get("state") or None,
            _moment(query.get("before")),
        )
        with _mapped_store_errors():
            return json_response(await self._console.conversations.page(session, wanted))

    async def conversation(self, request: Request) -> Response:
        session = self._session(request)
        after = whole_number(request.query_params.get("after") or "0")
        if after is None:
            raise ConsoleError(400, "bad_request", "`after` is the number of an event.")
        with _mapped_store_errors():
            return json_response(
                await self._console.conversations.entries(session, request.path_params["id"], after)
            )

    async def stop_conversation(self, request: Request) -> Response:
        return await self._change(request, self._console.conversations.stop)

    async def park_conversation(self, request: Request) -> Response:
        return await self._change(request, self._console.conversations.park)

    async def delete_conversation(self, request: Request) -> Response:
        return await self._change(request, self._console.conversations.delete)

    async def _change(
        self, request: Request, change: Callable[[ConsoleSession, str], Awaitable[None]]
    ) -> Response:
        session = self._session(request, change=True)
        with _mapped_store_errors():
            await change(session, request.path_params["id"])
        return json_response({})


class _FeedResponse(EventStream):
    """The response that sends a stream, and closes it however it ends."""

    def __init__(self, feed: Feed, stream: FeedStream, request: Request) -> None:
        async def write(put: WriteEvent) -> None:
            async def send() -> None:
                async for frame in stream.frames():
                    await put(frame)

            await until_disconnected(request.receive, send())

        super().__init__(write, _STREAM_HEADERS)
        self._feed = feed
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.close_stream(self._stream)


def _may_know(own: ConsoleSession, other: ConsoleSession) -> bool:
    """Whether a session may know of another and end it. One of a single key sees those of that key."""
    return own.scope.sees_all or own.scope == other.scope


@contextmanager
def _mapped_store_errors() -> Iterator[None]:
    try:
        yield
    except JournalStoreError as error:
        raise ConsoleError(503, "store", f"What is stored cannot be read or changed now: {error}") from error


def _moment(given: str | None) -> float | None:
    try:
        moment = float(given) if given else None
    except ValueError:
        moment = math.nan
    if moment is not None and not math.isfinite(moment):
        raise ConsoleError(400, "bad_request", "`before` is a time in seconds.")
    return moment
