"""Many workers in one process, which only bid and say how they are: `python -m bench.fleet_bidders URL COUNT`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

import uvloop

from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.messages import BID_FORM, STATUS_FORM, Bid, NodeStatus, OfferedModel
from dragoman.fleet.subjects import STATUS, bids_subject
from dragoman.lm import Capabilities, ModelInfo

__all__ = ["MODEL"]

MODEL = "bench"
_INFO = ModelInfo(
    id=MODEL,
    name="Bench",
    family="bench",
    version="1",
    max_input_tokens=100_000,
    max_output_tokens=10_000,
    capabilities=Capabilities(),
)


async def _bid(url: str, count: int) -> None:
    async with AsyncExitStack() as stack:
        for number in range(count):
            connection = await stack.enter_async_context(FleetConnection.open((url,), f"w{number}"))
            await _listen(connection, f"worker-{number:04}")
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _listen(connection: FleetConnection, name: str) -> None:
    bid = BID_FORM.encode(Bid(name, "0123456789abcdef", 3, 20, 32))
    status = STATUS_FORM.encode(NodeStatus(name, "0123456789abcdef", "worker", "1", (OfferedModel(_INFO),)))

    async def on_bid(received: Received) -> None:
        await connection.answer(received, bid)

    async def on_status(received: Received) -> None:
        await connection.answer(received, status)

    await connection.subscribe(bids_subject(MODEL), on_bid)
    await connection.subscribe(STATUS, on_status)
    await connection.flush()


if __name__ == "__main__":
    uvloop.run(_bid(sys.argv[1], int(sys.argv[2])))
