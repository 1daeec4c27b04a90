"""A process's connection to its fleet: made when it is first used, and shared by all that speaks with nodes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.lease import find_lease
from dragoman.fleet.messages import STREAM_FORM, Form, StreamMessage
from dragoman.fleet.stored import ANSWER_SECONDS
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
    ) -> None:
        """`name` is that of this node. Two processes may share it; their streams do not mix."""
        self._connect = connect
        self.name = name
        # What workers know this process by: NAME/ID. Parts come to the subject of NAME.
        self.gateway = f"{name}/{secrets.token_hex(4)}"
        self.clock: Callable[[], float] = boot_seconds
        # Called with the connection, before anybody else uses it; and with a stack for what is to be done before it is closed.
        self.on_connected: list[Callable[[FleetConnection, AsyncExitStack], Awaitable[None]]] = []
        self._stack = AsyncExitStack()
        self._connection: FleetConnection | None = None
        self._connecting = asyncio.Lock()
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, and it works now."""
        return self._connection is not None and self._connection.is_connected

    async def connected(self) -> FleetConnection:
        """The connection. Raises `FleetUnavailable`."""
        async with self._connecting:
            if self._connection is None:
                async with AsyncExitStack() as stack:
                    self._check_open()
                    connection = await stack.enter_async_context(self._connect())
                    for begin in self.on_connected:
                        await begin(connection, stack)
                    self._check_open()
                    self._stack = stack.pop_all()
                self._connection = connection
        return self._connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise FleetUnavailable("This process ends.")

    async def close(self) -> None:
        """Close the connection. One that is being made is closed when it is made."""
        self._is_closed = True
        self._connection = None
        await self._stack.aclose()

    async def has_lease(self, node: str, seconds: float = ANSWER_SECONDS) -> bool | None:
        """Whether a node has a lease. None: that cannot be read now. Perhaps the leases have no leader, or NATS is away."""
        try:
            return await find_lease(await self.connected(), node, seconds) is not None
        except (FleetUnavailable, NoAnswer):
            return None

    async def say(self, node: str, message: StreamMessage) -> None:
        """Tell a worker something about streams. It may be lost: the next ping makes up for what streams need."""
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
