"""Whether a response has reached its client whole. A request that repeats it is then no retry: it wants another answer.

A response has reached its client when the last piece of its body has left this process while the connection was there. A
client that closes the connection after that has read everything: some close it with the last event, before the end of the
stream. What the client's system has received and its program has not read cannot be known.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dragoman.frontends.http.answering import ResponseRun

__all__ = ["CONNECTION", "ConfirmedResponse", "WrittenBytes"]

# The entry of an ASGI scope's state that has the `WrittenBytes` of the connection.
CONNECTION = "dragoman.connection"


class _Report(Protocol):
    def __call__(self, *, whole: bool) -> object: ...


class WrittenBytes:
    """Knows when the bytes that were written to one connection have left this process, or are lost."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._report: _Report | None = None
        self.is_lost = False
        # Whether the connection was closed in order, with nothing left in the buffer.
        self._was_flushed = False

    def connected(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    @property
    def are_out(self) -> bool:
        return (
            not self.is_lost and self._transport is not None and not self._transport.get_write_buffer_size()
        )

    def when_out(self, report: _Report) -> None:
        """Call `report` when all that was written so far has left this process, or is lost."""
        if self.is_lost or self._transport is None:
            report(whole=self._was_flushed)
        elif self.are_out:
            report(whole=True)
        else:
            self._report = report
            # So that the transport calls `resume_writing` when the buffer is empty, not when there is room in it.
            self._transport.set_write_buffer_limits(high=0)

    def flushed(self) -> None:
        """The buffer is empty; or the client has sent its next request, so it has this response."""
        if self._report is not None and self._transport is not None:
            self._transport.set_write_buffer_limits()
        self._end(whole=True)

    def lost(self, error: Exception | None) -> None:
        """The connection is closed. Without an error, the buffer was written before."""
        self.is_lost, self._was_flushed = True, error is None
        self._end(whole=self._was_flushed)

    def _end(self, *, whole: bool) -> None:
        report, self._report = self._report, None
        if report is not None:
            report(whole=whole)


class ConfirmedResponse(Response):
    """A response that says whether it has reached its client whole."""

    def __init__(self, response: Response, answer: ResponseRun) -> None:
        """`answer` is the run whose parts are in the response. It may have ended."""
        super().__init__()
        self._response = response
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer
        connection: WrittenBytes | None = scope.get("state", {}).get(CONNECTION)
        # Of the last piece so far. The end of a stream is an empty piece, which no client needs.
        is_written = is_out = False

        async def watched(message: Message) -> None:
            nonlocal is_written, is_out
            await send(message)
            if message.get("body"):
                is_written = connection is None or not connection.is_lost
                is_out = connection is None or connection.are_out

        is_complete = False
        try:
            await self._response(scope, receive, watched)
            is_complete = is_written and not answer.was_cancelled
        finally:
            if is_complete and not is_out and connection is not None:
                connection.when_out(answer.delivered)
            else:
                answer.delivered(whole=is_complete)
