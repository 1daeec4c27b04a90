"""What a large fleet is calculated from: the cost of a turn, a worker, a bid, a conversation that is stored or listed.

    python -m bench.fleet_scale [--quick]

On a cluster of three servers of NATS. Workers that only bid are one process (`fleet_bidders`): more do not fit this machine.
`scale_page` calculates with these figures.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from bench.agents import PART
from bench.figures import Column, Figure, Row
from bench.fleet_bidders import MODEL
from bench.fleet_nodes import FLEET, BenchFleet, NodeProcess, fleet_of
from bench.jetstream import stored_turn
from bench.processes import tree_cpu_seconds
from bench.stage import Scale, Stage, alone
from dragoman.backends.remote.fleet import Fleet
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import NodeLease
from dragoman.fleet.subjects import AUDIT, INDEX, JOURNALS, SNAPSHOTS
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import StampedEvent
from dragoman.journal.jetstream.journals import JetStreamJournals

__all__ = [
    "BIDDERS",
    "IDLE",
    "LISTED",
    "STORED",
    "TURN",
    "TURN_PARTS",
    "WRITTEN",
    "bids_case",
    "measure",
    "statuses_case",
]

# Of a turn: an answer of a hundred words or so.
TURN_PARTS = 20
# Of a conversation that is stored.
_STORED_TURNS = 5
BIDDERS = 1_000
IDLE, TURN, LISTED = "a second without requests", "a turn", "a conversation in a list"
STORED = f"a stored conversation of {_STORED_TURNS} turns"
_STREAMS = (JOURNALS, INDEX, SNAPSHOTS, AUDIT)
_AT_ONCE = 4
_WRITERS = 64
WRITTEN = f"{_WRITERS} conversations written at once"
_COLUMNS = (
    Column("gateway", "gateway's CPU ms", 3),
    Column("worker", "worker's CPU ms", 3),
    Column("nats", "CPU ms of the three servers", 3),
    Column("ms", "ms", 1),
    Column("messages", "messages stored", 1),
    Column("kilobytes", "kB stored, each replica", 2),
    Column("memory", "kB memory of a server", 2),
    Column("rate", "messages written/s", 0),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    rows: list[Row] = []
    async with fleet_of(stage, "scale", servers=3) as fleet:
        worker = await fleet.worker("w1")
        gateway = await fleet.served("gateway", "g1")
        rows.append(await _idle(fleet, worker, gateway.pid, scale(20, 2)))
        conversations, turns = scale(40, 4), scale(10, 2)

        async def converse() -> None:
            history: list[tuple[str, str]] = []
            for _ in range(turns):
                history.append(("user", f"{stage.new_words()} !say {TURN_PARTS}"))
                await gateway.consumer.ask(history)
                history.append(("assistant", PART * TURN_PARTS))

        before = await _stored(fleet)
        used = _costs(fleet, worker, gateway.pid)
        for _ in range(conversations // _AT_ONCE):
            await asyncio.gather(*(converse() for _ in range(_AT_ONCE)))
        count = conversations // _AT_ONCE * _AT_ONCE * turns
        spent = {
            name: ((now - then) / count * 1e3,)
            for (name, now), then in zip(
                _costs(fleet, worker, gateway.pid).items(), used.values(), strict=True
            )
        }
        after = await _stored(fleet)
        kept = {
            "messages": ((after[0] - before[0]) / count,),
            "kilobytes": ((after[1] - before[1]) / count / 1e3,),
        }
        rows.append(Row(TURN, FLEET, {**spent, **kept}))
    async with fleet_of(stage, "journals", servers=3) as fleet:
        rows += await _journals(fleet, scale(4_000, 100))
    # Of one server: each worker and each gateway is connected to one.
    for count in (scale(10, 2), scale(100, 10), scale(BIDDERS, 50)):
        async with fleet_of(stage, f"bids-{count}") as fleet:
            rows += await _bids(fleet, count, scale(30, 3))
    return Figure("fleet_scale", "What grows with a fleet", _COLUMNS, tuple(rows))


def _costs(fleet: BenchFleet, worker: NodeProcess, gateway: int) -> dict[str, float]:
    return {
        "gateway": tree_cpu_seconds(gateway),
        "worker": tree_cpu_seconds(worker.pid),
        "nats": fleet.nats_cpu_seconds,
    }


async def _idle(fleet: BenchFleet, worker: NodeProcess, gateway: int, seconds: int) -> Row:
    """For a second in which no client asks anything: leases, statuses, and NATS between its servers."""
    before = _costs(fleet, worker, gateway)
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - began
    after = _costs(fleet, worker, gateway)
    return Row(
        IDLE,
        FLEET,
        {name: ((after[name] - before[name]) / took * 1e3,) for name in after},
    )


async def _stored(fleet: BenchFleet) -> tuple[int, int]:
    """Messages and bytes in all streams that conversations are in."""
    async with FleetConnection.open(fleet.urls, "looks") as connection:
        states = [(await connection.js.stream_info(name)).state for name in _STREAMS]
    return sum(state.messages for state in states), sum(state.bytes for state in states)


async def _journals(fleet: BenchFleet, count: int) -> list[Row]:
    """Conversations that nobody uses now: what they take, and what a list of them costs."""
    started: list[StampedEvent] = [(1_000.0, JournalStarted("agent", "m", ("/folder",), "editor"))]
    async with (
        FleetConnection.open(fleet.urls, "w1") as connection,
        NodeLease.held(connection, "w1", "worker") as lease,
    ):
        store = JetStreamJournals(connection, lease)
        memory = fleet.nats_bytes
        stored = await _stored(fleet)

        async def store_one(number: int) -> None:
            head = await store.append(f"j{number}", 0, started)
            for turn in range(1, _STORED_TURNS + 1):
                head = await store.append(f"j{number}", head, stored_turn(turn))
            await store.release(f"j{number}")

        limit = asyncio.Semaphore(_WRITERS)

        async def in_turn(number: int) -> None:
            async with limit:
                await store_one(number)

        written = time.perf_counter()
        await asyncio.gather(*map(in_turn, range(count)))
        written = time.perf_counter() - written
        after = await _stored(fleet)
        grown = (fleet.nats_bytes - memory) / len(fleet.nats)
        spent, began = time.process_time(), time.perf_counter()
        found = await store.journals("agent")
        took, spent = time.perf_counter() - began, time.process_time() - spent
        if len(found) != count:
            raise AssertionError(f"{len(found)} of {count} journals are listed")
    return [
        Row(
            STORED,
            FLEET,
            {
                "messages": ((after[0] - stored[0]) / count,),
                "kilobytes": ((after[1] - stored[1]) / count / 1e3,),
                "memory": (grown / count / 1e3,),
            },
        ),
        Row(WRITTEN, FLEET, {"rate": ((after[0] - stored[0]) / written,)}),
        Row(
            LISTED,
            FLEET,
            {"gateway": (spent / count * 1e3,), "ms": (took / count * 1e3,)},
        ),
    ]


def bids_case(count: int) -> str:
    return f"bids of {count:,} workers"


def statuses_case(count: int) -> str:
    return f"statuses of {count:,} workers"


async def _bids(fleet: BenchFleet, count: int, times: int) -> list[Row]:
    log = fleet.folder / "bidders.log"
    memory = fleet.nats_bytes
    with log.open("wb") as output:
        popen = subprocess.Popen(  # noqa: ASYNC220, S603 - our own, and a start does not block
            [sys.executable, "-m", "bench.fleet_bidders", fleet.urls[0], str(count)],
            stdout=output,
            stderr=output,
        )
    bidders = NodeProcess(popen, log)
    fleet.processes.append(bidders)
    await bidders.says("ready")
    rows = []
    async with FleetConnection.open(fleet.urls, "gate") as connection:
        seen = Fleet.on(connection, "gate")
        await seen.workers.refresh()
        if len(seen.workers.nodes) != count:
            raise AssertionError(f"{len(seen.workers.nodes)} of {count} workers were seen")
        # The first makes what the others use.
        await seen.workers.bids(MODEL, ())
        memory = fleet.nats_bytes - memory
        for case, work in (
            (bids_case(count), lambda: seen.workers.bids(MODEL, ())),
            (statuses_case(count), seen.workers.refresh),
        ):
            before = time.process_time(), tree_cpu_seconds(bidders.pid), fleet.nats_cpu_seconds
            began = time.perf_counter()
            for _ in range(times):
                await work()
            took = (time.perf_counter() - began) / times * 1e3
            after = time.process_time(), tree_cpu_seconds(bidders.pid), fleet.nats_cpu_seconds
            each = [(now - then) / times * 1e3 for now, then in zip(after, before, strict=True)]
            rows.append(
                Row(
                    case,
                    FLEET,
                    {"gateway": (each[0],), "worker": (each[1] / count,), "nats": (each[2],), "ms": (took,)},
                )
            )
        rows[0].samples["memory"] = (memory / count / 1e3,)
        await seen.close()
    return rows


if __name__ == "__main__":
    alone(measure)
