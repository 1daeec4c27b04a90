"""Writes one journal.

Events are added at once and stored together: everything that was added before a `flush` is one append. While the store
fails, events wait here, up to a limit; the conversation goes on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from dragoman.cleaning import Cleaning
from dragoman.journal.content import JournalContent, without_content
from dragoman.journal.events import AnyEvent, StampedEvent, UnreadableJournal, encode_events
from dragoman.journal.masking import masked
from dragoman.journal.store import JournalConflict, JournalStore, JournalStoreError
from dragoman.logs import Redaction

__all__ = ["JournalWriter", "Journals"]

_log = logging.getLogger(__name__)

# Events that wait for a store that fails, and their size. A turn has some tens, and a few more for each second it lasts.
_MOST_WAITING = 10_000
_MOST_WAITING_BYTES = 32 * 1024 * 1024
# How often what was not used for long is looked for.
_LOOK_SECONDS = 24 * 3600.0


class Journals:
    """The journals of this process: where they are stored, what of their events, and for how long."""

    def __init__(
        self,
        store: JournalStore | None = None,
        content: JournalContent = "full",
        cleaning: Cleaning | None = None,
        keep: timedelta | None = None,
    ) -> None:
        """Without a store, or with the content `off`, nothing is stored. Without `keep`, nothing is deleted."""
        self.store = None if content == "off" else store
        # What was stored before it was switched off is deleted in time, too.
        self._all = store
        self.content = content
        self.cleaning = Cleaning(Redaction()) if cleaning is None else cleaning
        self._keep = keep
        self._next_look = 0.0
        # Called after each append to a client's conversation: the journal's id, its last sequence number, its connection.
        self.on_append: Callable[[str, int, str], None] | None = None

    async def forget_unused(self) -> None:
        """Delete what was not used for long. It looks once a day, however often it is called."""
        now = time.monotonic()
        if self._all is None or self._keep is None or now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        try:
            await self._all.forget_unused(datetime.now(UTC), self._keep)
        except (JournalStoreError, UnreadableJournal) as error:
            _log.warning("what was not used for long could not be deleted: %s", error)


class JournalWriter:
    """Appends to one journal. `sequence` is that of its last stored event."""

    def __init__(
        self,
        journals: Journals,
        journal: str,
        sequence: int = 0,
        *,
        connection: str | None = None,
        on_lost: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`connection`: whose conversation it is, if it is one of a client.

        `on_lost` is called when another process has continued the journal, or a person has deleted it.
        """
        self._journals = journals
        self._store = journals.store
        self._content = journals.content
        self._cleaning = journals.cleaning
        self._connection = connection
        self._on_lost = on_lost
        self._now = now
        self.journal = journal
        self.sequence = sequence
        self._waiting: list[StampedEvent] = []
        # Whether this process is to own the journal, whether it owns it as far as it knows, and when it knew for certain.
        self._holds = self._held = False
        self._leased_at = 0.0
        self._is_lost = self._is_failing = False
        self._lock = asyncio.Lock()
        self._scheduled: asyncio.Task[None] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether no other process can have the journal: none has seen it, or the lease lasts, whatever the store says now."""
        if self._is_lost:
            return False
        if self._store is None or self.sequence == 0:
            return True
        return self._held and self._store.is_leased(self._leased_at)

    @property
    def is_lost(self) -> bool:
        """Whether another process has continued the journal, it was deleted, or it was given up."""
        return self._is_lost

    @property
    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._waiting) or (self.sequence > 0 and self._holds != self._held)

    def add(self, *events: AnyEvent, with_content: bool = True) -> None:
        """Add events, whole or without their content. They are stored with the next `flush`, or soon after `flush_soon`."""
        if self._store is None:
            return
        at = self._now()
        for event in events:
            is_whole = with_content and self._content == "full"
            kept = event if is_whole else without_content(event)
            if kept is not None:
                self._waiting.append((at, masked(kept, self._cleaning)))

    def hold(self, *, holds: bool) -> None:
        """Own the journal after the next append, or release it."""
        self._holds = holds

    def note_claimed(self) -> None:
        """This process has claimed the journal."""
        self._holds = self._held = True
        self.note_renewed()

    def note_renewed(self) -> None:
        """The leases of this process were renewed."""
        self._leased_at = time.monotonic()

    def stop(self) -> None:
        """Write nothing more: another process continues the journal."""
        self._store = None
        self._waiting.clear()

    def flush_soon(self) -> None:
        """Store what was added, in a moment, together with what is added until then."""
        if self._store is not None and (self._scheduled is None or self._scheduled.done()):
            self._scheduled = asyncio.get_running_loop().create_task(self._write())

    async def flush(self) -> None:
        """Store what was added so far. When it returns, it is stored, unless the store fails: that is logged."""
        if self._store is not None and (self.has_news or self._lock.locked()):
            # In a separate task: if the caller is cancelled, it is still known what of it is stored.
            await asyncio.shield(asyncio.get_running_loop().create_task(self._write()))

    async def _write(self) -> None:
        async with self._lock:
            while self._store is not None and self.has_news:
                if not await self._append(self._store):
                    return

    async def _append(self, store: JournalStore) -> bool:
        """Append what waits. False if that failed."""
        count, holds = len(self._waiting), self._holds
        try:
            self.sequence = await store.append(
                self.journal, self.sequence, self._waiting[:count], holds=holds
            )
        except JournalConflict:
            # A person deletes what they like; that another process continues it is rare, and worth a line.
            level = logging.WARNING if await self._is_there(store) else logging.INFO
            _log.log(level, "another process has continued %s, or it was deleted", self.journal)
            self._give_up()
            return False
        except JournalStoreError as error:
            # Once for each outage: it is tried again and again.
            _log.log(
                logging.DEBUG if self._is_failing else logging.WARNING,
                "%s is not stored yet, and will be when the store works again: %s",
                self.journal,
                error,
            )
            self._is_failing = True
            if count > _MOST_WAITING or len(encode_events(self._waiting)) > _MOST_WAITING_BYTES:
                _log.error(
                    "%s is no longer stored: too much has happened since the store failed", self.journal
                )
                self._give_up()
            return False
        del self._waiting[:count]
        self._is_failing = False
        self._held = holds
        self.note_renewed()
        if self._journals.on_append is not None and self._connection is not None:
            self._journals.on_append(self.journal, self.sequence, self._connection)
        return True

    async def _is_there(self, store: JournalStore) -> bool:
        try:
            return await store.find(self.journal) is not None
        except JournalStoreError:
            return True

    def _give_up(self) -> None:
        self.stop()
        self._is_lost = True
        self._on_lost()

    async def close(self) -> None:
        """Store what was added, and release the journal."""
        self.hold(holds=False)
        await self.flush()
        if self._scheduled is not None:
            await asyncio.wait({self._scheduled})
