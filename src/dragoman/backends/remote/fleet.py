"""A fleet, as a process that uses its workers sees it: one for each process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from dragoman.backends.remote.known_workers import KnownWorkers
from dragoman.backends.remote.link import FleetLink
from dragoman.backends.remote.permission_mirror import PermissionMirror
from dragoman.backends.remote.worker_streams import WorkerStreams
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.joining import joined, reader_name
from dragoman.fleet.placement import Place
from dragoman.fleet.settings import FleetSettings
from dragoman.fleet.subjects import is_node_name
from dragoman.permissions.grants import Grants

__all__ = ["Fleet", "PlacementStore"]


class PlacementStore(Protocol):
    """A store that knows where conversations are: `journal.jetstream`."""

    async def place_of(self, journal: str) -> Place | None: ...

    async def hinted(self, keys: Sequence[str]) -> list[str]:
        """The conversations under these keys of the index, those of earlier keys first."""
        ...


class Fleet:
    """The workers, the streams with them, and where conversations are. It connects when it is first used."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[FleetConnection]],
        name: str,
        store: PlacementStore | None = None,
    ) -> None:
        self.link = FleetLink(connect, name)
        self.streams = WorkerStreams(self.link)
        self.workers = KnownWorkers(self.link)
        self.store = store
        self._mirror: PermissionMirror | None = None

    @classmethod
    def of_config(cls, config: FleetSettings) -> Fleet:
        """One that connects when it is used. It has no lease and no store, so it asks workers where conversations are.

        Raises `FleetUnavailable` if its credentials cannot be read.
        """
        name = reader_name(config)
        return cls(lambda: joined(config, name), name)

    @classmethod
    def on(cls, connection: FleetConnection, name: str, store: PlacementStore | None = None) -> Fleet:
        """One that uses a connection of the caller."""

        @asynccontextmanager
        async def given() -> AsyncIterator[FleetConnection]:
            yield connection

        return cls(given, name, store)

    def permission_mirror(self, grants: Grants) -> PermissionMirror:
        """The permission requests of workers in this process: one for all models."""
        if self._mirror is None:
            self._mirror = PermissionMirror(self.link.connected, grants, self._owner_of)
        return self._mirror

    async def _owner_of(self, conversation: str) -> str | None:
        """Raises `JournalStoreError`."""
        if self.store is None:
            return None
        place = await self.store.place_of(conversation)
        return place.owner if place is not None and is_node_name(place.owner) else None

    async def close(self) -> None:
        self.streams.close()
        self.workers.close()
        await self.link.close()
