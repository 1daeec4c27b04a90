"""Reads what JetStream stores: from the server that answers first, and from the stream's leader if that one has nothing.

The first may be a moment behind the leader.
"""

from __future__ import annotations

import nats.js.errors

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.stored import (
    StoredMessage,
    as_stored,
    first_stored,
    last_of_each,
    last_stored,
    naming_errors,
    stored_at,
)

__all__ = ["any_stored", "message_at", "nearest_stored", "next_stored"]


async def nearest_stored(connection: FleetConnection, stream: str, subject: str) -> StoredMessage | None:
    """The last message of a subject."""
    found = await last_of_each(connection, stream, [subject])
    return found[0] if found else await last_stored(connection, stream, subject)


async def any_stored(connection: FleetConnection, stream: str, subjects: str) -> StoredMessage | None:
    """The first message whose subject fits."""
    found = await first_stored(connection, stream, subjects, 1)
    return found[0] if found else await next_stored(connection, stream, subjects)


async def message_at(connection: FleetConnection, stream: str, sequence: int) -> StoredMessage | None:
    """The message with this sequence number. None: it is gone."""
    found = await stored_at(connection, stream, sequence)
    return found or await _of_leader(connection, stream, sequence)


async def next_stored(
    connection: FleetConnection, stream: str, subjects: str, after: int = 0
) -> StoredMessage | None:
    """The first message after this one whose subject fits, as the leader has it."""
    return await _of_leader(connection, stream, after + 1, subjects)


async def _of_leader(
    connection: FleetConnection, stream: str, sequence: int, subjects: str | None = None
) -> StoredMessage | None:
    with naming_errors(f"{subjects or sequence} could not be read in time"):
        try:
            return as_stored(
                await connection.js.get_msg(stream, sequence, subject=subjects, next=subjects is not None)
            )
        except nats.js.errors.NotFoundError:
            return None
