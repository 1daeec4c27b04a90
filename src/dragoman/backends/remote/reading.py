"""Reads one response from a worker, and reports its parts.

It may take several streams: the conversation may move, and a gateway that was cut off takes up the stream of a background response
again.
"""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from dragoman.backends.remote.permission_mirror import PermissionMirror
from dragoman.backends.remote.stream import RemoteStream, StreamPosition
from dragoman.backends.remote.worker_streams import WorkerLost, WorkerPeer, WorkerStreams
from dragoman.fleet.messages import Batch, StreamEnd
from dragoman.lm import DataPart, Request, Sink
from dragoman.lm.parts import CONVERSATION, POSITION

__all__ = ["StreamReader"]


class StreamReader:
    def __init__(
        self,
        streams: WorkerStreams,
        sink: Sink,
        response: str,
        mirror: PermissionMirror | None,
        request: Request | None,
    ) -> None:
        """`response`: the id of a stored response, or "". `request` is None if another gateway has made it."""
        self._streams = streams
        self._sink = sink
        self.response = response
        self._mirror = mirror
        self._request = request
        # Up to where everything is reported.
        self.position = StreamPosition("", "", "")
        # Set when everything is reported that another gateway may have shown.
        self.has_caught_up = asyncio.Event()

    @property
    def conversation(self) -> str | None:
        """The conversation of the response, as far as it is known."""
        report = self.position.conversation
        return msgspec.json.decode(report, type=_Conversation).conversation if bytes(report) else None

    def begin(self, position: StreamPosition) -> None:
        """What comes next comes after this position."""
        self.position = position
        if bytes(position.conversation):
            self._sink.report(DataPart(CONVERSATION, bytes(position.conversation)))
        self._report_position()

    async def read(self, peer: WorkerPeer, stream: RemoteStream) -> StreamEnd:
        """Report what arrives, until the end. Raises `WorkerLost`, or the error with which the stream has failed."""
        while True:
            if self.position.number >= stream.sent_before:
                self.has_caught_up.set()
            batch, size = await stream.next()
            if not self._streams.is_believed(peer):
                # This process was suspended, or busy: others may have the conversation by now.
                raise WorkerLost(peer.node)
            self._take(batch, size, peer.node)
            await self._sink.drain()
            is_due = stream.window.note_consumed(size) or batch.end is not None
            if batch.end is not None and batch.end.moved_to is not None:
                # Nothing of it is stored.
                stream.background_id = ""
            if is_due and not stream.background_id:
                await self._streams.receipt(stream)
            if batch.end is not None:
                return batch.end

    def _take(self, batch: Batch, size: int, node: str) -> None:
        if self._mirror is not None:
            if batch.number == 1 and batch.end in (None, StreamEnd()) and self._request is not None:
                self._mirror.settle(self._request)
            self._mirror.take(node, batch.pending)
        for part in batch.parts:
            if type(part) is DataPart and part.mime_type == CONVERSATION:
                self.position = replace(self.position, conversation=msgspec.Raw(part.data))
            self._sink.report(part)
        if self.response:
            consumed = self.position.consumed + size
            self.position = replace(self.position, number=batch.number, consumed=consumed)
            self._report_position()

    def _report_position(self) -> None:
        """Only stored responses are continued elsewhere: they run in the background, or may go there later."""
        if self.response:
            self._sink.report(DataPart(POSITION, msgspec.json.encode(self.position)))


class _Conversation(msgspec.Struct):
    conversation: str | None = None
