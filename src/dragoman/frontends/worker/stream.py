"""The worker's end of a stream: it takes the parts of one response and makes batches of them.

`report` never waits. The sender of the worker (`batch_sender`) takes the batches of all streams, while their windows have
room. If a window is full, `drain` waits, and that pauses the agent's pipe. So a slow consumer costs one window here and one
at its gateway.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence

from dragoman.fleet.messages import BATCH_FORM, Batch, PendingMessage, RequestMessage, StreamEnd
from dragoman.fleet.window import SendingWindow
from dragoman.lm import CancellationSource, DataPart, Part, TextPart, ThinkingPart

__all__ = ["WorkerStream"]

# Enough that the cost of a message hardly counts, and small enough that a slow gateway shows the first parts soon.
_MOST_PARTS = 64
_MOST_BYTES = 32 * 1024
# Of a part whose size is not that of its text.
_OTHER_BYTES = 512


class WorkerStream:
    """One response. It is kept until the gateway has all of it, or wants no more."""

    def __init__(
        self,
        message: RequestMessage,
        wake: Callable[[WorkerStream], None],
        pending_of: Callable[[Sequence[Part]], tuple[PendingMessage, ...]],
        incarnation: str,
    ) -> None:
        """`wake`: there is something to send. `pending_of`: the permission requests behind the calls among some parts.

        `incarnation` is the worker's.
        """
        self.id = message.stream
        self.gateway = message.gateway
        # The background response that it is for; "": for none, and without its gateway it is cancelled.
        self.background_id = ""
        # Since when its gateway has been gone. None: it is there.
        self.orphaned_at: float | None = None
        self.model = message.model
        self.window = SendingWindow()
        self.source = CancellationSource()
        # The gateway has confirmed its request. `is_known`: the gateway that has the stream now knows that it has it.
        self.confirmed = asyncio.Event()
        self.is_known = False
        # When it went to its gateway, if another one had it before.
        self.given_at = math.inf
        # Whether the model still works on it.
        self.is_under_way = True
        self._wake = wake
        self._pending_of = pending_of
        self._incarnation = incarnation
        self._parts: deque[Part] = deque()
        self._queued = 0
        self._end: StreamEnd | None = None
        self._has_ended = False
        self._is_dropped = False
        # Set when a `drain` may go on, and when nothing is left to do.
        self._room = asyncio.Event()
        self._done = asyncio.Event()

    @property
    def gateway_node(self) -> str:
        """The node that the gateway's process belongs to."""
        return self.gateway.partition("/")[0]

    # The sink.

    def report(self, part: Part) -> None:
        if not self._is_dropped:
            self._parts.append(part)
            self._queued += _size(part)
            self._wake(self)

    async def drain(self) -> None:
        while not self._is_dropped and (not self.window.has_room or self.is_urgent):
            self._room.clear()
            await self._room.wait()

    # What the gateway says.

    def note_receipt(self, number: int, consumed: int) -> None:
        self.is_known = True
        self.confirmed.set()
        self.window.note_receipt(number, consumed)
        self._room.set()
        if self._parts or self._end is not None:
            self._wake(self)
        if self._has_ended and self.window.is_consumed:
            self._done.set()

    def give_to(self, gateway: str, now: float) -> None:
        """Another gateway has it from now on."""
        self.gateway = gateway
        self.given_at = now
        self.is_known = False
        self.orphaned_at = None

    def give_up(self) -> None:
        """The gateway wants no more: cancel the response, and send nothing."""
        self.drop()
        self.source.cancel()

    def drop(self) -> None:
        """Send nothing more."""
        self._is_dropped = True
        self._parts.clear()
        self._queued = 0
        self.confirmed.set()
        self._room.set()
        self._done.set()

    @property
    def is_dropped(self) -> bool:
        return self._is_dropped

    async def finish(self, end: StreamEnd) -> None:
        """Send the end after all parts, and wait until the gateway has shown everything."""
        self._end = end
        self._wake(self)
        await self._done.wait()

    def fail(self, end: StreamEnd) -> None:
        """Cancel the response, and send this end instead of what was reported and not sent."""
        self._parts.clear()
        self._queued = 0
        self._end = end
        self.source.cancel()

    # What the sender takes.

    @property
    def is_urgent(self) -> bool:
        """Whether to wait for more parts would gain nothing."""
        return self._end is not None or self._queued >= _MOST_BYTES or len(self._parts) >= _MOST_PARTS

    def batches(self) -> list[bytes]:
        """What can be sent now. The window keeps it until there is a receipt."""
        taken: list[bytes] = []
        while (self._parts or self._end is not None) and self.window.has_room and not self._is_dropped:
            taken.append(BATCH_FORM.encode(self._next()))
            self.window.add(taken[-1])
        self._room.set()
        return taken

    def last_batches(self, end: StreamEnd) -> list[bytes]:
        """What was reported, and this end, whether the window has room or not: the worker stops."""
        taken: list[bytes] = []
        if not self._has_ended and not self._is_dropped:
            # The model may have finished: then that is the end, which the window had no room for.
            self._end = self._end or end
            while self._end is not None:
                taken.append(BATCH_FORM.encode(self._next()))
                # Not kept: nobody will be there to send it again.
                self.window.number += 1
        return taken

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
            self._has_ended = end is not None
        return Batch(
            self.id,
            self.window.number + 1,
            tuple(parts),
            self._pending_of(parts),
            end,
            self._incarnation,
        )


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
