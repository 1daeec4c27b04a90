"""Lines over transports: one for both directions (a socket), or one for each (a pair of pipes).

Here are the splitting into lines, the joining of small writes, the flow control of both directions, and the one rule
for how a stream ends. It knows nothing of JSON.

**How it ends.** Once, with a reason, by whichever comes first: `close`, the end of what the other side sends, an error,
or more unsent bytes than may be buffered. From then on no line is handed out and nothing can be written; what was written
before still goes out, for a limited time. When only *writing* breaks, the stream has not ended yet: a process that
has just exited leaves its last lines in the pipe, and they are read first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from dragoman.jsonrpc.errors import ConnectionClosed
from dragoman.jsonrpc.framing import MAX_MESSAGE_BYTES, Line, LineSplitter

__all__ = [
    "CLOSE_SECONDS",
    "COALESCED_BYTES",
    "LAST_WORDS_SECONDS",
    "MAX_UNSENT_BYTES",
    "WRITE_HIGH_WATER",
    "Stream",
]

# Small messages of one turn of the event loop are written together, up to about a pipe's capacity.
COALESCED_BYTES = 64 * 1024
# Above this many unsent bytes `drain` waits.
WRITE_HIGH_WATER = 256 * 1024
# Above this many the other side counts as dead. Twice the largest message, so that one always fits.
MAX_UNSENT_BYTES = 2 * MAX_MESSAGE_BYTES
# How long a closed stream tries to get rid of what was written: a reader that is alive needs far less.
CLOSE_SECONDS = 2.0
# How long reading goes on after writing broke. A pipe whose writer is gone ends in no time.
LAST_WORDS_SECONDS = 1.0


class Stream(asyncio.Protocol):
    """The protocol of the transport that reads. With one transport for both directions it is that one's."""

    def __init__(
        self,
        *,
        on_open: Callable[[], None],
        on_line: Callable[[Line], None],
        on_end: Callable[[str], None],
        max_message: int = MAX_MESSAGE_BYTES,
        max_unsent: int = MAX_UNSENT_BYTES,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_open = on_open
        self._on_line = on_line
        self._on_end = on_end
        self._max_unsent = max_unsent
        self._splitter = LineSplitter(max_message)
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        # Whether these two are one.
        self._duplex = True
        self._paused_by: set[object] = set()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()
        # Why nothing can be written any more, and why nothing at all can happen any more.
        self._writing_ended: str | None = None
        self._ended: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._transports = 0
        self._all_lost = asyncio.Event()

    # Reading.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports += 1
        # Not by their types: those of uvloop are not subclasses of asyncio's.
        self._reader = cast("asyncio.ReadTransport", transport)
        if self._duplex:
            self._write_to(cast("asyncio.WriteTransport", transport))
        self._on_open()

    def data_received(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            if self._ended is not None:
                return
            self._on_line(line)

    def eof_received(self) -> None:
        for line in self._splitter.end():
            if self._ended is None:
                self._on_line(line)
        self._end("the other side closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport that reads is gone. If it is a socket, the one that writes is the same."""
        self._reader = None
        if self._duplex:
            self._writer = None
        self._end(_reason(exc) if exc else "the connection was closed")
        self._transport_lost()

    def pause_reading(self, by: object) -> None:
        """Pause reading until `by`, and every other caller that paused, resumes it."""
        self._paused_by.add(by)
        if self._reader is not None and len(self._paused_by) == 1 and self._ended is None:
            self._reader.pause_reading()

    def resume_reading(self, by: object) -> None:
        if by not in self._paused_by:
            return
        self._paused_by.remove(by)
        if self._reader is not None and not self._paused_by and self._ended is None:
            self._reader.resume_reading()

    @property
    def reading(self) -> bool:
        """Whether lines may come: connected, and not paused."""
        return self._reader is not None and not self._paused_by and self._ended is None

    # Writing.

    def writing_side(self) -> asyncio.BaseProtocol:
        """The protocol for a second transport, which writes. It must be connected before the first one reads."""
        self._duplex = False
        return _WritingSide(self)

    def writing_made(self, transport: asyncio.WriteTransport) -> None:
        """The transport that only writes is connected."""
        self._transports += 1
        self._write_to(transport)

    def _write_to(self, transport: asyncio.WriteTransport) -> None:
        self._writer = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self._flush()

    def write(self, data: bytes) -> None:
        """Send whole lines, in this order. Raises `ConnectionClosed` when nothing can be sent."""
        if self._writing_ended is not None:
            raise ConnectionClosed(self._writing_ended)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if not self._writable.is_set() and self.unsent > self._max_unsent:
            reason = f"the other side does not read: more than {self._max_unsent:,} bytes wait for it"
            self._abandon_writing()
            self._end(reason)
            raise ConnectionClosed(reason)
        if self._unsent_bytes >= COALESCED_BYTES:
            self._flush()
        elif len(self._unsent) == 1:
            self._loop.call_soon(self._flush)

    async def drain(self) -> None:
        """Wait until the other side has read enough. Raises `ConnectionClosed` if the stream ends."""
        if not self._writable.is_set():
            await self._writable.wait()
        if self._writing_ended is not None:
            raise ConnectionClosed(self._writing_ended)

    @property
    def unsent(self) -> int:
        """The number of buffered bytes that have not been sent."""
        buffered = self._writer.get_write_buffer_size() if self._writer is not None else 0
        return buffered + self._unsent_bytes

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def writing_lost(self, exc: Exception | None) -> None:
        """The transport that only writes is gone."""
        self._writer = None
        if self._writing_ended is None:
            reason = _reason(exc) if exc else "the other side stopped reading"
            self._end_writing(reason)
            self._end_after_last_words(reason)
        self._transport_lost()

    def _end_after_last_words(self, reason: str) -> None:
        self._timer = self._loop.call_later(LAST_WORDS_SECONDS, self._on_last_words_timeout, reason)

    def _on_last_words_timeout(self, reason: str) -> None:
        if self._paused_by:
            # We are the slow ones: what is in the pipe has not been read yet.
            self._end_after_last_words(reason)
        else:
            self._end(reason)

    def _flush(self) -> None:
        if not self._unsent or self._writer is None:
            return
        data = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._writer.write(data)

    # Ending.

    @property
    def ended(self) -> str | None:
        """Why the stream ended; None while it is open."""
        return self._ended

    def close_writing(self) -> None:
        """Send what is buffered, then close our side, and go on reading."""
        if self._writing_ended is not None:
            return
        self._end_writing("we closed our side of the connection")
        if self._writer is not None:
            # Closing a socket would end both directions.
            (self._writer.write_eof if self._duplex else self._writer.close)()

    def close(self, reason: str = "we closed the connection") -> None:
        """Close the stream. What was written before still goes out. May be called more than once."""
        self._end(reason)

    async def wait_closed(self) -> None:
        """Wait until every transport is closed, at most about `CLOSE_SECONDS` after the end."""
        await self._all_lost.wait()

    def _end(self, reason: str) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        self._end_writing(reason)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer = self._loop.call_later(CLOSE_SECONDS, self._abandon_writing)
        if self._writer is not None:
            self._writer.close()
        if self._reader is not None:
            self._reader.close()
        self._note_lost()
        self._on_end(reason)

    def _end_writing(self, reason: str) -> None:
        if self._writing_ended is None:
            self._flush()
            self._writing_ended = reason
            # A task that waits in `drain` wakes up and sees the reason.
            self._writable.set()

    def _abandon_writing(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._writer is not None:
            self._writer.abort()

    def _transport_lost(self) -> None:
        self._transports -= 1
        self._note_lost()

    def _note_lost(self) -> None:
        if self._ended is not None and not self._transports:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._all_lost.set()


class _WritingSide(asyncio.BaseProtocol):
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream.writing_made(cast("asyncio.WriteTransport", transport))

    def pause_writing(self) -> None:
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self._stream.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.writing_lost(exc)


def _reason(error: Exception) -> str:
    match error:
        case BrokenPipeError() | ConnectionResetError():
            return "the other side closed the connection while we were sending"
        case OSError(strerror=str(text)):
            return f"the connection broke: {text}"
        case _:
            return f"the connection broke: {str(error) or type(error).__name__}"
