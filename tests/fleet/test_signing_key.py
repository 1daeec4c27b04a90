"""The key that signs markers: the first worker makes it, and nobody replaces it with a worker's credentials.

`test_roles` shows that a worker can neither erase it nor write beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.credentials import FleetKeys, FleetRole
from dragoman.fleet.stored import StoredStream
from dragoman.fleet.streams import make_streams, signing_key
from dragoman.fleet.subjects import SECRETS, SIGNING_KEY
from nats_servers import nats_server


class _Nodes:
    def __init__(self, url: str, keys: FleetKeys, stack: AsyncExitStack) -> None:
        self._url, self._keys, self._stack = url, keys, stack

    async def node(self, role: FleetRole, name: str) -> FleetConnection:
        credentials = self._keys.credentials(role, name)
        return await self._stack.enter_async_context(FleetConnection.open((self._url,), name, credentials))


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[_Nodes]:
    keys = FleetKeys.new()
    async with nats_server(tmp_path, keys.server_config()) as url, AsyncExitStack() as stack:
        made = _Nodes(url, keys, stack)
        await make_streams(await made.node("admin", "admin"), 1, None)
        yield made


async def test_a_worker_replaces_the_signing_key_by_no_means(nodes: _Nodes) -> None:
    worker = await nodes.node("worker", "thief")
    key = await signing_key(worker)
    stream = StoredStream(worker, SECRETS)
    for headers in ({}, {"Nats-Rollup": "sub"}, {"Nats-Rollup": "all"}):
        with pytest.raises(FleetUnavailable):
            await stream.put(SIGNING_KEY, b"x" * len(key), headers=headers)
    with pytest.raises(FleetUnavailable):
        await stream.put(SIGNING_KEY, b"x" * len(key), ttl=1)
    assert await signing_key(await nodes.node("worker", "other")) == key


async def test_the_key_outlives_another_init(nodes: _Nodes) -> None:
    worker = await nodes.node("worker", "one")
    key = await signing_key(worker)
    await make_streams(await nodes.node("admin", "operator"), 1, None)
    assert await signing_key(worker) == key
