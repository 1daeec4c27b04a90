"""Reads what JetStream stores, from the server that answers first. It may be a moment behind the stream's leader."""

from __future__ import annotations

import nats.js.errors

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.stored import StoredMessage, as_stored, last_stored, naming_errors

__all__ = ["message_at", "nearest_stored", "next_stored"]

_LATE = "{} could not be read in time"


async def nearest_stored(connection: FleetConnection, stream: str, subject: str) -> StoredMessage | None:
    """The last message of a subject. If the server has none, the leader's."""
    with naming_errors(_LATE.format(subject)):
        try:
            return as_stored(await connection.js.get_msg(stream, subject=subject, direct=True))
        except nats.js.errors.NotFoundError:
            pass
    return await last_stored(connection, stream, subject)


async def message_at(connection: FleetConnection, stream: str, sequence: int) -> StoredMessage | None:
    """The message with this sequence number. None: it is gone."""
    with naming_errors(_LATE.format(f"message {sequence}")):
        for is_direct in (True, False):
            try:
                return as_stored(await connection.js.get_msg(stream, sequence, direct=is_direct))
            except nats.js.errors.NotFoundError:
                pass
    return None


async def next_stored(
    connection: FleetConnection, stream: str, subjects: str, *, after: int = 0, is_latest: bool = False
) -> StoredMessage | None:
    """The first message after this one whose subject fits. `is_latest`: as the leader has it."""
    with naming_errors(_LATE.format(subjects)):
        for is_direct in (False,) if is_latest else (True, False):
            try:
                return as_stored(
                    await connection.js.get_msg(
                        stream, after + 1, subject=subjects, direct=is_direct, next=True
                    )
                )
            except nats.js.errors.NotFoundError:
                pass
    return None
