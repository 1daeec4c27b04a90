"""Reads the journals of background responses, for those that this process does not run.

The process that runs a response owns its journal. If that process has died, the next process that reads the journal
appends the end: the response has failed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import msgspec

from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.frontends.http.stream import ResponseStream
from dragoman.frontends.http.stream_rebuild import PartOrEnd, last_events, server_ended
from dragoman.journal.events import AnyEvent, UnreadableJournal
from dragoman.journal.response_events import PartsReported, ResponseClosed
from dragoman.journal.store import (
    LEASE_SECONDS,
    Claim,
    HeldElsewhere,
    JournalConflict,
    JournalStore,
    JournalStoreError,
)
from dragoman.journal.writer import Journals
from dragoman.lm import JsonObject

__all__ = [
    "events_not_stored",
    "followed",
    "mapping_store_errors",
    "read_or_close",
    "resumed_events",
    "stored_events",
]

_log = logging.getLogger(__name__)

# How often the journal of another process's response is read for a client that follows it.
_LOOK_SECONDS = 0.5


async def read_or_close(journals: Journals, id_: str, after: int = 0) -> tuple[list[AnyEvent], bool]:
    """Return the events of the journal after this one, and whether a live process owns the journal.

    This is a write: if no live process owns a journal without an end, it is claimed, and an end is appended.
    """
    if journals.store is None:
        return [_ended_early()], False
    with mapping_store_errors():
        return await _read_or_close(journals.store, id_, after)


async def followed(journals: Journals, id_: str) -> AsyncIterator[PartOrEnd]:
    """Yield the parts in the journal, each when it is stored, and then the end."""
    after = 0
    claimed_at = -math.inf
    while True:
        events, is_held = None, True
        if time.monotonic() - claimed_at < LEASE_SECONDS:
            events = await _read_while_owned(journals, id_, after)
        if events is None:
            # At first, and once per lease: a process that hangs still lives, and only a claim finds that its lease ended.
            claimed_at = time.monotonic()
            events, is_held = await read_or_close(journals, id_, after)
        after += len(events)
        for event in events:
            if isinstance(event, PartsReported):
                for part in event.parts:
                    yield part
            elif isinstance(event, ResponseClosed):
                yield event
        if not is_held:
            return
        await asyncio.sleep(_LOOK_SECONDS)


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
    if journals.store is None:
        return []
    with mapping_store_errors():
        return [entry.event for entry in await journals.store.read(id_)]


async def _read_while_owned(journals: Journals, id_: str, after: int) -> list[AnyEvent] | None:
    """Return the events after this one, without a write. None: no live process owns the journal, or it has an end."""
    store = journals.store
    if store is None:
        return None
    with mapping_store_errors():
        # In this order: what an owner appends before it releases the journal is not missed.
        info = await store.find(id_)
        events = [entry.event for entry in await store.read(id_, after)]
    is_owned = info is not None and bool(info.owner)
    return events if is_owned and not any(isinstance(each, ResponseClosed) for each in events) else None


async def _read_or_close(store: JournalStore, id_: str, after: int) -> tuple[list[AnyEvent], bool]:
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
    return ResponseClosed("failed", int(time.time()), error=server_ended().payload)


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
    except (JournalStoreError, UnreadableJournal) as error:
        _log.warning("a journal cannot be used: %s", error)
        raise ApiError(
            503,
            "server_error",
            "The stored data cannot be used now. The server's log has the reason.",
            retry_after=1,
        ) from error


def _number(event: JsonObject) -> int:
    return msgspec.convert(event["sequence_number"], int)
