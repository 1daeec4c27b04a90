"""Getting an address over HTTP: one that was agreed to, and nothing else on the way.

A redirection is followed when it leads to the same address over a safe line, or with or without a slash at its end. Any
other is told and can be asked for, also one on the same host: what was agreed to may have been one address, or those of
a pattern, and whoever is asked next time knows. An address may lead to this machine or the local network although its name does not say so. That is found when the connection stands
and nothing has been sent yet.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urljoin

from dragoman import __version__
from dragoman.permissions.urls import Url, is_local_address

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "FETCH_SECONDS",
    "MAX_BODY_BYTES",
    "MAX_REDIRECTIONS",
    "LedToLocal",
    "LocalAllowed",
    "NotFetched",
    "WebPage",
    "download",
]

FETCH_SECONDS = 30.0
# A long page of text has some hundred kilobytes.
MAX_BODY_BYTES = 5 * 1024 * 1024
MAX_REDIRECTIONS = 5

# Which address on this machine or the local network may be contacted: any, this one, or none.
LocalAllowed: TypeAlias = str | None


class NotFetched(Exception):
    """Why there is nothing to show, in words for the model."""


class LedToLocal(Exception):
    """The name leads to an address on this machine or the local network. Nothing was sent there."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


@dataclass(frozen=True, slots=True)
class WebPage:
    url: Url
    status: str
    is_error: bool
    mime_type: str
    charset: str | None
    body: bytes
    is_cut: bool


async def download(url: Url, *, local_allowed: LocalAllowed) -> WebPage:
    import httpx2  # noqa: PLC0415 - takes a while to import, and most sessions fetch nothing

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await _get(url, local_allowed=local_allowed)
    except TimeoutError:
        raise NotFetched(f"{url.origin} took longer than {FETCH_SECONDS:g} seconds.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NotFetched(f"{url} could not be fetched: {str(error) or type(error).__name__}.") from error


@cache
def _certificates() -> ssl.SSLContext:
    """Of all whom this machine trusts. To read them takes longer than to fetch a page from nearby."""
    import httpx2  # noqa: PLC0415 - as above

    return httpx2.create_ssl_context()


async def _get(url: Url, *, local_allowed: LocalAllowed) -> WebPage:
    import httpx2  # noqa: PLC0415 - as above

    headers = {
        "User-Agent": f"dragoman/{__version__}",
        "Accept": "text/html, text/*, application/json, image/*, */*;q=0.5",
        # A compressed page could be a thousand times as large as what arrives.
        "Accept-Encoding": "identity",
    }
    # The deadline for all of it is ours.
    client = httpx2.AsyncClient(headers=headers, timeout=None, follow_redirects=False, verify=_certificates())
    async with client:
        for _ in range(MAX_REDIRECTIONS + 1):
            watch = _ConnectionWatch(url.host, local_allowed=local_allowed)
            request = client.build_request("GET", str(url), extensions={"trace": watch})
            response = await client.send(request, stream=True)
            try:
                target = _redirection(response, url)
                if target is None:
                    return await _read(response, url)
            finally:
                await response.aclose()
            if not _is_same_address(url, target):
                raise NotFetched(
                    f"{url} redirects to {target}, which nobody was asked about. To follow it, fetch that address."
                )
            url = target
    raise NotFetched(f"{url} was the last of {MAX_REDIRECTIONS} redirections; there may be no end to them.")


class _Stream(Protocol):
    """What we use of a connection that the HTTP client has made."""

    def get_extra_info(self, info: str) -> object: ...

    async def aclose(self) -> None: ...


class _ConnectionWatch:
    """Looks at where a connection leads, when it stands and before anything goes over it."""

    def __init__(self, host: str, *, local_allowed: LocalAllowed) -> None:
        self._host = host
        self._local_allowed = local_allowed
        self._connecting_to: object = None

    async def __call__(self, event: str, info: dict[str, object]) -> None:
        match event:
            case "connection.connect_tcp.started":
                self._connecting_to = info["host"]
            case "connection.connect_tcp.complete" if self._connecting_to == self._host:
                # Not so where a proxy is between: it is the proxy that looks up the name, in its own network.
                await self._check(info["return_value"])  # type: ignore[arg-type] # by the client's documentation
            case _:
                pass

    async def _check(self, stream: _Stream) -> None:
        peer = stream.get_extra_info("server_addr")
        address = ipaddress.ip_address(peer[0]) if isinstance(peer, tuple) else None
        if self._local_allowed in ("any", str(address)):
            return
        if address is None or is_local_address(address):
            await stream.aclose()
            raise LedToLocal(str(address))


def _redirection(response: httpx2.Response, url: Url) -> Url | None:
    if not response.has_redirect_location:
        return None
    location = response.headers["location"]
    try:
        return Url.parse(urljoin(str(url), location))
    except ValueError as error:
        raise NotFetched(f"{url} redirects to {location!r}, which is no address to follow.") from error


def _is_same_address(url: Url, target: Url) -> bool:
    """Whether a redirection only makes the line safe, or adds or takes away a slash at the end."""
    if (url.scheme, url.port, target.scheme, target.port) == ("http", 80, "https", 443):
        url = replace(url, scheme="https", port=443)
    return replace(url, path=_without_slash(url.path)) == replace(target, path=_without_slash(target.path))


def _without_slash(path: str) -> str:
    return path.removesuffix("/")


async def _read(response: httpx2.Response, url: Url) -> WebPage:
    body = bytearray()
    is_cut = False
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            del body[MAX_BODY_BYTES:]
            is_cut = True
            break
    return WebPage(
        url=url,
        status=f"{response.status_code} {response.reason_phrase}".strip(),
        is_error=response.is_error,
        mime_type=response.headers.get("content-type", "").partition(";")[0].strip().lower(),
        charset=response.charset_encoding,
        body=bytes(body),
        is_cut=is_cut,
    )
