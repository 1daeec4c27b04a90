"""Errors of the console's API: a status, a code for the page, and a sentence for the person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["API_ROOT", "ConsoleError", "error_response", "on_console_error"]

API_ROOT = "/console/api/"


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


def error_response(error: ConsoleError, path: str) -> Response:
    """JSON for the page; for a person who opens an address, the sentence."""
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if path.startswith(API_ROOT):
        return Response(encode(error.body), error.status, headers, "application/json")
    return Response(f"{error.message}\n", error.status, headers, "text/plain")


async def on_console_error(request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    if not isinstance(error, ConsoleError) or request.scope["type"] != "http":
        # `RequestMiddleware` refuses a WebSocket.
        raise error
    return error_response(error, request.scope["path"])
