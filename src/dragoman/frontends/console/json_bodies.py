"""Bodies of the console's API: JSON in, JSON out."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.frontends.console.access import session_of
from dragoman.frontends.console.errors import ConsoleError
from dragoman.frontends.console.sessions import ConsoleSession
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["json_response", "read_call", "read_json"]

_T = TypeVar("_T")

# A reason that a person types is the longest thing that a page sends.
_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 30.0


async def read_call(request: Request, type_: type[_T], *, change: bool) -> tuple[ConsoleSession, _T]:
    """The session of a call and its body. Raises `ConsoleError`.

    The session is looked up again when the body is there: it may have been revoked while that was sent.
    """
    session_of(request, change=change)
    body = await read_json(request, type_)
    return session_of(request, change=change), body


async def read_json(request: Request, type_: type[_T]) -> _T:
    """The body of a request as a value of this type. Raises `ConsoleError`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A form can send other types without asking.
        raise ConsoleError(415, "not_json", "Send JSON: `Content-Type: application/json`.")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _BODY_BYTES:
                    raise ConsoleError(
                        413, "body_too_large", f"The body has more than {_BODY_BYTES:,} bytes."
                    )
    except TimeoutError:
        raise ConsoleError(408, "too_slow", "The body took too long.") from None
    try:
        return msgspec.json.decode(bytes(body), type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Its words name the field, not the value.
        raise ConsoleError(400, "bad_request", f"The body cannot be read: {error}.") from None


def json_response(value: JsonObject, status: int = 200) -> Response:
    headers = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
    }
    return Response(encode(value), status, headers, "application/json")
