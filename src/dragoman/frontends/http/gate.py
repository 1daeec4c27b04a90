"""Who may come in.

With keys, whoever has one. Without, only this machine: and not a page in its browser either, which any site can make ask
under a name that leads here. So without keys the `Host` must be a name of this machine, and an `Origin` must be the same or
one that is configured. Keys are compared by their digests, all of them, in a time that tells nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from dragoman.frontends.http.errors import ApiError
from dragoman.loopback import is_loopback

__all__ = ["Gate"]

_CONNECTION_BYTES = 12


@dataclass(frozen=True, slots=True)
class Gate:
    keys: tuple[str, ...] = ()
    origins: Sequence[str] = ()

    def __post_init__(self) -> None:
        # A blank key would turn the host check off and let everybody in. The configuration refuses it; so does this.
        if not all(key.strip() for key in self.keys):
            raise ValueError("an API key is blank")

    def check_place(self, headers: Mapping[str, str]) -> None:
        """That the request was meant for this server. A key says so by itself."""
        if self.keys:
            return
        host = _host(headers.get("host", ""))
        if host is None or not is_loopback(host):
            raise ApiError(
                403,
                "invalid_request",
                "Without API keys only names of this machine are served: localhost, 127.0.0.1 or [::1].",
                code="forbidden_host",
            )
        origin = headers.get("origin")
        if origin is None or origin in self.origins:
            return
        if _authority(origin) != headers.get("host"):
            raise ApiError(
                403,
                "invalid_request",
                "Pages of this origin may not ask here. Allow it with `cors_origins` in [serve].",
                code="forbidden_origin",
            )

    def connection(self, headers: Mapping[str, str]) -> str:
        """The name under which a client's conversations are kept. Raises for one that may not come in."""
        if not self.keys:
            return "http:"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # What HTTP allows around the value, and nothing else.
        given = given.strip(" \t")
        digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
        matches = [hmac.compare_digest(digest, hashlib.sha256(key.encode()).digest()) for key in self.keys]
        if scheme.lower() != "bearer" or not any(matches):
            raise ApiError(
                401,
                "invalid_request",
                "Send one of the server's API keys: `Authorization: Bearer KEY`.",
                code="invalid_api_key",
            )
        name = hashlib.blake2b(given.encode(), digest_size=_CONNECTION_BYTES, person=b"dragoman-http")
        return f"http:{name.hexdigest()}"


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
