"""Access control: API keys, or only this machine.

With keys, every client that sends one has access. Without keys, only programs of this machine have. A page in a browser
has not: any site can send requests from it, under a host name that resolves to this machine. So without keys the `Host`
must be a name of this machine, and an `Origin` must be the same or a configured one. A key is compared with all keys, by
digest and in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.config import ClientKey
from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.request_values import header_values, host_header
from dragoman.loopback import is_loopback

__all__ = ["WITHOUT_KEY", "AccessCheck"]

# The connection of every client of a server that has no keys.
WITHOUT_KEY = "http:"


@dataclass(frozen=True, slots=True)
class AccessCheck:
    keys: tuple[ClientKey, ...] = ()
    origins: Sequence[str] = ()

    def __post_init__(self) -> None:
        # A blank key would turn the host check off and give every client access. The configuration refuses it as well.
        if not all(key.secret.strip() for key in self.keys):
            raise ValueError("an API key is blank")

    def check_host_and_origin(self, headers: Mapping[str, str]) -> None:
        """Check that the request was addressed to this server. A key proves that as well."""
        if self.keys:
            return
        host = host_header(headers)
        if host is None or not is_loopback(host.name):
            raise ApiError(
                403,
                "invalid_request",
                "Without API keys only names of this machine are served: localhost, 127.0.0.1 or [::1].",
                code="forbidden_host",
            )
        own = (f"http://{host.text}", f"https://{host.text}")
        origins = header_values(headers, "origin")
        if len(origins) > 1 or any(each not in self.origins and each not in own for each in origins):
            raise ApiError(
                403,
                "invalid_request",
                "Pages of this origin may not send requests. Allow it with `cors_origins` in [serve].",
                code="forbidden_origin",
            )

    def key(self, headers: Mapping[str, str]) -> ClientKey | None:
        """Return the client's key, or None if the server has no keys. Raise `ApiError` for a client without access."""
        if not self.keys:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # HTTP allows only these characters around the value.
        given = given.strip(" \t")
        digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
        matches = [
            key
            for key in self.keys
            if hmac.compare_digest(digest, hashlib.sha256(key.secret.encode()).digest())
        ]
        if scheme.lower() != "bearer" or not matches:
            raise ApiError(
                401,
                "invalid_request",
                "Send one of the server's API keys: `Authorization: Bearer KEY`.",
                code="invalid_api_key",
            )
        return matches[0]
