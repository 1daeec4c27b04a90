"""Limits on connections that send no complete request head.

The HTTP library waits for the rest of a head for ever, and each connection takes a file descriptor. So a head must be
complete within `HEAD_SECONDS` of the connection, or of the first byte after an earlier response. Of connections that wait
for a head there are at most `MOST_WAITING`: one more closes the oldest. The same time limit holds for data that a client
sends after a response that did not need it, for example the rest of a body.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dragoman.frontends.http.delivery import CONNECTION, WrittenBytes

__all__ = ["HEAD_SECONDS", "MOST_WAITING", "HeadLimits", "LimitedHttp"]

_log = logging.getLogger(__name__)

# A head is one packet or two. A client that takes longer has no network, or sends no request at all.
HEAD_SECONDS = 20.0
# Far more than clients that connect at the same moment, and far fewer than a process may have files.
MOST_WAITING = 256
# Between two lines of the log about closed connections: a sender must not be able to fill the log.
_LOG_SECONDS = 10.0


class HeadLimits:
    """The connections of one server that wait for a request's head, the oldest first."""

    def __init__(
        self,
        seconds: float = HEAD_SECONDS,
        most: int = MOST_WAITING,
        log_seconds: float = _LOG_SECONDS,
    ) -> None:
        self.seconds = seconds
        self._most = most
        self._log_seconds = log_seconds
        self._waiting: dict[LimitedHttp, None] = {}
        # The time of the last log line about a closed connection, and the number of connections closed since.
        self._logged_at = -math.inf
        self._unlogged = 0

    def add(self, connection: LimitedHttp) -> None:
        self._waiting[connection] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            oldest.give_up(f"{self._most} others wait as well, and it is the oldest")

    def remove(self, connection: LimitedHttp) -> None:
        self._waiting.pop(connection, None)

    def log(self, client: str, reason: str, now: float) -> None:
        """Log that a connection is closed. A flood gets one line per `log_seconds`, with the number of connections."""
        self._unlogged += 1
        if now - self._logged_at >= self._log_seconds:
            others = f"; {self._unlogged - 1} more since the last such line" if self._unlogged > 1 else ""
            _log.warning("a connection from %s is closed: %s%s", client, reason, others)
            self._logged_at, self._unlogged = now, 0


class LimitedHttp(H11Protocol):
    """The HTTP protocol of uvicorn, with a time limit for request heads."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: HeadLimits,
    ) -> None:
        self._written = WrittenBytes()
        super().__init__(config, server_state, {**app_state, CONNECTION: self._written}, _loop)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the library has it
        super().connection_made(transport)
        self._written.connected(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._written.flushed()
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._written.lost(exc)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._written.flushed()

    def _watch(self) -> None:
        """Start the timer if a head is awaited and it does not run yet. Stop it if the head is complete."""
        state = self.conn.their_state
        is_answered = self.cycle is None or self.cycle.response_complete
        if state is h11.IDLE or (state is h11.SEND_BODY and is_answered):
            if self._timer is None and not self.transport.is_closing():
                seconds = self._limits.seconds
                reason = f"it has sent no complete request within {seconds:g} seconds"
                self._timer = self.loop.call_later(seconds, self.give_up, reason)
                self._limits.add(self)
        else:
            self._unwatch()

    def _unwatch(self) -> None:
        self._limits.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_up(self, reason: str) -> None:
        """Close the connection. The client may connect again."""
        self._unwatch()
        self._limits.log(self.client[0] if self.client else "?", reason, self.loop.time())
        self.transport.abort()
