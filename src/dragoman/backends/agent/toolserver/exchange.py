"""HTTP/1.1 for a server with long-waiting requests: one connection, one exchange at a time, no task for either.

h11 implements the protocol; a `Connection` moves bytes between it and the socket. The `ExchangeHost` gets a request
twice: its head, so that it can refuse the request before the body is buffered, and the whole. The host responds through
the `Exchange`, at once or hours later. Reading continues meanwhile, to detect that the client has disconnected.

The next request on a connection is not read before the response to the last has been sent. So a client that does not
read cannot make us buffer many responses, and one that pipelines requests is held back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol, cast

import h11

__all__ = ["Connection", "Exchange", "ExchangeHost"]

# Of the head of a request; ours take one.
_MAX_HEAD_BYTES = 16 * 1024
# Requests sent ahead, while another is answered.
_MAX_AHEAD_BYTES = 64 * 1024

_Headers = list[tuple[bytes, bytes]]


class ExchangeHost(Protocol):
    """The application that responds to the requests."""

    @property
    def max_body_bytes(self) -> int: ...

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def admit(self, exchange: Exchange) -> int | None:
        """The status to refuse a request with, by its head; None to have it whole."""

    def serve(self, exchange: Exchange, body: bytes) -> None: ...


class Exchange:
    """One request, and the way to answer it: `respond`, or `begin`, any number of `write`, and `end`."""

    __slots__ = ("_connection", "headers", "method", "on_drained", "on_end", "path")

    def __init__(self, connection: Connection, request: h11.Request) -> None:
        self._connection = connection
        self.method = request.method.decode()
        self.path = request.target.partition(b"?")[0].decode()
        self.headers: _Headers = list(request.headers)
        # Called once: when the answer has left us, or the client has.
        self.on_end: Callable[[], None] | None = None
        # Called when a client that was slow to read has caught up.
        self.on_drained: Callable[[], None] | None = None

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    def value(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def is_open(self) -> bool:
        """Whether the response is not complete and the client is connected."""
        return self._connection.is_answering(self)

    @property
    def is_clogged(self) -> bool:
        """Whether the client is slow to read, so that the send buffer is full."""
        return self._connection.is_clogged

    def respond(self, status: int, headers: _Headers, body: bytes = b"") -> None:
        length = b"%d" % len(body)
        self._send(
            _head(status, [*headers, (b"content-length", length)]),
            h11.Data(data=b"" if self.method == "HEAD" else body),
            h11.EndOfMessage(),
        )

    def begin(self, headers: _Headers) -> None:
        """Send the head of a response of unknown length."""
        self._send(_head(200, headers))

    def write(self, data: bytes) -> None:
        self._send(h11.Data(data=data))

    def end(self, data: bytes = b"") -> None:
        self._send(h11.Data(data=data), h11.EndOfMessage())

    def abort(self) -> None:
        """Cut the connection."""
        if self.is_open or self.on_end is not None:
            self._connection.abort()

    def _send(self, *events: h11.Event) -> None:
        if self.is_open:
            self._connection.send(events)


class Connection(asyncio.Protocol):
    __slots__ = (
        "_ahead",
        "_answered",
        "_body",
        "_busy",
        "_exchange",
        "_host",
        "_transport",
        "_wire",
        "is_clogged",
        "is_known",
        "since",
    )

    def __init__(self, host: ExchangeHost) -> None:
        self._host = host
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        # The request's body so far; None when it is discarded.
        self._body: bytearray | None = None
        self._answered = False
        self._busy = False
        self._ahead = False
        self.is_clogged = False
        # Whether one of its requests was ever admitted, and since when it has had none under way.
        self.is_known = False
        self.since = time.monotonic()

    # For the host.

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for a response.

        The client may still be sending a body that is discarded, or not have read the last response.
        """
        return self._exchange is None or self._answered

    def close(self) -> None:
        """Close the connection after the send buffer has been written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # For the exchange.

    def is_answering(self, exchange: Exchange) -> bool:
        return self._exchange is exchange and not self._answered and self._transport is not None

    def send(self, events: tuple[h11.Event, ...]) -> None:
        if self._transport is None:
            return
        data = b"".join(self._wire.send(event) or b"" for event in events)
        if data:
            self._transport.write(data)
        if isinstance(events[-1], h11.EndOfMessage):
            self._answered = True
            self.since = time.monotonic()
            self._go_on()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._host.opened(self)

    def data_received(self, data: bytes) -> None:
        self._wire.receive_data(data)
        if self._is_whole:
            # The client sends more before it has the response.
            if not self._ahead and len(self._wire.trailing_data[0]) > _MAX_AHEAD_BYTES:
                self._ahead = True
                if self._transport is not None:
                    self._transport.pause_reading()
            return
        self._go_on()

    def eof_received(self) -> bool:
        # A client that shuts its half does not wait for an answer.
        return False

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the event loop's signature
        self._transport = None
        self._over()
        self._host.closed(self)

    def pause_writing(self) -> None:
        self.is_clogged = True

    def resume_writing(self) -> None:
        self.is_clogged = False
        if self._exchange is not None and self._exchange.on_drained is not None:
            self._exchange.on_drained()
        self._go_on()

    @property
    def _is_whole(self) -> bool:
        """Whether a request has arrived completely."""
        return self._exchange is not None and self._wire.their_state is not h11.SEND_BODY

    def _go_on(self) -> None:
        """Process as much as possible: end an exchange, read on, begin the next."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._transport is not None and self._step():
                pass
        except h11.RemoteProtocolError as error:
            self._refuse_to_read(error)
        finally:
            self._busy = False

    def _step(self) -> bool:
        """Process one event. Returns whether there was one."""
        if self._answered and not self.is_clogged and self._is_whole:
            self._over()
            return self._next_cycle()
        if self._is_whole:
            return False
        match self._wire.next_event():
            case h11.Request() as request:
                self._begin(Exchange(self, request))
            case h11.Data(data=data):
                self._take(data)
            case h11.EndOfMessage():
                self._serve()
            case h11.NEED_DATA:
                if self._wire.they_are_waiting_for_100_continue and self._body is not None:
                    self._continue()
                return False
            case _:
                return False
        return True

    def _begin(self, exchange: Exchange) -> None:
        self._exchange, self._answered, self._body = exchange, False, None
        status = self._host.admit(exchange)
        if status is not None:
            # "The server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110).
            headers = [(b"www-authenticate", b"Bearer")] if status == 401 else []  # noqa: PLR2004
            if self._wire.they_are_waiting_for_100_continue:
                # The client may send the body or not, so it is unknown where the next request would begin.
                headers.append((b"connection", b"close"))
            exchange.respond(status, headers)
            return
        self.is_known = True
        self._body = bytearray()

    def _continue(self) -> None:
        data = self._wire.send(h11.InformationalResponse(status_code=100, headers=[]))
        if data and self._transport is not None:
            self._transport.write(data)

    def _take(self, data: bytes | bytearray) -> None:
        if self._body is None or self._exchange is None:
            return
        self._body += data
        if len(self._body) > self._host.max_body_bytes:
            self._body = None
            self._exchange.respond(413, [])

    def _serve(self) -> None:
        body, self._body = self._body, None
        if body is not None and self._exchange is not None:
            self._host.serve(self._exchange, bytes(body))
            # The headers are not needed any more, and the response may take hours.
            self._exchange.headers = []

    def _over(self) -> None:
        exchange, self._exchange, self._body = self._exchange, None, None
        self._answered = False
        self.since = time.monotonic()
        if exchange is not None and exchange.on_end is not None:
            exchange.on_end()
            exchange.on_end = None

    def _next_cycle(self) -> bool:
        if self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
            # One side has announced that this request is the last.
            self.close()
            return False
        self._wire.start_next_cycle()
        if self._ahead and self._transport is not None:
            self._ahead = False
            self._transport.resume_reading()
        return True

    def _refuse_to_read(self, error: h11.RemoteProtocolError) -> None:
        if self._wire.our_state in (h11.IDLE, h11.SEND_RESPONSE) and self._transport is not None:
            headers = [(b"connection", b"close"), (b"content-length", b"0")]
            for event in (
                _head(error.error_status_hint, headers),
                h11.EndOfMessage(),
            ):
                self._transport.write(self._wire.send(event) or b"")
        self.close()


def _head(status: int, headers: _Headers) -> h11.Response:
    dated = [(b"date", _formatted(int(time.time()))), *headers]
    return h11.Response(status_code=status, headers=dated, reason=HTTPStatus(status).phrase.encode())


@lru_cache(maxsize=1)
def _formatted(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
