"""The end of what a process writes to its standard error.

Everything is read, so that the process never has to wait, and only the end is buffered, for the message that says why the
process failed.
"""

from __future__ import annotations

import asyncio

__all__ = ["TAIL_BYTES", "TAIL_LINES", "Tail"]

# As much as a user reads in an error message, and a traceback or two in full.
TAIL_LINES = 50
TAIL_BYTES = 16 * 1024


class Tail(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.BaseTransport | None = None
        self._buffer = bytearray()
        # The number of bytes in all, buffered or discarded.
        self.received = 0
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._buffer += data
        # Not before it is twice the size, so that it is not moved for every few bytes.
        if len(self._buffer) > 2 * TAIL_BYTES:
            del self._buffer[:-TAIL_BYTES]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        self.ended.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def text(self) -> str:
        """The last lines, whatever the bytes were."""
        buffered = bytes(self._buffer[-TAIL_BYTES:])
        lines = buffered.decode(errors="replace").splitlines()
        if self.received > len(buffered) and len(lines) > 1:
            # Its beginning is missing.
            del lines[0]
        return "\n".join(lines[-TAIL_LINES:])
