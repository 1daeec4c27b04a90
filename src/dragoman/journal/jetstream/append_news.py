"""What other nodes append to journals, as it happens: for pages that show a conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.stored import StoredMessage
from dragoman.fleet.subjects import NEWS
from dragoman.journal.events import UnreadableJournal
from dragoman.journal.jetstream.head import JournalHead

__all__ = ["heard_appends"]


@asynccontextmanager
async def heard_appends(
    connection: FleetConnection, own_name: str, note: Callable[[str, int, str], None]
) -> AsyncIterator[None]:
    """Call `note` with each journal to which another node appends, until the end of the block.

    It gets the id of the journal, the number of its last event, and its connection. A message may be lost: what is stored
    counts.
    """

    async def hear(received: Received) -> None:
        try:
            head = JournalHead.read(StoredMessage(0, received.subject, b"", received.headers))
        except UnreadableJournal:
            return
        if head.node != own_name and head.info.kind in ("agent", "chat") and not head.is_deleted:
            note(head.info.id, head.last, head.info.connection)

    end = await connection.subscribe(f"{NEWS}.*", hear)
    try:
        yield
    finally:
        await end()
