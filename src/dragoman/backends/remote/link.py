"""A process's connection to its fleet: made when it is first used, and shared by all that speaks with nodes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.messages import STREAM_FORM, Form, StreamMessage
from dragoman.fleet.subjects import streams_subject
from dragoman.process.deadline import boot_seconds

__all__ = ["FleetLink", "read_message"]

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class FleetLink:
    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[FleetConnection]],
        name: str,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """`name` is that of this node. Two processes may share it; their streams do not mix."""
        self._connect = connect
        self.name = name
        # What workers know this process by. Parts come to the subject of the first half.
        self.gateway = f"{name}/{secrets.token_hex(4)}"
        self.clock = clock
        # Called with the connection, before anybody else uses it.
        self.on_connected: list[Callable[[FleetConnection], Awaitable[None]]] = []
        # Closed before the connection is.
        self.stack = AsyncExitStack()
        self._connection: FleetConnection | None = None
        self._connecting = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, and it works now."""
        return self._connection is not None and self._connection.is_connected

    async def connected(self) -> FleetConnection:
        """The connection. Raises `FleetUnavailable`."""
        async with self._connecting:
            if self._connection is None:
                connection = await self.stack.enter_async_context(self._connect())
                for begin in self.on_connected:
                    await begin(connection)
                self._connection = connection
        return self._connection

    async def close(self) -> None:
        self._connection = None
        await self.stack.aclose()

    async def say(self, node: str, message: StreamMessage) -> None:
        """Tell a worker something about streams. If it is lost, the next ping makes up for it."""
        if self._connection is not None:
            try:
                await self._connection.publish(streams_subject(node), STREAM_FORM.encode(message))
            except FleetUnavailable as error:
                _log.debug("a message to %s was not sent: %s", node, error)


def read_message(form: Form[_T], data: bytes, what: str) -> _T | None:
    """A message. None if it cannot be read: what one node says wrong concerns no other."""
    try:
        return form.decode(data)
    except msgspec.MsgspecError as error:
        _log.warning("%s cannot be read: %s", what, error)
        return None
