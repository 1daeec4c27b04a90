"""The calls that pair browsers and end their sessions, and the page's files."""

from __future__ import annotations

import time
from typing import Annotated, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from dragoman.frontends.console.access import session_of
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.errors import API_ROOT, ConsoleError
from dragoman.frontends.console.json_bodies import json_response, read_call, read_json
from dragoman.frontends.console.page_files import PageFiles
from dragoman.frontends.console.pairing import TooManyAttempts, WrongCode
from dragoman.frontends.console.qr_code import modules
from dragoman.frontends.console.sessions import ConsoleRole, ConsoleSession, session_json

__all__ = ["console_routes"]

_ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]


class _Pair(msgspec.Struct, frozen=True):
    code: _ShortText
    name: _ShortText = ""


class _NewPairing(msgspec.Struct, frozen=True):
    role: ConsoleRole = "decide"
    key: _ShortText | None = None


def console_routes(console: Console, page: PageFiles) -> list[BaseRoute]:
    calls = _SessionCalls(console)
    return [
        Route("/", page.document, methods=["GET"]),
        Route("/console", _to_page, methods=["GET"]),
        Route("/console/", _to_page, methods=["GET"]),
        Route("/console/page/{name}", page.file, methods=["GET"]),
        Route("/console/sw.js", page.service_worker, methods=["GET"]),
        Route(f"{API_ROOT}pair", calls.pair, methods=["POST"]),
        Route(f"{API_ROOT}pairing", calls.new_pairing, methods=["POST"]),
        Route(f"{API_ROOT}sessions", calls.sessions, methods=["GET"]),
        Route(f"{API_ROOT}sessions/{{id}}", calls.end_session, methods=["DELETE"]),
    ]


async def _to_page(_request: Request) -> Response:
    return RedirectResponse("/")


class _SessionCalls:
    def __init__(self, console: Console) -> None:
        self._console = console

    async def pair(self, request: Request) -> Response:
        access = self._console.access
        earlier = access.check_pairing(request.method, request.headers)
        body = await read_json(request, _Pair)
        try:
            new = self._console.pair(body.code, body.name)
        except WrongCode:
            raise ConsoleError(
                403, "wrong_code", "This code is not valid. Codes are valid once and for two minutes."
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
        for cookie in access.cookie_headers(request.headers, new.cookie):
            response.headers.append("set-cookie", cookie)
        return response

    async def new_pairing(self, request: Request) -> Response:
        """A code for another device. It allows no more than the session that asks for it."""
        own, body = await read_call(request, _NewPairing, change=True)
        key = body.key if body.key is not None else own.scope.key
        scope = self._console.scope(key)
        if scope is None:
            raise ConsoleError(404, "no_key", "There is no key of this name.")
        if own.scope.key is not None and scope != own.scope:
            raise ConsoleError(403, "other_key", "This device sees the conversations of one key only.")
        code = self._console.new_code(body.role, scope, maker=own.id)
        link = self._console.link(code)
        return json_response(
            {"code": code.text, "url": link, "qr": modules(link), "expires_at": time.time() + code.seconds}
        )

    async def sessions(self, request: Request) -> Response:
        own = session_of(request, change=False)
        seen = [each for each in self._console.sessions.all() if _sees(own, each)]
        return json_response({"sessions": [session_json(each, own) for each in seen]})

    async def end_session(self, request: Request) -> Response:
        """Sign out, or revoke another session. One that only watches can do the first."""
        own = session_of(request, change=False)
        id_ = request.path_params["id"]
        if id_ not in ("self", own.id):
            session_of(request, change=True)
            found = next((each for each in self._console.sessions.all() if each.id == id_), None)
            if found is None or not _sees(own, found):
                raise ConsoleError(404, "no_session", "There is no such session.")
            self._console.sessions.end(id_)
            return json_response({"ended": id_})
        self._console.sessions.end(own.id)
        response = json_response({"ended": own.id})
        for cookie in self._console.access.cookie_headers(request.headers, None):
            response.headers.append("set-cookie", cookie)
        return response


def _sees(own: ConsoleSession, other: ConsoleSession) -> bool:
    """Whether a session may know of another and end it. One of a single key sees those of that key."""
    return own.scope.key is None or own.scope == other.scope
