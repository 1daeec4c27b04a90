"""What can go wrong between two peers: the connection ended, or the other side says no."""

from __future__ import annotations

from dragoman.jsonrpc.messages import ErrorObject

__all__ = ["ConnectionClosed", "RemoteError"]


class ConnectionClosed(Exception):
    """Nothing more can be sent, and no reply will come. The reason is one to show to a person."""

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
