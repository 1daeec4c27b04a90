"""One background response that runs in this process.

Its parts go into memory, from where clients follow it live, and in batches into its journal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.errors import unexpected
from dragoman.frontends.http.histories import HistoryEntry
from dragoman.frontends.http.part_window import PartWindow
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.response_journals import events_not_stored, stored_events
from dragoman.frontends.http.stream_rebuild import PartOrEnd, drop, last_events, rebuilt
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.response_events import PartsReported, ResponseClosed, ResponseOpened
from dragoman.journal.store import RENEW_SECONDS, Claim, HeldElsewhere, JournalStore, JournalStoreError
from dragoman.journal.writer import Journals, JournalWriter
from dragoman.lm import DataPart, JsonObject, Part
from dragoman.lm.parts import POSITION

__all__ = ["BackgroundRun", "StoppedBy"]

_log = logging.getLogger(__name__)

# Parts are stored this often, so that a stream costs a few writes a second; and earlier if there are many.
_BATCH_SECONDS = 0.5
_BATCH_BYTES = 64 * 1024
# Of the parts in memory. Older ones are read from the journal.
_MEMORY_BYTES = 4 * 1024 * 1024
# The same while the journal cannot be written. Beyond it, the oldest parts are lost.
_MOST_BYTES = 4 * _MEMORY_BYTES

# Why a run is stopped: by its client, because the server ends, or for another server that continues it.
StoppedBy: TypeAlias = Literal["client", "server", "successor"]


class BackgroundRun:
    """A running response. The service passes it the parts of the model, and then the end."""

    def __init__(
        self,
        entry: HistoryEntry,
        opened: ResponseOpened,
        journals: Journals,
        model: str,
        connection: str,
        answer: ResponseRun,
        stored: Sequence[AnyEvent] = (),
    ) -> None:
        """`entry` has the response as it begins. `stored`: its journal, which another server began and this one owns."""
        self.entry = entry
        self.opened = opened
        self.model = model
        self.connection = connection
        self._answer = answer
        self.stream = rebuilt(Resource.begun_as(entry.response), opened, stored)
        reported = [event for event in stored if isinstance(event, PartsReported)]
        parts = [part for event in reported for part in event.parts]
        self.is_adopted = bool(stored)
        self.stopped: StoppedBy | None = None
        self.has_ended = asyncio.Event()
        # Whether another process continues the journal, or has closed it.
        self.is_lost = False
        self._closed: ResponseClosed | None = None
        # The response as clients see it until its end is stored.
        self._shown: JsonObject | None = None
        self._journals = journals
        self._is_journalled = journals.store is not None and journals.content == "full"
        self._writer = JournalWriter(journals, self.id, len(stored), on_lost=self._on_lost)
        # The number of events that the journal is to have.
        self._added = len(stored)
        self._window = PartWindow(len(parts))
        # The last position that the model reported, the last that was added to the journal, and the last that it has.
        self._position = reported[-1].position if reported else None
        self._added_position = self._stored_position = self._position
        self._news = asyncio.Event()
        self._storing: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()

    @property
    def id(self) -> str:
        return self.stream.resource.id

    @property
    def is_recorded(self) -> bool:
        """Whether the journal has everything that is needed to follow the response."""
        return self._is_journalled and self._writer.sequence >= self._added

    @property
    def has_final_end(self) -> bool:
        """Whether no other server can give it another end: the journal has this one, or no other can continue the response."""
        return self.is_recorded or not (self.can_be_continued or self.is_lost)

    @property
    def is_whole(self) -> bool:
        """Whether the first part is still available."""
        return not (self._window.has_lost if self._is_journalled else self._window.first)

    def so_far(self) -> JsonObject:
        return self._shown or self.stream.so_far()

    async def open(self) -> None:
        """Begin the journal, or continue it."""
        if self._added:
            self._writer.note_claimed()
        else:
            self._writer.hold(holds=True)
            started = JournalStarted("response", self.model, connection=self.connection)
            self._add(started, self.opened)
            await self._writer.flush()
        if self._is_journalled:
            self._answer.keep(self.id)
        self._storing = asyncio.create_task(self._store_often())

    @property
    def can_be_continued(self) -> bool:
        """Whether another server can continue it."""
        return self._stored_position is not None

    @property
    def is_final(self) -> bool:
        """Whether what clients see here is the end, and no other server has the response."""
        return not (self.is_lost or self.stopped == "successor")

    def stop(self, reason: StoppedBy) -> bool:
        """Stop the model. Return whether the response ends here."""
        if self._closed is None:
            self.stopped = self.stopped or reason
            self._answer.cancel()
        return self.is_final

    def hand_over(self) -> None:
        """Stop, for another server to continue from what is stored."""
        if self.stopped is None and not (self._closed is not None and self.is_recorded):
            self.stopped = "successor"
            self._answer.hand_over(self.id)

    async def take_all(self, parts: Iterable[Part]) -> None:
        """Take what the model said before the response went to the background. It is stored as one."""
        for part in parts:
            self._add_part(part)
        await self._store()

    async def take(self, part: Part) -> None:
        if self._add_part(part) or self._window.new_bytes >= _BATCH_BYTES:
            await self._store()

    def _add_part(self, part: Part) -> bool:
        """Add a part, or note a position. Return whether the position must be stored at once."""
        if isinstance(part, DataPart) and part.mime_type == POSITION:
            self._position = part.data.decode()
            self._window.mark_position()
            # With the first one, another server can continue the response.
            return self._added_position is None
        drop(self.stream.take(part))
        self._window.add(part)
        self._wake()
        return False

    def end(self, closed: ResponseClosed) -> Resource:
        """End the response, and return it. Clients see that only after `announce`."""
        self._shown = self.stream.so_far()
        self._closed = closed
        drop(last_events(self.stream, closed))
        return self.stream.resource

    async def close(self, *end: ResponseClosed) -> None:
        """Store the end, and own the journal no longer. Without an end, another server continues the response."""
        self._is_closing.set()
        if self._storing is not None:
            await self._storing
        self._writer.hold(holds=False)
        await self._store(*end)
        # Until its end is stored, another server can give it another one.
        while self.can_be_continued and not (self.is_recorded or self.is_lost or self.stopped == "successor"):
            await asyncio.sleep(_BATCH_SECONDS)
            await self.store_again()

    async def store_again(self) -> None:
        """Store what could not be stored when it ended."""
        await self._writer.flush()

    def announce(self) -> None:
        """Show the end to clients."""
        self._is_closing.set()
        self._shown = None
        self.has_ended.set()
        self._wake()

    async def recorded(self) -> AsyncIterator[PartOrEnd]:
        """Yield the parts from the first one on, each when it is there, and then the end; no end if another server has it."""
        place = 0
        while True:
            news = self._news
            if place >= self._window.first:
                parts = self._window.since(place)
            else:
                events = await stored_events(self._journals, self.id)
                stored = (event.parts for event in events if isinstance(event, PartsReported))
                parts = [part for batch in stored for part in batch][place:]
                if not parts:
                    raise events_not_stored()
            for part in parts:
                place += 1
                yield part
            if parts:
                continue
            if self.has_ended.is_set():
                if not self.is_final:
                    return
                if self._closed is None:
                    raise unexpected()
                yield self._closed
                return
            await news.wait()

    async def _store_often(self) -> None:
        renewed = time.monotonic()
        while not self._is_closing.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_BATCH_SECONDS):
                    await self._is_closing.wait()
            is_behind = self._is_journalled and not self.is_recorded
            if self._window.has_new or self._position != self._added_position or is_behind:
                await self._store()
            elif (store := self._journals.store) is None or self._writer.is_lost:
                continue
            elif not self._writer.is_ours:
                await self._look_whether_lost(store)
            elif time.monotonic() - renewed >= RENEW_SECONDS:
                # A model may report nothing for minutes.
                renewed = time.monotonic()
                try:
                    await store.renew()
                    self._writer.note_renewed()
                except JournalStoreError as error:
                    _log.warning("the lease of %s could not be renewed: %s", self.id, error)

    async def _look_whether_lost(self, store: JournalStore) -> None:
        """The lease has ended: another process may have closed the journal. If not, this one goes on."""
        sequence = self._writer.sequence
        try:
            info = await store.find(self.id)
            is_same = info is not None and info.sequence == sequence
            claim: Claim = await store.claim(self.id, sequence) if is_same else "changed"
        except HeldElsewhere:
            claim = "held"
        except JournalStoreError as error:
            _log.debug("whether %s is lost is not known: %s", self.id, error)
            return
        if claim == "ours":
            self._writer.note_claimed()
        else:
            _log.warning("another process has taken %s for lost, and continues it or has closed it", self.id)
            self._writer.stop()
            self._on_lost()

    async def _store(self, *end: ResponseClosed) -> None:
        position = self._position
        parts = self._window.batch(is_last=bool(end))
        count = self._window.batched
        if parts or position != self._added_position:
            self._added_position = position
            self._add(PartsReported(parts, position, None if position is None else self._answer.usage))
        self._add(*end)
        await self._writer.flush()
        if self.is_recorded:
            self._window.mark_stored(count)
            if position is not None and position != self._stored_position:
                self._stored_position = position
                self._answer.stored(self.id, position)
        self._window.shrink(_MEMORY_BYTES, _MOST_BYTES if self._is_journalled else _MEMORY_BYTES)

    def _add(self, *events: AnyEvent) -> None:
        self._writer.add(*events)
        self._added += len(events)

    def _on_lost(self) -> None:
        """Another server continues the response, or has closed it."""
        self.is_lost = True
        self._answer.hand_over(self.id)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
