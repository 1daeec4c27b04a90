"""A page at one gateway learns what a worker stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.fleet.lease import NodeLease
from dragoman.fleet.subjects import NEWS
from dragoman.journal.agent_events import TextSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.jetstream.append_news import heard_appends
from dragoman.journal.jetstream.journals import JetStreamJournals
from fleet.machines import machines, soon


async def test_what_another_node_appends_is_heard_and_what_is_no_journal_is_not(tmp_path: Path) -> None:
    async with machines(tmp_path) as room:
        worker, gateway = await room.connection("w1"), await room.connection("g1")
        heard: asyncio.Queue[tuple[str, int, str]] = asyncio.Queue()
        async with (
            NodeLease.held(worker, "w1", "worker") as lease,
            NodeLease.held(gateway, "g1", "gateway") as own_lease,
            heard_appends(gateway, "g1", lambda *news: heard.put_nowait(news)),
        ):
            await gateway.flush()
            journals, own = JetStreamJournals(worker, lease), JetStreamJournals(gateway, own_lease)
            started = JournalStarted("agent", "m", ("/w",), "http:a", title="about")
            await own.append("own", 0, [(5.0, started)])
            await gateway.publish(f"{NEWS}.c1", b"")
            await journals.append("c1", 0, [(5.0, started), (5.0, TextSaid(1, 0, 1, "x"))])
            await journals.append("c1", 2, [(6.0, TextSaid(1, 0, 1, "y"))])
            assert [await soon(heard.get()) for _ in range(2)] == [("c1", 2, "http:a"), ("c1", 3, "http:a")]
            assert heard.empty()
