"""Sends the batches of all streams of a worker. Those for one gateway share a message.

A message of its own for every part would cost more than the part. So after a message the sender waits a moment, and takes
what all streams have reported meanwhile. A stream that speaks alone is never delayed: its parts come further apart than that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from dragoman.fleet.messages import BATCHES_FORM, ErrorMessage, StreamEnd
from dragoman.frontends.worker.stream import WorkerStream
from dragoman.lm import LanguageModelError

__all__ = ["BatchSender"]

_log = logging.getLogger(__name__)

# Between two messages, unless a batch is full. With 200 streams of 50 parts a second, ten parts share a message.
_PAUSE_SECONDS = 0.001
# Of one message, but for the batch that fills it. It goes in one piece, and a stream of short parts does not wait long behind
# others.
_MESSAGE_BYTES = 128 * 1024


class BatchSender:
    def __init__(self, publish: Callable[[str, bytes], Awaitable[None]]) -> None:
        """`publish` sends a message to the gateway's node with this name."""
        self._publish = publish
        self._waiting: dict[WorkerStream, None] = {}
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._may_send = asyncio.Event()
        # Held while messages are on their way out, so that batches of a stream stay in order.
        self._sending = asyncio.Lock()

    def wake(self, stream: WorkerStream) -> None:
        """The stream has something to send."""
        self._waiting[stream] = None
        if self._may_send.is_set():
            return
        loop = asyncio.get_running_loop()
        pause = self._sent_at + _PAUSE_SECONDS - loop.time()
        if pause <= 0 or stream.is_urgent:
            self._may_send.set()
        elif self._timer is None:
            self._timer = loop.call_later(pause, self._may_send.set)

    async def run(self) -> None:
        """Send, until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._may_send.wait()
            async with self._sending:
                self._may_send.clear()
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                try:
                    await self._send_waiting()
                except Exception:
                    # All streams of the worker need this task. Gateways ask for what was not sent.
                    _log.exception("a message with parts of responses was not sent")
                self._sent_at = loop.time()

    async def resend(self, stream: WorkerStream, after: int) -> None:
        """Send the batches after this one again."""
        await self._send(stream.gateway_node, stream.window.after(after))

    async def send_end(self, stream: WorkerStream, end: StreamEnd) -> None:
        """Send what is left of a stream, and this end: the worker stops."""
        async with self._sending:
            await self._send(stream.gateway_node, stream.last_batches(end))

    async def _send_waiting(self) -> None:
        streams, self._waiting = self._waiting, {}
        by_node: dict[str, list[bytes]] = {}
        for stream in streams:
            by_node.setdefault(stream.gateway_node, []).extend(_batches(stream))
        for node, batches in by_node.items():
            await self._send(node, batches)

    async def _send(self, node: str, batches: Sequence[bytes]) -> None:
        together: list[bytes] = []
        size = 0
        for batch in batches:
            together.append(batch)
            size += len(batch)
            if size >= _MESSAGE_BYTES:
                await self._publish(node, BATCHES_FORM.encode(tuple(together)))
                together, size = [], 0
        if together:
            await self._publish(node, BATCHES_FORM.encode(tuple(together)))


def _batches(stream: WorkerStream) -> list[bytes]:
    """What a stream can send now. A stream that reports what cannot be sent ends with an error, and concerns no other."""
    try:
        return stream.batches()
    except Exception as error:
        _log.exception("parts of a response cannot be sent")
        failed = LanguageModelError(
            "internal",
            f"The response has a part that cannot be sent: {type(error).__name__}: {error}.",
            hint="Please report this as a fault of Dragoman, with the worker's log.",
            public="The response has a part that cannot be sent.",
        )
        stream.fail(StreamEnd(ErrorMessage.of(failed)))
        return stream.batches()
