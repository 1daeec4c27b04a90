"""The decisions that a fleet has recorded, for `dragoman approvals history` and `dragoman policy`."""

from __future__ import annotations

from datetime import datetime

from dragoman.cli.errors import CommandError
from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.joining import joined, reader_name
from dragoman.fleet.lease import NodeLease
from dragoman.fleet.settings import FleetSettings
from dragoman.journal.decisions import RecordedDecision, decisions_since
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.store.errors import JournalStoreError

__all__ = ["fleet_decisions"]


async def fleet_decisions(fleet: FleetSettings, start: datetime | None) -> list[RecordedDecision]:
    """All decisions since then. Raises `CommandError`: a history without them would seem to be all."""
    try:
        name = reader_name(fleet)
        async with joined(fleet, name) as connection:
            store = JetStreamJournals(connection, NodeLease.of_reader(connection, name))
            return await decisions_since(store, start)
    except (FleetUnavailable, JournalStoreError) as error:
        raise CommandError(
            f"The decisions of the fleet at {', '.join(fleet.urls)} cannot be read: {error} "
            "It takes the credentials of a gateway."
        ) from error
