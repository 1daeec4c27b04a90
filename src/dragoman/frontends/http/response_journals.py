"""Reads the journals of background responses, for those that this process does not run.

The process that runs a response owns its journal. If that process has died, the next process that reads the journal continues
the response, if its model runs on another machine. Otherwise it appends the end: the response has failed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self, TypeAlias

import msgspec

from dragoman.frontends.http.errors import ApiError, bad_request, storage_unavailable
from dragoman.frontends.http.stream import ResponseStream
from dragoman.frontends.http.stream_rebuild import PartOrEnd, last_events, server_ended
from dragoman.journal.events import AnyEvent, JournalEntry, UnreadableJournal
from dragoman.journal.response_events import PartsReported, ResponseClosed
from dragoman.journal.store import (
    JOURNAL_LEASE_SECONDS,
    Claim,
    HeldElsewhere,
    JournalConflict,
    JournalStore,
    JournalStoreError,
)
from dragoman.journal.writer import Journals
from dragoman.lm import JsonObject

__all__ = [
    "ContinueResponse",
    "events_not_stored",
    "followed",
    "mapping_store_errors",
    "read_or_take_over",
    "resumed_events",
    "stored_entries",
    "stored_events",
]

_log = logging.getLogger(__name__)

# How long another process's response may say nothing, before a client that follows it looks whether the process lives.
_LOOK_SECONDS = 0.5


# Continues a response whose journal this process owns now. False: it cannot be continued.
ContinueResponse: TypeAlias = Callable[[str], Coroutine[None, None, bool]]


async def read_or_take_over(
    journals: Journals, id_: str, continues: ContinueResponse, after: int = 0
) -> tuple[list[AnyEvent], bool]:
    """Return the events of the journal after this one, and whether a live process owns the journal.

    This is a write: if no live process owns a journal without an end, it is claimed. Then the response goes on in this
    process, or an end is appended.
    """
    if journals.store is None:
        return [_ended_early()], False
    with mapping_store_errors():
        return await _read_or_take_over(journals.store, id_, continues, after)


async def followed(journals: Journals, id_: str, continues: ContinueResponse) -> AsyncIterator[PartOrEnd]:
    """Yield the parts in the journal, each when it is stored, and then the end."""
    claimed_at = time.monotonic()
    events, is_held = await read_or_take_over(journals, id_, continues)
    for each in _said(events):
        yield each
    if not is_held or journals.store is None:
        return
    after = len(events)
    store = journals.store
    async with _Following(store, id_, after) as following:
        while True:
            with mapping_store_errors():
                entry = await following.next(_LOOK_SECONDS)
                if entry is not None and entry.sequence <= after:
                    continue
                events = [] if entry is None else [entry.event]
                # Nobody may live to append the end. At first a look, and once per lease a claim: a process that hangs
                # still lives, and only a claim finds that its lease ended.
                is_owned = entry is not None or bool((info := await store.find(id_)) and info.owner)
                if not is_owned or time.monotonic() - claimed_at >= JOURNAL_LEASE_SECONDS:
                    claimed_at = time.monotonic()
                    more, is_held = await read_or_take_over(journals, id_, continues, after + len(events))
                    events += more
            after += len(events)
            for each in _said(events):
                yield each
            if not is_held or any(isinstance(event, ResponseClosed) for event in events):
                return


class _Following:
    """Waits for the next event of a journal, but not for ever."""

    def __init__(self, store: JournalStore, id_: str, after: int) -> None:
        self._entries = store.follow(id_, after)
        self._next: asyncio.Task[JournalEntry] | None = None

    async def next(self, seconds: float) -> JournalEntry | None:
        """None: there was none in this time."""
        if self._next is None:
            self._next = asyncio.create_task(anext(self._entries))
        await asyncio.wait({self._next}, timeout=seconds)
        if not self._next.done():
            return None
        done, self._next = self._next, None
        return done.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait({self._next})
        await self._entries.aclose()


def _said(events: Iterable[AnyEvent]) -> Iterator[PartOrEnd]:
    for event in events:
        if isinstance(event, PartsReported):
            yield from event.parts
        elif isinstance(event, ResponseClosed):
            yield event


async def resumed_events(
    stream: ResponseStream, recorded: AsyncIterator[PartOrEnd], after: int
) -> AsyncIterator[JsonObject]:
    """Yield the events whose number is greater than `after`."""
    for event in stream.begin():
        if _number(event) > after:
            yield event
    async for each in recorded:
        events = last_events(stream, each, after) if isinstance(each, ResponseClosed) else stream.take(each)
        for event in events:
            if _number(event) > after:
                yield event


async def stored_events(journals: Journals, id_: str) -> list[AnyEvent]:
    """Return the events that are stored now. There may be no end yet."""
    return [entry.event for entry in await stored_entries(journals, id_)]


async def stored_entries(journals: Journals, id_: str) -> list[JournalEntry]:
    """The same, with their times."""
    if journals.store is None:
        return []
    with mapping_store_errors():
        return await journals.store.read(id_)


async def _read_or_take_over(
    store: JournalStore, id_: str, continues: ContinueResponse, after: int
) -> tuple[list[AnyEvent], bool]:
    while True:
        entries = await store.read(id_, after)
        events = [entry.event for entry in entries]
        if any(isinstance(event, ResponseClosed) for event in events):
            return events, False
        last = after + len(entries)
        match await _claim(store, id_, last):
            case "held":
                return events, True
            case "gone":
                return [*events, _ended_early()], False
            case "ours":
                try:
                    is_continued = await continues(id_)
                except ApiError:
                    # Nothing of it runs here, so another server may have it.
                    await store.release(id_)
                    raise
                if is_continued:
                    return events, True
                # Another process may be quicker. Then its end is read.
                with suppress(JournalConflict):
                    await store.append(id_, last, [(time.time(), _ended_early())], holds=False)
            case "changed":
                pass


async def _claim(store: JournalStore, id_: str, last: int) -> Claim:
    try:
        return await store.claim(id_, last)
    except HeldElsewhere:
        return "held"


def _ended_early() -> ResponseClosed:
    return ResponseClosed("failed", int(time.time()), error=server_ended().payload, is_cut=True)


def events_not_stored() -> ApiError:
    return bad_request(
        'The events of this response are not stored (they are if `content` in [journal] is "full"), and no longer in '
        "memory. Leave `stream` out to get the response.",
        param="stream",
        code="events_not_stored",
    )


@contextmanager
def mapping_store_errors() -> Iterator[None]:
    """Raise the errors of the journals' store as `ApiError`."""
    try:
        yield
    except JournalStoreError as error:
        _log.warning("a journal cannot be used: %s", error)
        raise storage_unavailable() from error
    except UnreadableJournal as error:
        _log.warning("a journal cannot be used: %s", error)
        raise ApiError(
            503,
            "server_error",
            "The stored data cannot be used now. The server's log has the reason.",
            retry_after=1,
        ) from error


def _number(event: JsonObject) -> int:
    return msgspec.convert(event["sequence_number"], int)
