"""Sends bytes to a NATS server that no client library would send."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

__all__ = ["RawSender"]


class RawSender:
    """A connection to a server that asks for no credentials."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        await self._reader.readline()
        self._writer.write(b'CONNECT {"verbose": false, "headers": true, "lang": "raw", "protocol": 1}\r\n')
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def send(self, message: bytes) -> None:
        """Returns when the server has taken it."""
        self._writer.write(message + b"PING\r\n")
        while (line := await self._reader.readline()) != b"PONG\r\n":
            assert line.startswith((b"PING", b"INFO")), line

    async def publish(self, subject: bytes, headers: bytes, data: bytes = b"", reply: bytes = b"") -> None:
        sizes = b"%d %d" % (len(headers), len(headers) + len(data))
        await self.send(b"HPUB %s %s %s\r\n%s%s\r\n" % (subject, reply, sizes, headers, data))
