"""The worker's end of a stream: it takes the parts of one response and sends them in batches.

`report` never waits. Parts that are reported in one turn of the event loop, or within two milliseconds after another batch, go
into one batch. A batch is sent while the window has room; then `drain` waits, and that pauses the agent's pipe. So a slow consumer costs one window here and one at its
gateway.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from dragoman.fleet.messages import BATCH_FORM, Batch, PendingMessage, RequestMessage, StreamEnd
from dragoman.fleet.window import SendingWindow
from dragoman.lm import CancellationSource, DataPart, Part, TextPart, ThinkingPart

__all__ = ["WorkerStream"]

# Enough that the cost of a message hardly counts, and small enough that a slow gateway shows the first parts soon.
_MOST_PARTS = 64
_MOST_BYTES = 32 * 1024
# Between two batches that are not full. A model that says a word every 20 ms never waits for it.
_PAUSE_SECONDS = 0.002
# Of a part whose size is not that of its text.
_OTHER_BYTES = 512


class WorkerStream:
    """One response. It is kept until the gateway has all of it, or wants no more."""

    def __init__(
        self,
        message: RequestMessage,
        send: Callable[[bytes], Awaitable[None]],
        pending_of: Callable[[Sequence[Part]], tuple[PendingMessage, ...]],
    ) -> None:
        """`pending_of`: the permission requests behind the calls among some parts."""
        self.id = message.stream
        self.gateway = message.gateway
        self.model = message.model
        self.window = SendingWindow()
        self.source = CancellationSource()
        # The gateway has confirmed its request.
        self.confirmed = asyncio.Event()
        # Whether the model still works on it.
        self.is_under_way = True
        self._send = send
        self._pending_of = pending_of
        self._parts: deque[Part] = deque()
        self._queued = 0
        self._end: StreamEnd | None = None
        self._has_ended = False
        self._is_dropped = False
        self._news = asyncio.Event()
        # Set when a `drain` may go on, and when nothing is left to do.
        self._room = asyncio.Event()
        self._done = asyncio.Event()
        self._pumping = asyncio.create_task(self._pump())

    # The sink.

    def report(self, part: Part) -> None:
        if not self._is_dropped:
            self._parts.append(part)
            self._queued += _size(part)
            self._news.set()

    async def drain(self) -> None:
        while not self._is_dropped and (not self.window.has_room or self._is_batch_full):
            self._room.clear()
            await self._room.wait()

    # What the gateway says.

    def note_receipt(self, number: int, consumed: int) -> None:
        self.confirmed.set()
        self.window.note_receipt(number, consumed)
        self._room.set()
        self._news.set()
        self._check_done()

    async def resend(self, after: int) -> None:
        for data in self.window.after(after):
            await self._send(data)

    def give_up(self) -> None:
        """The gateway wants no more: cancel the response, and send nothing."""
        self.drop()
        self.source.cancel()

    def drop(self) -> None:
        """Send nothing more."""
        self._is_dropped = True
        self._parts.clear()
        self._queued = 0
        self._pumping.cancel()
        self.confirmed.set()
        self._room.set()
        self._done.set()

    @property
    def is_dropped(self) -> bool:
        return self._is_dropped

    async def finish(self, end: StreamEnd) -> None:
        """Send the end after all parts, and wait until the gateway has everything."""
        self._end = end
        self._news.set()
        await self._done.wait()

    async def send_end(self, end: StreamEnd) -> None:
        """Send what was reported and this end, whether the window has room or not: the worker stops."""
        if not self._has_ended and not self._is_dropped:
            self._pumping.cancel()
            self._end, self._has_ended = end, True
            while self._end is not None:
                batch = self._next()
                # Not kept: nobody will be there to send it again.
                self.window.number += 1
                await self._send(BATCH_FORM.encode(batch))

    # Sending.

    @property
    def _is_batch_full(self) -> bool:
        return self._queued >= _MOST_BYTES or len(self._parts) >= _MOST_PARTS

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        sent_at = 0.0
        while True:
            await self._news.wait()
            self._news.clear()
            pause = sent_at + _PAUSE_SECONDS - loop.time()
            if pause > 0 and self._end is None and not self._is_batch_full:
                await asyncio.sleep(pause)
            while (self._parts or self._end is not None) and self.window.has_room:
                batch = self._next()
                data = BATCH_FORM.encode(batch)
                self.window.add(data)
                self._has_ended = batch.end is not None
                self._room.set()
                await self._send(data)
                sent_at = loop.time()
                if batch.end is not None:
                    return

    def _next(self) -> Batch:
        parts: list[Part] = []
        size = 0
        while self._parts and len(parts) < _MOST_PARTS and size < _MOST_BYTES:
            part = self._parts.popleft()
            size += _size(part)
            parts.append(part)
        self._queued -= size
        end = None
        if not self._parts:
            end, self._end = self._end, None
        return Batch(
            self.id,
            self.window.number + 1,
            tuple(parts),
            self._pending_of(parts),
            end,
        )

    def _check_done(self) -> None:
        if self._has_ended and self.window.is_received:
            self._done.set()


def _size(part: Part) -> int:
    match part:
        case TextPart():
            return len(part.value)
        case ThinkingPart():
            return len(part.text)
        case DataPart():
            return len(part.data)
        case _:
            return _OTHER_BYTES
