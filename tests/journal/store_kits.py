"""Both stores of journals, for tests of what every store does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.streams import make_streams
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import HeldElsewhere, JournalStore
from dragoman.process import ProcessIdentity
from dragoman.store import Database
from nats_servers import nats_server

__all__ = ["KITS", "KitName", "StoreKit", "claimed", "node", "store_kit"]

KitName: TypeAlias = Literal["sqlite", "jetstream"]
KITS: tuple[KitName, ...] = ("sqlite", "jetstream")


@dataclass
class StoreKit:
    name: KitName
    # Where the store has its files.
    folder: Path
    store: JournalStore
    # The store of another process, or of another node, that lives; and how people know that one.
    other: JournalStore
    other_name: str
    # Tells a store which conversations a request may belong to.
    consider: Callable[[JournalStore, str], Awaitable[None]]

    def files_with(self, secret: str) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [path.name for path in files if secret.encode() in path.read_bytes()]


async def claimed(store: JournalStore, journal: str, expected: int) -> str:
    """The result of a claim. That another node has it counts as held."""
    try:
        return await store.claim(journal, expected)
    except HeldElsewhere:
        return "held"


def _other_process() -> str:
    identity = ProcessIdentity.of(os.getppid())
    assert identity is not None
    return f"{identity.pid} {identity.started}"


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[StoreKit]:
    async def nothing(_store: JournalStore, _id: str) -> None:
        pass

    with Database.open(folder) as database, Database.open(folder) as second:
        yield StoreKit(
            "sqlite",
            folder,
            SqliteJournals(database),
            SqliteJournals(second, _other_process()),
            str(os.getppid()),
            nothing,
        )


@asynccontextmanager
async def node(url: str, name: str, times: LeaseTimes | None = None) -> AsyncIterator[JetStreamJournals]:
    """The store of a node that lives."""
    async with (
        FleetConnection.open((url,), name) as connection,
        NodeLease.held(connection, name, "worker", times=times) as lease,
    ):
        yield JetStreamJournals(connection, lease)


@asynccontextmanager
async def _jetstream(folder: Path) -> AsyncIterator[StoreKit]:
    async def consider(store: JournalStore, id_: str) -> None:
        assert isinstance(store, JetStreamJournals)
        await store.consider([id_])

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats_server(folder))
        operator = await stack.enter_async_context(FleetConnection.open((url,), "operator"))
        await make_streams(operator, 1, None)
        store = await stack.enter_async_context(node(url, "w1"))
        other = await stack.enter_async_context(node(url, "w2"))
        yield StoreKit("jetstream", folder / "jetstream", store, other, "w2", consider)


def store_kit(name: KitName, folder: Path) -> AbstractAsyncContextManager[StoreKit]:
    return _sqlite(folder) if name == "sqlite" else _jetstream(folder)
