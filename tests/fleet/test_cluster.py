"""What a cluster of NATS does otherwise than one server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.joining import joined
from dragoman.fleet.stored import StoredStream, WrongSequence
from dragoman.fleet.streams import signing_key
from dragoman.fleet.subjects import SNAPSHOTS
from fleet_faults.cluster import NatsCluster

# Through agents and connections: each takes a second or more.
pytestmark = pytest.mark.long

_RACES, _WRITERS = 10, 5


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[NatsCluster]:
    cluster = NatsCluster(tmp_path, has_roles=False)
    try:
        await cluster.start()
        await cluster.prepare()
        yield cluster
    finally:
        await cluster.close()


async def test_of_writers_that_race_for_a_key_one_wins_and_the_others_know_it(cluster: NatsCluster) -> None:
    async def wins(connection: FleetConnection, race: int) -> bool:
        try:
            await StoredStream(connection, SNAPSHOTS).put(f"dg.s.race{race}", b"mine", expected=0)
        except WrongSequence:
            return False
        return True

    async with joined(cluster.config("worker", "w1"), "w1") as connection:
        for race in range(_RACES):
            won = await asyncio.gather(*(wins(connection, race) for _ in range(_WRITERS)))
            assert sum(won) == 1


async def test_workers_that_start_together_have_one_key(cluster: NatsCluster) -> None:
    async def key(name: str) -> bytes:
        async with joined(cluster.config("worker", name), name) as connection:
            while True:
                try:
                    return await signing_key(connection)
                except FleetUnavailable:
                    # There is no leader for a moment.
                    continue

    assert len(set(await asyncio.gather(*(key(f"w{number}") for number in range(_WRITERS))))) == 1
