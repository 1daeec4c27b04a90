"""A page on this machine that notices when it is fetched."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["MARK", "ProbePage"]

# Part of its address: a request for permission that has it is about this page.
MARK = "dragoman-fetch"
_HOST = "127.0.0.1"
_TEXT = b"This page is for a check of Dragoman.\n"
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
    % (
        len(_TEXT),
        _TEXT,
    )
)
# Of what a visitor sends: more than any request for this page has.
_MAX_REQUEST_BYTES = 64 * 1024
# One that has sent half a request by then sends no more.
_REQUEST_SECONDS = 5.0


class ProbePage:
    """Serves one page on the loopback interface while it is open. Any byte that arrives counts as a visit.

    Also one that is no HTTP: agents try HTTPS first, and have gone to the network by then.
    """

    def __init__(self) -> None:
        self.was_visited = False
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        if self._server is None:
            raise AssertionError("not open")
        return f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}/{MARK}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._greet, _HOST, 0, limit=_MAX_REQUEST_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = asyncio.create_task(self._serve(reader, writer))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not (first := await reader.read(1)):
                return
            self.was_visited = True
            with suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_REQUEST_SECONDS):
                    if first.isalpha():
                        await reader.readuntil(b"\r\n\r\n")
                        writer.write(_ANSWER)
                        await writer.drain()
        except ConnectionError:
            # The visitor has gone. The visit counts.
            return
        finally:
            writer.close()
