"""A worker that does not keep to the protocol, made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.messages import (
    ACCEPTED_FORM,
    BATCHES_FORM,
    BID_FORM,
    PONG_FORM,
    REQUEST_FORM,
    STATUS_FORM,
    STREAM_FORM,
    Accepted,
    Bid,
    Cancel,
    NodeStatus,
    OfferedModel,
    Ping,
    Pong,
    Receipt,
    Resend,
)
from dragoman.fleet.subjects import STATUS, bids_subject, parts_subject, requests_subject, streams_subject
from dragoman.lm import Capabilities, ModelInfo

__all__ = ["StrangeWorker"]

_INFO = ModelInfo(
    id="strange",
    name="Strange",
    family="strange",
    version="1",
    max_input_tokens=1,
    max_output_tokens=1,
    capabilities=Capabilities(),
)


@dataclass
class StrangeWorker:
    """It offers the model `strange`. What it sends for a stream is up to the test."""

    connection: FleetConnection
    name: str = "w1"
    gateway: str = "gate"
    # Each message for a stream that was confirmed, or is asked for again.
    batches: Callable[[str], tuple[bytes, ...]] = lambda _: ()
    bid: bytes | None = None
    accepted: bytes | None = None
    is_silent: bool = False
    # In seconds, before a bid.
    pause: float = 0.0
    # It bids, and does not answer requests.
    takes_nothing: bool = False
    streams: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def start(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Listen. Returns, for each subject, a function that ends that."""
        ends = {
            subject: await self.connection.subscribe(subject, handle)
            for subject, handle in (
                (STATUS, self._on_status),
                (bids_subject(_INFO.id), self._on_bid_request),
                (requests_subject(self.name), self._on_request),
                (streams_subject(self.name), self._on_stream),
            )
        }
        await self.connection.flush()
        return ends

    async def _on_status(self, received: Received) -> None:
        status = NodeStatus(self.name, "i1", "worker", "9", (OfferedModel(_INFO),))
        if not self.is_silent:
            await self.connection.answer(received, STATUS_FORM.encode(status))

    async def _on_bid_request(self, received: Received) -> None:
        bid = BID_FORM.encode(Bid(self.name, "i1", 0, 0, 1)) if self.bid is None else self.bid
        await asyncio.sleep(self.pause)
        if not self.is_silent:
            await self.connection.answer(received, bid)

    async def _on_request(self, received: Received) -> None:
        self.streams.append(REQUEST_FORM.decode(received.data).stream)
        if self.takes_nothing:
            return
        accepted = ACCEPTED_FORM.encode(Accepted("i1", 16.0)) if self.accepted is None else self.accepted
        await self.connection.answer(received, accepted)

    async def _on_stream(self, received: Received) -> None:
        match STREAM_FORM.decode(received.data):
            case Ping():
                pong = Pong("i1", 16.0, dict.fromkeys(self.streams, 1))
                await self.connection.answer(received, PONG_FORM.encode(pong))
            case Receipt(stream=stream, number=0) | Resend(stream=stream):
                for data in self.batches(stream):
                    message = BATCHES_FORM.encode((data,))
                    await self.connection.publish(parts_subject(self.gateway), message)
            case Cancel(stream=stream):
                self.cancelled.append(stream)
            case _:
                pass
