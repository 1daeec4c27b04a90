"""Errors of the console's API: a status, a code for the page, and a sentence for the person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["ConsoleError", "error_response", "on_console_error"]


class ConsoleError(Exception):
    """An error response of the console. `more` is added to the body beside `error`."""

    def __init__(self, status: int, code: str, message: str, more: JsonObject | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more or {}

    @property
    def body(self) -> JsonObject:
        return {"error": {"code": self.code, "message": self.message}, **self.more}


def error_response(error: ConsoleError) -> Response:
    return Response(
        encode(error.body),
        error.status,
        {"cache-control": "no-store", "x-content-type-options": "nosniff"},
        media_type="application/json",
    )


async def on_console_error(_request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    if not isinstance(error, ConsoleError):
        raise error
    return error_response(error)
