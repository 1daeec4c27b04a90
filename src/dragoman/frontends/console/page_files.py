"""The files of the console's page, read once when the server starts.

They are served under the names that were found then: a request never becomes a path. The headers let the page load and run
nothing but its own files, and let no other page embed or read them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from dragoman.frontends.console.access import ConsoleAccess
from dragoman.frontends.console.wire import COMMON_HEADERS, ConsoleError

__all__ = ["PAGE_FOLDER", "PAGE_HEADERS", "PageFiles"]

PAGE_FOLDER = Path(__file__).parent / "page"
_DOCUMENT = "index.html"
_SERVICE_WORKER = "sw.js"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dragoman"
)
# What browsers offer to pages and this one does not use.
_UNUSED = (
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), "
    "gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), "
    "screen-wake-lock=(), usb=(), xr-spatial-tracking=()"
)
PAGE_HEADERS: Mapping[str, str] = {
    **COMMON_HEADERS,
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": _UNUSED,
    # The browser asks each time, and the tag spares the content: after an update no old file is mixed with new ones.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    # The same, compressed.
    packed: bytes
    media_type: str
    tag: str


class PageFiles:
    """Serves the page."""

    def __init__(self, access: ConsoleAccess, folder: Path = PAGE_FOLDER) -> None:
        self._access = access
        self._files = {
            path.name: _read(path.read_bytes(), _TYPES[path.suffix])
            for path in folder.iterdir()
            if path.suffix in _TYPES and path.is_file()
        }
        self._document = self._files.pop(_DOCUMENT)
        # It has a path of its own, which is its scope.
        self._service_worker = self._files.pop(_SERVICE_WORKER)

    async def document(self, request: Request) -> Response:
        self._access.check_page(request.headers, is_document=True)
        return _served(request, self._document)

    async def file(self, request: Request) -> Response:
        self._access.check_page(request.headers, is_document=False)
        return _served(request, self._files.get(request.path_params["name"]))

    async def service_worker(self, request: Request) -> Response:
        """At this path its scope is `/console/`, so it never comes between the API's clients and the server."""
        self._access.check_page(request.headers, is_document=False)
        return _served(request, self._service_worker)


def _read(content: bytes, media_type: str) -> _File:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _File(content, gzip.compress(content, mtime=0), media_type, tag)


def _served(request: Request, file: _File | None) -> Response:
    if file is None:
        raise ConsoleError(404, "not_found", "The console has no such file.")
    headers = {**PAGE_HEADERS, "etag": file.tag, "vary": "accept-encoding"}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if file.tag in known or known == ["*"]:
        return Response(status_code=304, headers=headers)
    if _takes_gzip(request.headers.get("accept-encoding", "")):
        headers["content-encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether a browser takes a compressed file. All do; a program may not."""
    return any(each.strip().lower() == "gzip" for each in accepted.split(","))
