"""The interface of a connection to a tool server, over any transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from dragoman.jsonrpc import Notification

__all__ = ["CANCELLED", "Link", "McpError", "OnNotification"]

# MCP's way to withdraw a request.
CANCELLED = "notifications/cancelled"

OnNotification: TypeAlias = Callable[[Notification], None]


class McpError(Exception):
    """A tool server that cannot be reached, or breaks the protocol."""


class Link(Protocol):
    """Requests and notifications to one server. What the server sends by itself goes to an `OnNotification`."""

    async def request(self, method: str, params: object) -> bytes:
        """The result, as JSON. Raises `McpError`, or `RemoteError` when the server says no.

        Cancelling the waiting task withdraws the request.
        """
        ...

    async def notify(self, method: str, params: object) -> None: ...

    def agreed(self, version: str) -> None:
        """Set the version of the protocol that the handshake has chosen."""
        ...

    async def close(self) -> None: ...
