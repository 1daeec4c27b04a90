"""Fetching a file, with a limit, a deadline for silence, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2

from dragoman.loopback import is_loopback

__all__ = ["DownloadError", "download"]

_CHUNK_BYTES = 256 * 1024


class DownloadError(Exception):
    """What could not be fetched, why, and what to do."""


async def download(
    address: str,
    write: Callable[[bytes], object],
    *,
    limit: int,
    seconds: float,
    on_size: Callable[[int | None], object] = lambda _size: None,
) -> None:
    """Pass a file's bytes to `write`. Fails after `seconds` of silence. `on_size` receives the size, if it is known.

    An address is https, or a file of this machine; plain http only to this machine itself.
    """
    parts = urlsplit(address)
    if parts.scheme == "file":
        _copy(Path(unquote(parts.path)), write, limit, on_size)
        return
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise DownloadError(f"{address} is no address to fetch from: https:// is, and file://.")
    taken = 0
    try:
        async with (
            httpx2.AsyncClient(follow_redirects=True, timeout=seconds) as client,
            client.stream("GET", address) as response,
        ):
            response.raise_for_status()
            length = response.headers.get("content-length", "")
            on_size(int(length) if length.isdigit() else None)
            async for chunk in response.aiter_bytes(_CHUNK_BYTES):
                taken += len(chunk)
                if taken > limit:
                    raise DownloadError(
                        f"{address} has more than {limit:,} bytes: that is not what was meant."
                    )
                write(chunk)
    except httpx2.HTTPStatusError as error:
        raise DownloadError(f"{address} answered {error.response.status_code}.") from error
    except httpx2.TimeoutException as error:
        raise DownloadError(f"{address} has not answered for {seconds:g} seconds. Try again.") from error
    except httpx2.HTTPError as error:
        raise DownloadError(
            f"{address} cannot be fetched: {error}. Is there a network? Proxies are taken from the environment."
        ) from error


def _copy(
    path: Path, write: Callable[[bytes], object], limit: int, on_size: Callable[[int | None], object]
) -> None:
    if not path.is_file():
        raise DownloadError(f"{path} is no file.")
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size > limit:
                raise DownloadError(f"{path} has more than {limit:,} bytes: that is not what was meant.")
            on_size(size)
            while chunk := file.read(_CHUNK_BYTES):
                write(chunk)
    except OSError as error:
        raise DownloadError(f"{path} cannot be read: {error.strerror}.") from error
