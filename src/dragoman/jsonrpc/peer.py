"""One end of a JSON-RPC 2.0 connection. Both ends are alike: either sends requests, notifications, responses and cancellations.

**Order.** Everything that comes in is handed out synchronously and in exactly the order of the wire: requests and
notifications to the `Receiver`, each reply to the callback given to `call`. So an actor can put all of it into one
queue, and a reply never overtakes the updates sent before it. `request` is the awaitable form; its caller runs a moment
later, when further messages may already have been handed out.

**Bad input.** A line that is no message is logged, and answered where the options say so; then the next line is served.
What a receiver raises is logged; if it was about a request that is still open, the request fails.

**The end.** When the connection ends, however it does, every request that waits for a reply gets `ConnectionClosed`,
the tokens of requests we have not answered are cancelled, and `Receiver.closed` is called, in this order and once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec
from msgspec import UNSET

from dragoman.jsonrpc.errors import ConnectionClosed, RemoteError
from dragoman.jsonrpc.framing import MAX_MESSAGE_BYTES, Line, Oversized
from dragoman.jsonrpc.incoming import Incoming
from dragoman.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Notification,
    OutgoingNotification,
    RequestId,
    RpcRequest,
    RpcResponse,
    encode_error,
    encode_request,
    parse,
)
from dragoman.jsonrpc.stream import MAX_UNSENT_BYTES, Stream
from dragoman.jsonrpc.text import Decoder, encode

__all__ = [
    "CANCEL_REQUEST",
    "DEFAULT_OPTIONS",
    "MAX_OPEN_REQUESTS",
    "LineTaker",
    "OnReply",
    "Peer",
    "PeerOptions",
    "Receiver",
    "RpcReply",
    "Watch",
]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

CANCEL_REQUEST = "$/cancel_request"
# Requests of the other side's that may wait for our answer at once. A real one has a handful; one that asks ten
# thousand times without listening is broken.
MAX_OPEN_REQUESTS = 10_000
# Bad lines are logged as warnings so many times; a program that prints its progress to the wrong stream makes thousands.
_LOGGED_BAD_LINES = 20

RpcReply: TypeAlias = RpcResponse | ErrorResponse | ConnectionClosed
OnReply: TypeAlias = Callable[[RpcReply], None]
# Sees each line as it comes in and goes out.
Watch: TypeAlias = Callable[[Literal["in", "out"], bytes], None]


class Receiver(Protocol):
    """Handles incoming messages. Its methods must not block; what takes time goes into a queue."""

    def connected(self, peer: Peer) -> None:
        """The first call, before anything else comes in."""
        ...

    def request(self, incoming: Incoming) -> None: ...

    def notification(self, notification: Notification) -> None: ...

    def closed(self, reason: str) -> None:
        """The last call."""
        ...


@runtime_checkable
class LineTaker(Protocol):
    """A receiver that knows the form of nearly all its lines, and reads those in one pass."""

    def take_line(self, line: bytes) -> bool:
        """Handle a line, and return True; or False to have it parsed as usual. Must not block."""
        ...


@dataclass(frozen=True, slots=True)
class PeerOptions:
    # Who is at the other end, for the log.
    name: str = "peer"
    # Whether a malformed line gets an error response. A client of ours gets one; an agent, which may print to its
    # standard output, gets one only for a batch.
    answers_malformed: bool = False
    # The notifications that withdraw a request; all have the form `{requestId}`. The first is the one we send.
    cancel_methods: tuple[str, ...] = (CANCEL_REQUEST,)
    max_message: int = MAX_MESSAGE_BYTES
    max_unsent: int = MAX_UNSENT_BYTES
    # Must not raise.
    watch: Watch | None = None


DEFAULT_OPTIONS = PeerOptions()


class _Withdrawal(msgspec.Struct, frozen=True, rename="camel"):
    request_id: RequestId


_withdrawal = Decoder(_Withdrawal)


class Peer:
    """Made by the functions of `connect`, which give its `stream` a transport."""

    def __init__(self, receiver: Receiver, options: PeerOptions) -> None:
        self._receiver = receiver
        self._take_line = receiver.take_line if isinstance(receiver, LineTaker) else None
        self._options = options
        self._watch = options.watch
        self._ids = count(1)
        # Sent by us, awaiting a reply.
        self._pending: dict[RequestId, OnReply] = {}
        # Received, awaiting our answer.
        self._open: dict[RequestId, Incoming] = {}
        self._bad_lines = 0
        self._connected = False
        self.stream = Stream(
            on_open=self._on_open,
            on_line=self._on_line,
            on_end=self._on_end,
            max_message=options.max_message,
            max_unsent=options.max_unsent,
        )

    @property
    def name(self) -> str:
        return self._options.name

    # Requests and notifications.

    def call(self, method: str, params: object, on_reply: OnReply) -> RequestId:
        """Send a request. `on_reply` gets its reply, or the end of the connection, in the order of the wire.

        Returns the request's id, for `withdraw`. Raises `ConnectionClosed` when it cannot be sent; `on_reply` is then
        never called. `params` is anything msgspec encodes; `msgspec.UNSET` for none.
        """
        identity = next(self._ids)
        self._write(encode_request(identity, method, params))
        # Only now: a write that ends the connection fails all pending requests, and this one gets the exception.
        self._pending[identity] = on_reply
        return identity

    async def request(
        self, method: str, params: object = UNSET, on_answer: Callable[[], object] | None = None
    ) -> bytes:
        """The result of a request, as JSON. Raises `RemoteError` or `ConnectionClosed`.

        Cancelling the waiting task does not withdraw the request: see `withdraw`.
        `on_answer` is called when the answer comes, in the order of the wire; the caller goes on a moment later.
        """
        replied: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: RpcReply) -> None:
            if on_answer is not None:
                on_answer()
            if not replied.done():
                replied.set_result(reply)

        identity = self.call(method, params, on_reply)
        try:
            reply = await replied
        finally:
            self._pending.pop(identity, None)
        match reply:
            case RpcResponse(result=result):
                return result
            case ErrorResponse(error=error):
                raise RemoteError(error)
            case ConnectionClosed(reason=reason):
                raise ConnectionClosed(reason)

    def notify(self, method: str, params: object = UNSET) -> None:
        """Send a notification. Raises `ConnectionClosed` if it cannot be sent."""
        self._write(encode(OutgoingNotification(method, params)) + b"\n")

    def withdraw(self, identity: RequestId) -> None:
        """Ask the other side to give a request up. Its reply still comes; nothing happens if it has come already."""
        if identity in self._pending:
            self.notify(self._options.cancel_methods[0], _Withdrawal(identity))

    # Flow and end.

    async def drain(self) -> None:
        """Wait until the other side has read enough of what was sent. Raises `ConnectionClosed`."""
        await self.stream.drain()

    def pause_reading(self, by: object) -> None:
        self.stream.pause_reading(by)

    def resume_reading(self, by: object) -> None:
        self.stream.resume_reading(by)

    @property
    def closed(self) -> str | None:
        """Why the connection ended; None while it is open."""
        return self.stream.ended

    def close_writing(self) -> None:
        """Send what is buffered, then close our side, and go on reading. For a process this is the end of its input."""
        self.stream.close_writing()

    def close(self, reason: str = "we closed the connection") -> None:
        """Close the connection. What was sent before still goes out. May be called more than once."""
        self.stream.close(reason)

    async def wait_closed(self) -> None:
        """Wait until the connection has ended and everything that could be sent has been."""
        await self.stream.wait_closed()

    # What comes in.

    def _on_open(self) -> None:
        self._connected = True
        self._guarded(self._receiver.connected, self)

    def _on_line(self, line: Line) -> None:
        if isinstance(line, Oversized):
            limit = self._options.max_message
            reason = f"it has {line.size:,} bytes; at most {limit:,} are taken"
            self._on_malformed(Malformed(INVALID_REQUEST, reason, line.size))
            return
        if self._watch is not None:
            self._watch("in", line)
        if self._take_line is not None:
            try:
                if self._take_line(line):
                    return
            except Exception:
                _log.exception("%s: a line could not be handled", self.name)
                return
        match parse(line):
            case Notification() as notification:
                if notification.method in self._options.cancel_methods:
                    self._on_withdrawal(notification)
                else:
                    self._guarded(self._receiver.notification, notification)
            case RpcRequest() as request:
                self._on_request(request)
            case Malformed() as malformed:
                self._on_malformed(malformed)
            case reply:
                self._on_reply(reply)

    def _on_request(self, request: RpcRequest) -> None:
        if request.id in self._open:
            # Under its own id the refusal would look like the answer to the first one.
            self._refuse(None, f"the id {request.id!r} is in use by a request that is not answered yet")
            return
        if len(self._open) >= MAX_OPEN_REQUESTS:
            self._refuse(request.id, f"more than {MAX_OPEN_REQUESTS} requests wait for an answer")
            return
        incoming = Incoming(request, self._answer)
        self._open[request.id] = incoming
        if not self._guarded(self._receiver.request, incoming) and not incoming.answered:
            incoming.fail(INTERNAL_ERROR, f"{request.method} failed")

    def _on_reply(self, reply: RpcResponse | ErrorResponse) -> None:
        on_reply = self._pending.pop(reply.id, None)
        if on_reply is not None:
            self._guarded(on_reply, reply)
        elif isinstance(reply, ErrorResponse) and reply.id is None:
            _log.warning("%s could not make sense of a message of ours: %s", self.name, reply.error.message)
        else:
            # The request was withdrawn, or never sent.
            _log.debug("%s: a reply to %r, which is not open", self.name, reply.id)

    def _on_withdrawal(self, notification: Notification) -> None:
        try:
            identity = _withdrawal.decode(notification.params).request_id
        except msgspec.DecodeError as error:
            _log.warning("%s: unreadable %s: %s", self.name, notification.method, error)
            return
        incoming = self._open.get(identity)
        if incoming is not None:
            incoming.cancel()

    def _on_malformed(self, malformed: Malformed) -> None:
        self._bad_lines += 1
        level = logging.WARNING if self._bad_lines <= _LOGGED_BAD_LINES else logging.DEBUG
        _log.log(level, "%s: a line was not understood: %s", self.name, malformed.reason)
        if malformed.reply_id in self._pending:
            self._on_reply(ErrorResponse(malformed.reply_id, ErrorObject(malformed.code, malformed.reason)))
        elif self._options.answers_malformed or malformed.is_batch or malformed.request_id is not None:
            self._refuse(malformed.request_id, malformed.reason, malformed.code)

    def _refuse(self, identity: RequestId, reason: str, code: int = INVALID_REQUEST) -> None:
        _log.debug("%s: refused: %s", self.name, reason)
        self._send(encode_error(identity, ErrorObject(code, reason)))

    def _answer(self, incoming: Incoming, line: bytes) -> None:
        self._open.pop(incoming.id, None)
        self._send(line)

    def _send(self, line: bytes) -> None:
        try:
            self._write(line)
        except ConnectionClosed as closed:
            _log.debug("%s: an answer could not be sent: %s", self.name, closed.reason)

    def _write(self, line: bytes) -> None:
        self.stream.write(line)
        if self._watch is not None:
            self._watch("out", line)

    def _on_end(self, reason: str) -> None:
        _log.debug("%s: the connection ended: %s", self.name, reason)
        pending, self._pending = self._pending, {}
        for on_reply in pending.values():
            self._guarded(on_reply, ConnectionClosed(reason))
        unanswered, self._open = self._open, {}
        for incoming in unanswered.values():
            incoming.cancel()
        if self._connected:
            self._guarded(self._receiver.closed, reason)

    def _guarded(self, callback: Callable[[_T], None], value: _T) -> bool:
        """Call a callback, and log its exception, so that it does not stop the stream. Returns whether it succeeded."""
        try:
            callback(value)
        except Exception:
            # By its name only: its content may be large, or secret.
            what = getattr(value, "method", type(value).__name__)
            _log.exception("%s: %s could not be handled", self.name, what)
            return False
        return True
