"""Two peers connected without a file descriptor, for tests.

The transport is like the others: bytes, delivered on a later turn of the event loop, in order, with flow control in both
directions, an end of stream after the last byte, and a way to break.
"""

from __future__ import annotations

import asyncio
from collections import deque

from dragoman.jsonrpc.peer import DEFAULT_OPTIONS, Peer, PeerOptions, Receiver
from dragoman.jsonrpc.stream import Stream

__all__ = ["MemoryTransport", "memory_pair"]


def memory_pair(
    left: Receiver,
    right: Receiver,
    left_options: PeerOptions = DEFAULT_OPTIONS,
    right_options: PeerOptions = DEFAULT_OPTIONS,
) -> tuple[Peer, Peer]:
    """The peer whose receiver is `left` and the one whose receiver is `right`, talking to each other."""
    peers = Peer(left, left_options), Peer(right, right_options)
    for peer, transport in zip(peers, MemoryTransport.pair(peers[0].stream, peers[1].stream), strict=True):
        peer.stream.connection_made(transport)
    return peers


class MemoryTransport(asyncio.Transport):
    """One end. What is written here waits in the other end's inbox until that one reads."""

    other: MemoryTransport

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        # Bytes, and at last None: the end of the stream.
        self._inbox: deque[bytes | None] = deque()
        self.inbox_bytes = 0
        self._high_water = 0
        self._reading = True
        self._delivering = False
        self._write_ended = False
        self._write_paused = False
        self._closing = False

    @classmethod
    def pair(cls, left: Stream, right: Stream) -> tuple[MemoryTransport, MemoryTransport]:
        ends = cls(left), cls(right)
        ends[0].other, ends[1].other = ends[1], ends[0]
        return ends

    # Reading.

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._deliver_soon()

    def arrive(self, data: bytes | None) -> None:
        """The other end wrote this, or its end."""
        if self._closing:
            return
        self._inbox.append(data)
        self.inbox_bytes += len(data or b"")
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if self._inbox and not self._delivering:
            self._delivering = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        if not self._inbox or not self.is_reading():
            return
        data = self._inbox.popleft()
        if data is None:
            self._stream.eof_received()
            self.close()
            return
        self.inbox_bytes -= len(data)
        self._stream.data_received(data)
        self._deliver_soon()
        self.other.taken()

    # Writing.

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = high or 0

    def get_write_buffer_size(self) -> int:
        return self.other.inbox_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._write_ended:
            return
        self.other.arrive(bytes(data))
        if self.other.inbox_bytes > self._high_water and not self._write_paused:
            self._write_paused = True
            self._stream.pause_writing()

    def taken(self) -> None:
        """The other end has read something."""
        if self._write_paused and self.other.inbox_bytes <= self._high_water:
            self._write_paused = False
            self._stream.resume_writing()

    def write_eof(self) -> None:
        if not self._write_ended:
            self._write_ended = True
            self.other.arrive(None)

    # Ending.

    def close(self) -> None:
        """What was written is still delivered, and then the end."""
        self.write_eof()
        self.lose(None)

    def abort(self) -> None:
        """What was written and not read is lost, and both ends see the connection break."""
        self.lose(None)
        self.other.lose(ConnectionResetError())

    def lose(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        self._inbox.clear()
        self.inbox_bytes = 0
        self._loop.call_soon(self._stream.connection_lost, error)
