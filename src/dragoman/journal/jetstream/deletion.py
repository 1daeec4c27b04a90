"""Deletes journals and content.

JetStream overwrites a message that is deleted by its number, in the files of all replicas. A journal is deleted in steps, so
that each can be repeated: all its decisions are in the audit log; a message says that it is deleted, after which nobody
appends; its messages are overwritten; a last message says that this is done. That one stays: an id is never used again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import live_incarnations
from dragoman.fleet.stored import StoredStream, naming_errors
from dragoman.fleet.subjects import INDEX, INDEX_SUBJECTS, SNAPSHOT_SUBJECTS, SNAPSHOTS
from dragoman.journal.events import AnyEvent, UnreadableJournal, encode_events
from dragoman.journal.jetstream.folds import ConversationFolds
from dragoman.journal.jetstream.head import JournalHead, KnownHead, journal_token
from dragoman.journal.jetstream.known import KnownHeads, new_attempt
from dragoman.journal.store import clock_is_plausible

__all__ = ["JournalDeletion"]

# Not the name of a journal: `journal_token` makes none like it.
_CLOCK = f"{SNAPSHOT_SUBJECTS}.~clock"


class JournalDeletion:
    """All calls raise `FleetUnavailable` or `NoAnswer`."""

    def __init__(self, connection: FleetConnection, known: KnownHeads, folds: ConversationFolds) -> None:
        self._connection = connection
        self._known = known
        self._folds = folds

    async def delete(self, journal: str) -> bool:
        """Delete a journal and those that it is the parent of, unless one of them is held."""
        known = await self._known.load(journal)
        if known is None or known.head.life == "deleted":
            return False
        if known.head.life == "erasing":
            await self._erase(known)
            return False
        heads = await self._known.messages.all_heads()
        parts = [each for each in heads if each.head.info.parent == journal and not each.head.is_deleted]
        wanted = [known, *parts]
        for each in wanted:
            if await self._known.lives(each.head):
                return False
        for each in wanted:
            if not await self._delete(each):
                return False
        return True

    async def _delete(self, known: KnownHead) -> bool:
        """False: somebody has written to it just then."""
        # Of one that cannot be read, what was copied before is all there is.
        with suppress(UnreadableJournal):
            await self._known.audited(known)
        deleted = await self._known.replace(known, known.head.erased(new_attempt(), "erasing"))
        if deleted is None:
            return False
        await self._erase(deleted)
        return True

    async def _erase(self, known: KnownHead) -> None:
        """Overwrite what a deleted journal has left."""
        journal = known.head.info.id
        self._folds.forget(journal)
        await self._known.messages.erase_before(journal, known.sequence)
        await self._folds.erase_snapshot(journal)
        with naming_errors("index entries were not deleted in time"):
            await self._connection.js.purge_stream(
                INDEX, subject=f"{INDEX_SUBJECTS}.*.{journal_token(journal)}"
            )
        await self._known.replace(
            known, replace(known.head, attempt=new_attempt(), life="deleted"), is_only=True
        )

    async def amend(self, journal: str, sequence: int, change: Callable[[AnyEvent], AnyEvent]) -> None:
        """Write the events of a message once more, one of them changed, and overwrite the message."""
        while True:
            known = await self._known.load(journal)
            if known is None or known.head.is_deleted:
                return
            messages = await self._known.messages.after(journal, 0, known.sequence)
            holders = [
                message
                for message in messages
                if (head := JournalHead.read(message)).first
                and head.first <= sequence <= head.first + head.count - 1
            ]
            if not holders:
                return
            entries = await self._known.messages.entries(holders[-1])
            events = [
                (entry.at, change(entry.event) if entry.sequence == sequence else entry.event)
                for entry in entries
            ]
            head = replace(known.head, first=entries[0].sequence, count=len(events), chunks=())
            if await self._known.replace(known, head, encode_events(events)) is not None:
                await self._known.messages.erase_all(holders)
                return

    async def forget_unused(self, now: datetime, keep: timedelta) -> int:
        present, limit = now.timestamp(), (now - keep).timestamp()
        heads = await self._known.messages.all_heads()
        for known in heads:
            if known.head.life == "erasing":
                await self._erase(known)
        is_plausible = clock_is_plausible(present, await self._seen_at(present), keep.total_seconds())
        incarnations = await live_incarnations(self._connection)
        deleted = 0
        for known in heads:
            head = known.head
            used_at = max(head.info.used_at, head.info.started_at)
            if head.is_deleted or head.lives_in(incarnations):
                continue
            if used_at > present:
                # By a clock that was wrong. It counts as used now: it must not stay for ever.
                started_at = min(head.info.started_at, present)
                info = replace(head.info, used_at=present, started_at=started_at)
                await self._known.replace(known, replace(head, info=info, first=0, count=0, chunks=()))
            elif is_plausible and used_at < limit:
                deleted += await self._delete(known)
        return deleted

    async def _seen_at(self, now: float) -> float:
        """When this was last called. Notes that it is called now."""
        stream = StoredStream(self._connection, SNAPSHOTS)
        stored = await stream.last(_CLOCK)
        await stream.put(_CLOCK, msgspec.json.encode(now))
        try:
            return msgspec.json.decode(stored.data, type=float) if stored is not None else 0.0
        except msgspec.MsgspecError:
            return 0.0
