"""Responses that run without their client: `background: true`.

Those of this process are in memory while they run. The others are read from their journals. In a fleet, the gateway that
runs a response cancels it for any other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

from dragoman.frontends.http.background_run import BackgroundRun
from dragoman.frontends.http.errors import ApiError, bad_request, storage_unavailable
from dragoman.frontends.http.histories import Histories, HistoryEntry
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.response_journals import (
    ContinueResponse,
    events_not_stored,
    followed,
    mapping_store_errors,
    read_or_take_over,
    resumed_events,
    stored_events,
)
from dragoman.frontends.http.stream_rebuild import PartOrEnd, new_stream, rebuilt
from dragoman.journal.response_events import ResponseClosed, ResponseOpened
from dragoman.journal.store import JournalStore
from dragoman.journal.writer import Journals
from dragoman.lm import JsonObject

__all__ = ["BackgroundResponses", "OtherGateways"]

_log = logging.getLogger(__name__)

# Runs that have ended and whose parts are only in memory.
_MOST_ENDED = 16
# After a cancellation: agents get a few seconds to stop what they do.
_STOP_SECONDS = 15.0
# After a cancellation at another gateway. If that one has died, its lease ends first: 20 seconds.
_ELSEWHERE_SECONDS = 40.0
# Between two cancellations: a gateway may have died, and another one continues the response.
_REPEAT_SECONDS = 2.0
# How often to look whether an agent has stopped.
_LOOK_SECONDS = 0.05


# Takes a response as it began, its connection, and as it ended.
FinishResponse: TypeAlias = Callable[[HistoryEntry, str, Resource], Awaitable[None]]


class OtherGateways(Protocol):
    """The other servers that have the same journals."""

    async def cancel(self, owner: str, response: str) -> None:
        """Ask the server that owns a response's journal to cancel it. It may not be there any more."""
        ...


