"""The route by which clients fetch pictures and files.

An agent chooses the bytes and their type, and the page of the console has the same origin. So a browser may show a file,
but nothing in it acts: no type that browsers run, a sandbox without an origin, and no guessing of types.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.http.file_links import FILES_PATH, is_file_id, shown_name
from dragoman.frontends.http.files import Files
from dragoman.frontends.http.middleware import client_of

__all__ = ["file_route"]

# Types that a browser shows on a page of their own. An SVG is not one: there, its scripts would run.
_SHOWN = re.compile(r"(?:image/(?:png|jpeg|gif|webp|avif|bmp)|audio/[\w.+-]+|video/[\w.+-]+)", re.ASCII)
# Types that keep their name, because no page can run them. As a page, they are downloaded; `<img>` shows an SVG.
_HARMLESS = re.compile(r"image/svg\+xml|application/(?:pdf|json|zip)|text/(?:plain|csv|markdown)", re.ASCII)
_BYTES = "application/octet-stream"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    # A chat UI at another address shows the picture.
    "cross-origin-resource-policy": "cross-origin",
    "referrer-policy": "no-referrer",
    # It is gone when it is deleted.
    "cache-control": "private, no-store",
}


def file_route(files: Files, connections: Collection[str]) -> Route:
    """The route for files of these connections: those of a key that was removed are gone."""

    async def content(request: Request) -> Response:
        id_ = request.path_params["id"]
        file = await files.find(id_) if is_file_id(id_) else None
        if file is None or file.connection not in connections:
            raise _not_found()
        if "authorization" in request.headers and client_of(request).connection != file.connection:
            raise _not_found()
        essence = file.mime_type.partition(";")[0].strip().lower()
        is_shown = _SHOWN.fullmatch(essence) is not None
        name = quote(shown_name(file.part), safe="")
        disposition = f"{'inline' if is_shown else 'attachment'}; filename*=UTF-8''{name}"
        kind = essence if is_shown or _HARMLESS.fullmatch(essence) else _BYTES
        headers = {**_HEADERS, "content-type": kind, "content-disposition": disposition}
        return Response(file.data, headers=headers)

    return Route(f"{FILES_PATH}{{id}}/content", content, methods=["GET"])


def _not_found() -> ApiError:
    return ApiError(
        404, "not_found", "There is no such file. It may have been deleted.", code="file_not_found"
    )
