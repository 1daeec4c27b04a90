"""Cancels background responses that another gateway runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere, Received
from dragoman.fleet.subjects import cancels_subject, is_node_name

__all__ = ["GatewayCancels"]

_log = logging.getLogger(__name__)

# An answer takes less than a millisecond. A message may be lost while a server of NATS ends.
_ANSWER_SECONDS = 2.0
# If nobody listens, it may be back after so long.
_ABSENT_SECONDS = 1.0
_MOST_TRIES = 3
_DONE, _UNKNOWN = b"cancelled", b"unknown"


class GatewayCancels:
    """Sends cancellations to other gateways, and takes those for this one."""

    def __init__(self, connection: FleetConnection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def taken(self, gateway: str, cancel: Callable[[str], bool]) -> AsyncIterator[None]:
        """Call a function with the id of each response that is to be cancelled here. It returns whether the response runs.

        Raises `FleetUnavailable`.
        """

        async def take(received: Received) -> None:
            does_run = cancel(received.data.decode())
            await self._connection.answer(received, _DONE if does_run else _UNKNOWN)

        end = await self._connection.subscribe(cancels_subject(gateway), take)
        await self._connection.flush()
        try:
            yield
        finally:
            await end()

    async def cancel(self, owner: str, response: str) -> None:
        """Ask the gateway that owns a response's journal to cancel it.

        Whether it does, the journal says: it gets an end. If the gateway cannot be reached, its lease ends, and then anybody
        can close the journal.
        """
        if not is_node_name(owner):
            return
        for _ in range(_MOST_TRIES):
            try:
                await self._connection.request(cancels_subject(owner), response.encode(), _ANSWER_SECONDS)
            except NoAnswer:
                continue
            except NobodyThere:
                # Its server of NATS, or ours, may have just started: then they do not know of each other yet.
                await asyncio.sleep(_ABSENT_SECONDS)
                continue
            except FleetUnavailable as error:
                _log.warning("%s cannot be cancelled at %s: %s", response, owner, error)
            return
        _log.warning("%s does not answer: %s cannot be cancelled there", owner, response)
