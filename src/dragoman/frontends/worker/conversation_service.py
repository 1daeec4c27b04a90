"""What consoles do with the conversations of a worker: see them, stop a turn, park an agent."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec

from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.console_messages import (
    OPERATION_FORM,
    OPERATION_RESULT_FORM,
    ListLive,
    Operate,
    OperationResult,
)
from dragoman.fleet.subjects import operations_subject
from dragoman.models import LiveConversation
from dragoman.other_nodes import NodeConversation

__all__ = ["served_conversations"]

_log = logging.getLogger(__name__)


@asynccontextmanager
async def served_conversations(
    connection: FleetConnection,
    node: str,
    live: Callable[[], Iterable[LiveConversation]],
    release: Callable[[str], Awaitable[None]],
) -> AsyncIterator[None]:
    """Answer gateways until the end of the block. `release` gives up a journal, so that another node may delete it."""

    async def take(received: Received) -> None:
        try:
            message = OPERATION_FORM.decode(received.data)
        except msgspec.MsgspecError:
            # Operators' messages come here, too.
            return
        if isinstance(message, ListLive):
            result = OperationResult(live=tuple(map(_shown, live())))
        else:
            result = await _operate(message, live, release)
        await connection.answer(received, OPERATION_RESULT_FORM.encode(result))

    end = await connection.subscribe(operations_subject(node), take)
    await connection.flush()
    try:
        yield
    finally:
        await end()


async def _operate(
    message: Operate,
    live: Callable[[], Iterable[LiveConversation]],
    release: Callable[[str], Awaitable[None]],
) -> OperationResult:
    found = next((each for each in live() if each.id == message.conversation), None)
    if found is None:
        return OperationResult("absent")
    if message.operation == "stop":
        found.stop_turn()
        return OperationResult()
    if found.is_busy:
        return OperationResult("busy")
    if message.operation == "park":
        found.park()
    else:
        found.forget()
        await release(message.conversation)
        _log.info("conversation %s is deleted at another node", message.conversation)
    return OperationResult()


def _shown(live: LiveConversation) -> NodeConversation:
    return NodeConversation(live.id, live.model, live.folder, live.connection, live.program, live.stage)
