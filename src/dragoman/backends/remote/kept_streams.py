"""The streams of stored responses: their workers keep what the response's journal does not have.

If this gateway ends, another one reads in the journal up to which batch the response is stored. It takes the stream, and gets
every batch after that one. So nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from dragoman.backends.remote.fleet import Fleet, WorkerPeer
from dragoman.backends.remote.stream import RemoteStream, StreamPosition

__all__ = ["KeptStreams"]


class KeptStreams:
    """By the ids of their responses."""

    def __init__(self, fleet: Fleet, tell: Callable[[Coroutine[None, None, None]], None]) -> None:
        """`tell` starts the sending of a message."""
        self._fleet = fleet
        self._tell = tell
        # Those that are kept from now on, or as soon as there is a stream.
        self._kept: set[str] = set()
        # Those of them that another gateway is to take.
        self._handed_over: set[str] = set()
        # The stream of each response; kept or not.
        self._streams: dict[str, tuple[WorkerPeer, RemoteStream]] = {}

    def is_kept(self, response: str) -> bool:
        return response in self._kept

    def keep(self, response: str) -> None:
        self._kept.add(response)
        if response in self._streams:
            _, stream = self._streams[response]
            stream.response = response
            # The worker learns that it keeps the stream.
            self._tell(self._fleet.receipt(stream))

    def stored(self, response: str, position: StreamPosition) -> None:
        """The journal has everything up to this position."""
        _, stream = self._streams.get(response, (None, None))
        if stream is not None and stream.id == position.stream:
            stream.stored = position
            self._tell(self._fleet.receipt(stream))

    def release(self, response: str, *, hands_over: bool) -> None:
        """Its end is stored, or never will be; or another gateway is to take it."""
        if hands_over:
            self._handed_over.add(response)
            return
        self._kept.discard(response)
        self._handed_over.discard(response)
        if response in self._streams:
            peer, stream = self._streams[response]
            stream.response = ""
            if stream.is_read:
                del self._streams[response]
                self._tell(self._leave_read(peer, stream))

    async def _leave_read(self, peer: WorkerPeer, stream: RemoteStream) -> None:
        await self._fleet.receipt(stream)
        await self._fleet.leave(peer, stream, is_over=True)

    def begin(self, response: str, peer: WorkerPeer, stream: RemoteStream) -> None:
        """A stream of this response is open."""
        if response:
            self._streams[response] = peer, stream

    async def end(
        self, response: str, peer: WorkerPeer, stream: RemoteStream, *, is_over: bool, is_resumed: bool
    ) -> None:
        """A stream is read to its end, or was given up, or is to be resumed. The worker keeps the end until that is stored."""
        if is_over and stream.response:
            stream.is_read = True
            return
        if self._streams.get(response, (None, None))[1] is stream:
            del self._streams[response]
        hands_over = is_resumed or response in self._handed_over
        await self._fleet.leave(peer, stream, is_over=is_over, hands_over=hands_over)