class BackgroundResponses:
    """Finds, follows, cancels and deletes background responses."""

    def __init__(
        self,
        journals: Journals,
        histories: Histories,
        continue_response: ContinueResponse,
        finish: FinishResponse,
        gateways: OtherGateways | None = None,
    ) -> None:
        """`continue_response` continues one of a server that is gone. `finish` stores what follows from an end."""
        self._journals = journals
        self._gateways = gateways
        self._histories = histories
        self._continue_response = continue_response
        self._finish = finish
        self._is_ending = False
        # Responses of other servers that are about to go on here.
        self._continuing: dict[str, asyncio.Task[bool]] = {}
        self._running: dict[str, BackgroundRun] = {}
        # Those that have ended, and whose journals are not complete.
        self._ended: OrderedDict[str, BackgroundRun] = OrderedDict()

    @property
    def stores_parts(self) -> bool:
        """Whether journals have everything that models say."""
        return self._journals.store is not None and self._journals.content == "full"

    @property
    def are_running(self) -> bool:
        return bool(self._running)

    def add(self, run: BackgroundRun) -> None:
        self._running[run.id] = run

    def ended(self, run: BackgroundRun) -> None:
        """The run is over: show its end, and drop it from memory if it is stored."""
        self._running.pop(run.id, None)
        if not run.is_recorded and not run.is_lost:
            self._ended[run.id] = run
            while len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)
        run.announce()

    def stop(self, id_: str) -> bool:
        """Cancel a response for a client of another gateway. Return whether it runs here."""
        run = self._running.get(id_)
        return run is not None and run.stop("client")

    async def current(self, id_: str, connection: str, entry: HistoryEntry) -> JsonObject:
        """A stored response as it is now."""
        if not entry.is_under_way:
            return entry.response
        if (run := self._running.get(id_)) is not None:
            return run.so_far()
        if (run := self._ended.get(id_)) is not None:
            # The store failed at its end. It may work again.
            await run.store_again()
            if run.is_lost:
                del self._ended[id_]
            else:
                if run.has_final_end:
                    await self._finish(entry, connection, run.stream.resource)
                return run.so_far()
        events, is_held = await read_or_take_over(self._journals, id_, self._continued)
        opened = next((each for each in events if isinstance(each, ResponseOpened)), ResponseOpened("spec"))
        stream = rebuilt(Resource.begun_as(entry.response), opened, events)
        if not is_held and self._journals.store is not None:
            await self._finish(entry, connection, stream.resource)
        return stream.so_far()

    async def continue_orphan(self, id_: str) -> bool:
        """Continue a response, if the server that ran it is gone: its worker says so. Return whether it has ended already."""
        store = self._journals.store
        if store is None or id_ in self._running or self._is_ending:
            return False
        try:
            with mapping_store_errors():
                # Only the gateways that have its journal know whether it has ended. A worker may name any journal.
                info = await store.find(id_)
                if info is None or info.kind != "response":
                    return False
            events, _ = await read_or_take_over(self._journals, id_, self._continued)
        except ApiError as error:
            _log.info("%s cannot be continued yet: %s", id_, error.message)
            return False
        return any(isinstance(event, ResponseClosed) for event in events)

    async def _continued(self, id_: str) -> bool:
        """Continue a response in this process, which owns its journal. False: it cannot be continued."""
        if id_ in self._running:
            return True
        if self._is_ending:
            raise storage_unavailable()
        if id_ in self._ended:
            return False
        if id_ not in self._continuing:
            self._continuing[id_] = asyncio.create_task(self._continue_response(id_))
            self._continuing[id_].add_done_callback(lambda _: self._continuing.pop(id_))
        return await asyncio.shield(self._continuing[id_])

    async def cancel(self, id_: str, connection: str, entry: HistoryEntry) -> JsonObject:
        """Cancel a response, and return it. One that has ended is returned as it is."""
        if not entry.is_background:
            raise bad_request(
                "Only a response with `background: true` is cancelled by its id. To cancel another one, close its "
                "connection while it runs.",
                param="id",
                code="response_not_cancellable",
            )
        if (run := self._running.get(id_)) is not None:
            run.stop("client")
            await run.has_ended.wait()
            if run.is_final:
                return run.so_far()
        response = await self.current(id_, connection, entry)
        if response["status"] != "in_progress":
            return response
        await self._cancel_elsewhere(id_)
        return await self.current(id_, connection, entry)

    async def _cancel_elsewhere(self, id_: str) -> None:
        """Let another gateway cancel a response, and wait until its journal has an end."""
        store = self._journals.store
        if self._gateways is None or store is None:
            raise _runs_elsewhere()

        async def until_closed() -> None:
            async for _ in self._followed(id_):
                pass

        closing = asyncio.create_task(until_closed())
        try:
            async with asyncio.timeout(_ELSEWHERE_SECONDS):
                while not closing.done():
                    with mapping_store_errors():
                        info = await store.find(id_)
                    # Another gateway may continue it meanwhile, or this one: then that one is asked.
                    if not self.stop(id_) and info is not None and info.owner:
                        await self._gateways.cancel(info.owner, id_)
                    await asyncio.wait({closing}, timeout=_REPEAT_SECONDS)
                await closing
        except TimeoutError as error:
            raise ApiError(
                503,
                "server_error",
                "The gateway that runs the response has not stopped it yet. Try again.",
                retry_after=5,
            ) from error
        finally:
            closing.cancel()
            await asyncio.wait({closing})

    async def events(self, id_: str, entry: HistoryEntry, after: int) -> AsyncIterator[JsonObject]:
        """Return the events of a response after this one. The events that are still to come follow live."""
        if not entry.is_background:
            raise bad_request(
                "Only a response with `background: true` is streamed again. Leave `stream` out.",
                param="stream",
            )
        opened: ResponseOpened | None
        recorded: AsyncIterator[PartOrEnd]
        if (run := self._running.get(id_) or self._ended.get(id_)) is not None:
            opened, recorded = run.opened if run.is_whole else None, self._live(run)
        else:
            events = await stored_events(self._journals, id_)
            # Where the store failed, the journal of a response that has ended may have no end.
            is_whole = entry.is_under_way or any(isinstance(each, ResponseClosed) for each in events)
            opened = next((each for each in events if isinstance(each, ResponseOpened) and is_whole), None)
            recorded = self._rest(id_, 0)
        if opened is None:
            raise events_not_stored()
        stream = new_stream(Resource.begun_as(entry.response), opened)
        return resumed_events(stream, recorded, after)

    async def _followed(self, id_: str) -> AsyncIterator[PartOrEnd]:
        """Yield the parts in the journal, and the end."""
        async for each in followed(self._journals, id_, self._continued):
            if isinstance(each, ResponseClosed) and (run := self._running.get(id_)) is not None:
                # It was adopted meanwhile. A client that has seen the end gets it with its next request, too.
                await run.has_ended.wait()
            yield each

    async def _live(self, run: BackgroundRun) -> AsyncIterator[PartOrEnd]:
        """Yield the parts of a run in this process, and the end. If another server has taken it, the rest is in the journal."""
        count = 0
        async for each in run.recorded():
            count += 1
            yield each
        if run.is_lost:
            async for each in self._rest(run.id, count):
                yield each

    async def _rest(self, id_: str, count: int) -> AsyncIterator[PartOrEnd]:
        """Yield what the journal has after so many parts, and the end. While the store cannot be used, it waits for a while."""
        limit = time.monotonic() + _ELSEWHERE_SECONDS
        while True:
            number = 0
            try:
                async for each in self._followed(id_):
                    number += 1
                    if number > count or isinstance(each, ResponseClosed):
                        count = max(count, number)
                        yield each
            except ApiError as error:
                if error.code != storage_unavailable().code or time.monotonic() >= limit:
                    raise
            else:
                return
            await asyncio.sleep(_REPEAT_SECONDS)

    async def delete(self, id_: str, connection: str) -> None:
        """Delete a response and its journal; and its agent's conversation, if no other response is left of that."""
        entry = await self._histories.find(id_, connection)
        if entry.is_under_way and entry.is_background:
            # Also if its server is gone: its worker may go on with it.
            await self.cancel(id_, connection, entry)
        store = self._journals.store
        with mapping_store_errors():
            if store is not None and not (await store.delete(id_) or await store.find(id_) is None):
                raise _runs_elsewhere()
            self._ended.pop(id_, None)
            conversation = await self._histories.delete(id_, connection)
            if store is not None and conversation is not None:
                await _delete_conversation(store, conversation)
            await self._histories.scrub()

    async def finish(self, seconds: float, hurry: asyncio.Event) -> None:
        """Let responses end, at most for so long and not after `hurry`. Then stop the others, or hand them over."""
        self._is_ending = True
        if not self._running:
            return
        hurrying = asyncio.create_task(hurry.wait())
        waiting = asyncio.create_task(self._all_ended())
        await asyncio.wait({hurrying, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for run in self._running.values():
            if run.can_be_continued:
                run.hand_over()
            else:
                run.stop("server")
        await asyncio.wait({waiting}, timeout=_STOP_SECONDS)
        for task in (hurrying, waiting):
            task.cancel()
        for id_ in self._running:
            _log.warning("the model of %s did not stop in time", id_)

    async def _all_ended(self) -> None:
        while self._running:
            await next(iter(self._running.values())).has_ended.wait()


async def _delete_conversation(store: JournalStore, id_: str) -> None:
    """Delete an agent's conversation. An agent that was just cancelled holds it until it has stopped."""
    deadline = time.monotonic() + _STOP_SECONDS
    while (info := await store.find(id_)) is not None:
        is_late = time.monotonic() >= deadline
        if (is_late or not info.owner) and await store.delete(id_):
            return
        if is_late:
            _log.warning("conversation %s is in use: it is deleted when it was not used for long", id_)
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _runs_elsewhere() -> ApiError:
    return ApiError(
        409,
        "invalid_request",
        "Another process of this state folder runs the response. Cancel or delete it there, or when it has ended.",
        code="runs_elsewhere",
    )
