"""A connection that loses messages on the way to the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.fleet.connection import FleetConnection

__all__ = ["losing"]


def losing(is_lost: Callable[[str, bytes], bool]) -> Callable[[FleetConnection], FleetConnection]:
    """Wraps a connection: what the function says is not sent. It gets the subject and the message."""

    def wrapped(connection: FleetConnection) -> FleetConnection:
        publish = connection.publish

        async def perhaps(
            subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
        ) -> None:
            if not is_lost(subject, data):
                await publish(subject, data, reply, headers)

        connection.publish = perhaps  # type: ignore[method-assign]
        return connection

    return wrapped
