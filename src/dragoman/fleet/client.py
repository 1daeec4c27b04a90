"""The client of NATS, with guards that the library does not have.

A message that cannot be read is dropped. The library's reading task would end with it, and the node would be deaf until the
server misses its pings. Everybody who may send to a node could do that.

An address that begins with `tls://` is used with TLS only. The library does what the server says, and a server can be
anybody before it has shown its certificate.
"""

from __future__ import annotations

import logging
from typing import Any

from nats.aio.client import Client
from nats.errors import Error

__all__ = ["GuardedClient", "NoTls"]

_log = logging.getLogger(__name__)

_HEADERS_BEGIN = (b"NATS/1.0\r\n", b"NATS/1.0 ")
_HEADERS_END = b"\r\n\r\n"
# What asyncio says at the end of each connection: the library puts TLS on a stream that began without it.
_NO_EFFECT = "returning true from eof_received() has no effect when using ssl"


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return record.msg != _NO_EFFECT


class NoTls(Error):
    """The server of a `tls://` address offers no TLS."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} offers no TLS, and its address demands it")


class GuardedClient(Client):
    """A client that reads on after every message, and leaves TLS out nowhere where it was asked for."""

    # Messages that could not be read.
    _dropped = 0

    def __init__(self) -> None:
        super().__init__()
        # Once, however many clients there are.
        logging.getLogger("asyncio").addFilter(_is_worth_a_line)

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

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Without its headers a message would mean something else, so all of it is dropped."""
        if headers and not (headers.startswith(_HEADERS_BEGIN) and headers.endswith(_HEADERS_END)):
            self._note_dropped(subject, "its headers are damaged")
            return
        try:
            await super()._process_msg(sid, subject, reply, data, headers)
        except Exception as error:
            # Whatever a sender has put into it.
            self._note_dropped(subject, str(error))

    def _note_dropped(self, subject: bytes, why: str) -> None:
        """Log the first one, the second, the fourth and so on: a sender must not fill the disk."""
        self._dropped += 1
        if self._dropped.bit_count() == 1:
            _log.warning(
                "a message at %r cannot be read (%s), and is dropped; the number of such messages is %d",
                subject,
                why,
                self._dropped,
            )

    async def _read_loop(self) -> None:
        await super()._read_loop()
        if self.is_connected:
            # The task that reads has ended, and the connection has not.
            await self._process_op_err(Error("what the server sent cannot be read"))
