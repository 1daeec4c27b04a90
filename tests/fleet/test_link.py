"""The connection of a process to its fleet: one, or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import pytest

from dragoman.backends.remote.link import FleetLink
from dragoman.fleet.connection import FleetConnection, FleetUnavailable


class _Connections:
    """Counts those that are open."""

    def __init__(self) -> None:
        self.open = 0
        self.made = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[FleetConnection]:
        self.open += 1
        self.made += 1
        try:
            yield cast("FleetConnection", object())
        finally:
            self.open -= 1


async def test_a_connection_on_which_nothing_could_begin_is_closed_and_made_anew() -> None:
    connections = _Connections()
    log: list[str] = []
    link = FleetLink(connections.connect, "gate")

    async def begin(_connection: FleetConnection, stack: AsyncExitStack) -> None:
        stack.callback(log.append, "ended")
        if connections.made == 1:
            raise FleetUnavailable("NATS does not answer.")

    link.on_connected.append(begin)
    with pytest.raises(FleetUnavailable, match="does not answer"):
        await link.connected()
    assert (connections.open, log) == (0, ["ended"])
    assert await link.connected() is await link.connected()
    assert (connections.open, connections.made) == (1, 2)
    await link.close()
    assert (connections.open, log) == (0, ["ended", "ended"])


async def test_a_connection_that_is_being_made_at_the_end_is_closed() -> None:
    connections, may_begin = _Connections(), asyncio.Event()
    link = FleetLink(connections.connect, "gate")

    async def begin(_connection: FleetConnection, _stack: AsyncExitStack) -> None:
        await may_begin.wait()

    link.on_connected.append(begin)
    connecting = asyncio.create_task(link.connected())
    await asyncio.sleep(0)
    assert connections.open == 1
    await link.close()
    may_begin.set()
    with pytest.raises(FleetUnavailable, match="This process ends"):
        await connecting
    assert connections.open == 0
    with pytest.raises(FleetUnavailable, match="This process ends"):
        await link.connected()
    assert connections.made == 1
