"""The streams of background responses: their workers keep what the response's journal does not have.

If this gateway ends, another one reads in the journal up to which batch the response is stored. It takes the stream, and gets
every batch after that one. So nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from dragoman.backends.remote.stream import RemoteStream, StreamPosition
from dragoman.backends.remote.worker_streams import WorkerPeer, WorkerStreams

__all__ = ["KeptStreams"]


class KeptStreams:
    """By the ids of their responses."""

    def __init__(self, streams: WorkerStreams, tell: Callable[[Coroutine[None, None, None]], None]) -> None:
        """`tell` starts the sending of a message."""
        self._streams = streams
        self._tell = tell
        # Those that are kept from now on, or as soon as there is a stream.
        self._kept: set[str] = set()
        # Those of them that another gateway is to take.
        self._handed_over: set[str] = set()
        # The stream of each response; kept or not.
        self._open: dict[str, tuple[WorkerPeer, RemoteStream]] = {}

    def is_kept(self, response: str) -> bool:
        return response in self._kept

    def is_handed_over(self, response: str) -> bool:
        return response in self._handed_over

    def keep(self, response: str) -> None:
        self._kept.add(response)
        if response in self._open:
            _, stream = self._open[response]
            stream.background_id = response
            # The worker learns that it keeps the stream.
            self._tell(self._streams.receipt(stream))

    def stored(self, response: str, position: StreamPosition) -> None:
        """The journal has everything up to this position."""
        _, stream = self._open.get(response, (None, None))
        if stream is not None and stream.id == position.stream:
            stream.stored = position
            self._tell(self._streams.receipt(stream))

    def release(self, response: str) -> None:
        """Its end is stored, or never will be."""
        self._kept.discard(response)
        self._handed_over.discard(response)
        if (found := self._open.get(response)) is not None:
            found[1].background_id = ""
            self._leave_if_read(response, hands_over=False)

    def hand_over(self, response: str) -> None:
        """Another gateway is to take it."""
        self._handed_over.add(response)
        self._leave_if_read(response, hands_over=True)

    def _leave_if_read(self, response: str, *, hands_over: bool) -> None:
        """Leave a stream that was read to its end, and waits until that is stored."""
        peer, stream = self._open.get(response, (None, None))
        if peer is None or stream is None or not stream.is_read:
            return
        del self._open[response]
        if not hands_over:
            self._tell(self._streams.receipt(stream))
        self._tell(self._streams.leave(peer, stream, is_over=True, hands_over=hands_over))

    def begin(self, response: str, peer: WorkerPeer, stream: RemoteStream) -> None:
        """A stream of this response is open."""
        if response:
            self._open[response] = peer, stream

    async def end(
        self, response: str, peer: WorkerPeer, stream: RemoteStream, *, is_over: bool, is_resumed: bool
    ) -> None:
        """A stream is read to its end, or was given up, or is to be resumed. The worker keeps the end until that is stored."""
        hands_over = is_resumed or (not is_over and response in self._handed_over)
        if is_over and stream.background_id:
            stream.is_read = True
            if response in self._handed_over:
                self._leave_if_read(response, hands_over=True)
            return
        if self._open.get(response, (None, None))[1] is stream:
            del self._open[response]
        await self._streams.leave(peer, stream, is_over=is_over, hands_over=hands_over)
