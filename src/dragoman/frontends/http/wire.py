"""Reads request bodies, and writes responses and errors. A body has a size limit and a time limit."""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response

from dragoman.frontends.http.errors import ApiError
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["DONE", "JsonResponse", "error_response", "framed", "read_body"]


_log = logging.getLogger(__name__)


DONE = b"data: [DONE]\n\n"
# A client on the same machine takes milliseconds. A slower one would hold a connection for nothing.
_BODY_SECONDS = 60.0


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return encode(content)


def error_response(error: ApiError, path: str) -> JsonResponse:
    return JsonResponse(error.body_at(path), error.status, error.headers)


def framed(event: JsonObject) -> bytes:
    """Return an event as a server-sent event. Encoded JSON contains no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), encode(event))


async def read_body(request: Request, limit: int) -> bytes:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # A page may send other types across sites without a preflight request.
        raise ApiError(415, "invalid_request", "Send JSON: `Content-Type: application/json`.")
    too_large = ApiError(
        413, "invalid_request", f"The body has more than {limit:,} bytes.", code="body_too_large"
    )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        _log.warning("a body was not complete after %g seconds: the request is refused", _BODY_SECONDS)
        raise ApiError(408, "invalid_request", "The body took too long.") from None
    return bytes(body)
