"""Reads the bodies of the console's API, and writes its responses and errors."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = [
    "API_ROOT",
    "COMMON_HEADERS",
    "ConsoleError",
    "error_response",
    "json_response",
    "on_console_error",
    "read_json",
]

_T = TypeVar("_T")

API_ROOT = "/console/api/"
# No other page may embed or read what the console sends.
COMMON_HEADERS = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin"}
_HEADERS = {**COMMON_HEADERS, "cache-control": "no-store"}
# A reason that a person types is the longest thing that a page sends.
_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 30.0


class ConsoleError(Exception):
    """An error response of the console: a code for the page, and a sentence for the person.

    `more` is added to the body beside `error`.
    """

    def __init__(self, status: int, code: str, message: str, more: JsonObject | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more or {}

    @property
    def body(self) -> JsonObject:
        return {"error": {"code": self.code, "message": self.message}, **self.more}


def json_response(value: JsonObject, status: int = 200) -> Response:
    return Response(encode(value), status, _HEADERS, "application/json")


def error_response(error: ConsoleError, path: str) -> Response:
    """JSON for the page; for a person who opens an address, the sentence."""
    if path.startswith(API_ROOT):
        return json_response(error.body, error.status)
    return Response(f"{error.message}\n", error.status, _HEADERS, "text/plain")


async def on_console_error(request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    if not isinstance(error, ConsoleError) or request.scope["type"] != "http":
        # `RequestMiddleware` refuses a WebSocket.
        raise error
    return error_response(error, request.scope["path"])


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
