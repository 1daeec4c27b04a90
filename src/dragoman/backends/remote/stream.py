"""The gateway's end of a stream: batches arrive, `StreamReader` takes them in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

import msgspec

from dragoman.fleet.messages import Batch, Receipt
from dragoman.fleet.subjects import is_node_name
from dragoman.fleet.window import ReceivingWindow
from dragoman.lm import LanguageModelError
from dragoman.lm.errors import ErrorKind

__all__ = ["SAME_VERSION", "RemoteStream", "StreamPosition", "TakenBatch", "machine_error"]

# A worker sends no more than one window, and a batch. One that stops sends what it has, whether there is room or not.
_MOST_WINDOWS = 2
# What helps against messages that do not fit.
SAME_VERSION = "Gateways and workers should have the same version of Dragoman."


class StreamPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a batch, from which another gateway can continue the response."""

    node: str
    incarnation: str
    stream: str
    # The number of the batch; and the bytes of all batches up to it.
    number: int = 0
    consumed: int = 0
    # The conversation's report, which came in an earlier batch.
    conversation: msgspec.Raw = msgspec.Raw()

    def __post_init__(self) -> None:
        if self.node and not is_node_name(self.node):
            raise ValueError(f"{self.node!r} is no name of a node")


class TakenBatch(NamedTuple):
    batch: Batch
    # In bytes, as it was sent.
    size: int


class RemoteStream:
    """One response on its way from a worker."""

    def __init__(self, id_: str, node: str, gateway: str, window: ReceivingWindow | None = None) -> None:
        """`gateway`: this process. With `window`: a stream that another gateway has had so much of."""
        self.id = id_
        self.node = node
        self.gateway = gateway
        self.window = window or ReceivingWindow()
        # The background response that it is for, if the worker keeps what the response's journal does not have; "": it does
        # not. And what the journal has.
        self.background_id = ""
        self.stored = StreamPosition(node, "", id_)
        # Of the worker that has accepted it; "" before that.
        self.incarnation = ""
        # The last batch that the worker sent before this gateway had the stream.
        self.sent_before = 0
        self._batches: deque[TakenBatch] = deque()
        # In bytes: the batches that wait here.
        self.held_bytes = 0
        # How many pings in a row have asked for the next batch again.
        self.resends = 0
        # Whether everything has arrived; and whether it was read.
        self.has_end = self.is_read = False
        self._error: LanguageModelError | None = None
        self._news = asyncio.Event()

    @property
    def receipt(self) -> Receipt:
        if self.background_id:
            stored = self.stored
            return Receipt(self.id, stored.number, stored.consumed, self.background_id, self.gateway)
        return Receipt(self.id, self.window.number, self.window.consumed, gateway=self.gateway)

    def take(self, batch: Batch, size: int) -> bool:
        """A batch has arrived. Returns whether those before it must be sent again."""
        if self._error is not None or (batch.incarnation and batch.incarnation != self.incarnation):
            # Of another life of the worker, which may have been suspended.
            return False
        if not self.window.accept(batch.number):
            return self.window.mark_gap(batch.number)
        if self.held_bytes >= _MOST_WINDOWS * self.window.limit:
            self.fail(_sends_too_much_error(self.node))
            return False
        self._batches.append(TakenBatch(batch, size))
        self.has_end = batch.end is not None
        self.resends = 0
        self.held_bytes += size
        self._news.set()
        return False

    def fail(self, error: LanguageModelError) -> None:
        """Nothing more is shown of it. The first error counts."""
        self._error = self._error or error
        self._batches.clear()
        self.held_bytes = 0
        self._news.set()

    async def next(self) -> TakenBatch:
        """The next batch. Raises the error with which the stream has failed."""
        while not self._batches:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        taken = self._batches.popleft()
        self.held_bytes -= taken.size
        return taken


def _sends_too_much_error(node: str) -> LanguageModelError:
    return machine_error("internal", node, "sends more than it may, so its response ends here.", SAME_VERSION)


def machine_error(kind: ErrorKind, node: str, what: str, hint: str) -> LanguageModelError:
    """The error of a response that the machine of its conversation cannot continue."""
    return LanguageModelError(
        kind,
        f"The machine {node} {what}",
        hint=hint,
        public=f"The machine on which this conversation runs {what} {hint}",
    )
