"""Errors of a connection: it has ended, or the other side returned an error."""

from __future__ import annotations

from dragoman.jsonrpc.messages import ErrorObject

__all__ = ["ConnectionClosed", "RemoteError"]


class ConnectionClosed(Exception):
    """The connection has ended: nothing can be sent, and no reply will come. The reason can be shown to users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RemoteError(Exception):
    """The other side answered a request with an error."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(f"{error.message} ({error.code})")
        self.code = error.code
        self.message = error.message
        self.data = error.data
