"""Journals in JetStream: what an append, a claim, a read and a load cost. `python -m bench.jetstream`, with one server."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from dragoman.conversations.history import NormalAnswer, NormalPrompt, item_key
from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.lease import NodeLease
from dragoman.fleet.streams import make_streams
from dragoman.journal.agent_events import ReplyEnded, RequestReceived, TextSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, StampedEvent
from dragoman.journal.jetstream.journals import JetStreamJournals

__all__ = ["stored_turn"]

_PROGRAM = Path(sys.executable).parent / "nats-server"
_TIMES = 300


def stored_turn(number: int) -> list[StampedEvent]:
    prompt, answer = NormalPrompt(f"prompt {number} " * 20), NormalAnswer(f"answer {number} " * 50)
    keeps = 2 * (number - 1)
    events: list[AnyEvent] = [
        RequestReceived(
            number, number, "prompt", "marker", "", "", keeps, (item_key(prompt),), items=(prompt,)
        ),
        TextSaid(number, 0, len(answer.text), answer.text),
        ReplyEnded(number, "complete", item_key(answer)),
    ]
    return [(1_000.0, event) for event in events]


async def _measured(name: str, work: Callable[[int], Awaitable[object]], times: int = _TIMES) -> None:
    took: list[float] = []
    used = time.process_time()
    for number in range(times):
        begun = time.perf_counter()
        await work(number)
        took.append((time.perf_counter() - begun) * 1e3)
    used = (time.process_time() - used) / times * 1e3
    took.sort()
    print(
        f"{name:34} p50 {took[times // 2]:7.2f} ms   p99 {took[times * 99 // 100]:7.2f} ms   CPU {used:6.2f} ms"
    )


async def _run(folder: Path, sync: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    file = folder / "nats.conf"
    file.write_text(f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{folder}/js"{sync} }}\n')
    server = subprocess.Popen([_PROGRAM, "-c", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220, S603 - our own, and a start does not block
    try:
        async with AsyncExitStack() as stack:
            stores: list[JetStreamJournals] = []
            for name in ("w1", "w2"):
                connection = await stack.enter_async_context(_connected(port, name))
                await make_streams(connection, 1, None)
                lease = await stack.enter_async_context(NodeLease.held(connection, name, "worker"))
                stores.append(JetStreamJournals(connection, lease))
            await _journals(*stores)
    finally:
        server.terminate()
        server.wait()


def _connected(port: int, name: str) -> AbstractAsyncContextManager[FleetConnection]:
    for _ in range(500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return FleetConnection.open((f"nats://127.0.0.1:{port}",), name)
        time.sleep(0.01)
    raise FleetUnavailable("the server has not started")


async def _journals(store: JetStreamJournals, other: JetStreamJournals) -> None:
    started = [(1_000.0, JournalStarted("agent", "m", ("/folder",), "editor"))]
    head = await store.append("long", 0, started)

    async def append(number: int) -> None:
        nonlocal head
        head = await store.append("long", head, stored_turn(number + 1))

    await _measured("append of a turn", append)
    await store.release("long")
    for number in range(_TIMES):
        await store.append(f"j{number}", 0, started, holds=False)
    ids = [f"j{number}" for number in range(_TIMES)]
    await _measured("heads of 1 (consider)", lambda number: other.consider([ids[number]]))
    await _measured("claim of a free one", lambda number: other.claim(ids[number], 1))
    await _measured("release", lambda number: other.release(ids[number]))
    await _measured(f"read of {_TIMES} appends", lambda _: other.read("long"), 20)
    await _measured("state, loaded before", lambda _: other.state("long"))
    await _measured(f"list of {_TIMES + 1}", lambda _: other.journals("agent"), 20)
    await _measured("place", lambda number: other.place_of(ids[number]))


def main() -> None:
    for sync in ("", ", sync_interval: always"):
        print(f"one server{sync}")
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_run(Path(folder), sync))


if __name__ == "__main__":
    main()
