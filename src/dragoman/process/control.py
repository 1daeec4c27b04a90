"""Our end of the control channel: the supervisor's reports, and the order to end."""

from __future__ import annotations

import asyncio
from typing import TypeVar, cast

from dragoman.process.exit import Exit

__all__ = ["Control"]

_T = TypeVar("_T")


class Control(asyncio.Protocol):
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        # The first line: how starting went; empty when the supervisor went without a word.
        self.start: asyncio.Future[str] = loop.create_future()
        # How the child ended; unknown when the supervisor went before it.
        self.exit: asyncio.Future[Exit] = loop.create_future()
        # The channel is closed: everything is gone, or the supervisor was killed.
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            match line.decode().split():
                case ["exited", code]:
                    _settle(self.exit, Exit(code=int(code)))
                case ["signalled", number]:
                    _settle(self.exit, Exit(signal=int(number)))
                case _:
                    _settle(self.start, line.decode())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        _settle(self.start, "")
        _settle(self.exit, Exit())
        self.closed.set()

    def end(self, grace: float) -> None:
        """Order the supervisor to end everything, and go on reading its reports."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(f"{grace}\n".encode())
            self._transport.write_eof()

    def abandon(self) -> None:
        """Order the supervisor to end everything, and close the channel."""
        if self._transport is None:
            self.connection_lost(None)
        else:
            self._transport.abort()


def _settle(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():
        future.set_result(value)
