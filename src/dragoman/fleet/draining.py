"""Draining a worker from elsewhere: it finishes what is under way, takes nothing new, and ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from dragoman.fleet.connection import FleetConnection, NoAnswer, NobodyThere, Received
from dragoman.fleet.lease import find_lease
from dragoman.fleet.messages import Form
from dragoman.fleet.subjects import drain_subject

__all__ = ["DRAIN_REQUEST_FORM", "DrainRequest", "DrainState", "WorkerSilent", "drain", "listen_for_drain"]

_log = logging.getLogger(__name__)

# Between two looks whether the worker has ended.
_LOOK_SECONDS = 0.5
_ANSWER_SECONDS = 5.0


class DrainState(msgspec.Struct, frozen=True):
    """What a worker that drains still waits for."""

    # Responses that its gateways do not have whole.
    streams: int = 0


class DrainRequest(msgspec.Struct, frozen=True):
    """What an operator sends. It names the worker, so that no other message at the subject drains it."""

    worker: str


_FORM = Form(DrainState)
DRAIN_REQUEST_FORM = Form(DrainRequest)


class WorkerSilent(Exception):
    """No worker of this name listens, or it does not answer."""


async def listen_for_drain(
    connection: FleetConnection, name: str, begin: Callable[[], object], state: Callable[[], DrainState]
) -> Callable[[], Awaitable[None]]:
    """Take an operator's request to drain. Returns a function that ends the listening."""

    async def take(received: Received) -> None:
        try:
            is_meant = DRAIN_REQUEST_FORM.decode(received.data).worker == name
        except msgspec.MsgspecError:
            is_meant = False
        if not is_meant:
            _log.warning("a message at %s is no request to drain, and is ignored", received.subject)
            return
        begin()
        await connection.answer(received, _FORM.encode(state()))

    return await connection.subscribe(drain_subject(name), take)


async def drain(connection: FleetConnection, name: str, report: Callable[[DrainState], object]) -> None:
    """Make a worker drain, report what it waits for, and return when it has ended.

    Raises `WorkerSilent` if it never answered, and `FleetUnavailable`.
    """
    has_answered = False
    request = DRAIN_REQUEST_FORM.encode(DrainRequest(name))
    while True:
        try:
            # The first request begins it, and the following ones ask how far it is.
            answer = await connection.request(drain_subject(name), request, _ANSWER_SECONDS)
            report(_FORM.decode(answer))
            has_answered = True
        except (NobodyThere, NoAnswer, msgspec.MsgspecError) as error:
            if not has_answered:
                raise WorkerSilent(name) from error
            if not await _has_lease(connection, name):
                return
        await asyncio.sleep(_LOOK_SECONDS)


async def _has_lease(connection: FleetConnection, name: str) -> bool:
    try:
        return await find_lease(connection, name) is not None
    except NoAnswer:
        # Nobody knows: the next look tells.
        return True
