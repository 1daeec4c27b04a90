"""The client of NATS, with guards that the library does not have.

An address that begins with `tls://` is used with TLS only. The library does what the server says, and a server can be
anybody before it has shown its certificate.
"""

from __future__ import annotations

from typing import Any

from nats.aio.client import Client
from nats.errors import Error

__all__ = ["GuardedClient", "NoTls"]


class NoTls(Error):
    """The server of a `tls://` address offers no TLS."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} offers no TLS, and its address demands it")


class GuardedClient(Client):
    """A client that leaves TLS out nowhere where it was asked for."""

    async def _process_info(
        self,
        info: dict[str, Any],
        initial_connection: bool = False,  # noqa: FBT001, FBT002 - the library's signature
    ) -> None:
        """Called before credentials are sent, at each connection; then with news of the cluster.

        Servers that the cluster names get the scheme of the server that names them.
        """
        server = self._current_server
        if initial_connection and server is not None and server.uri.scheme == "tls":
            # A server that allows both leaves it to the client.
            info["tls_required"] = bool(info.get("tls_required") or info.get("tls_available"))
            if not info["tls_required"]:
                if self._transport is not None:
                    self._transport.close()  # type: ignore[no-untyped-call]
                raise NoTls(server.uri.geturl())
        await super()._process_info(info, initial_connection)
