"""One conversation over streamable HTTP: its sessions, if its agent's revision has them, and its replies.

Clients up to 2025-11-25 have a session: they POST to it, may GET one stream of announcements, and DELETE it. Their
responses are event streams from the beginning, so that they see at once that a call is being served. A request of
2026-07-28 has no session, and gets plain JSON if the answer comes soon; otherwise its response becomes a stream. Streams
are never silent for long: agents on Node abort a response without data for five minutes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

from dragoman.backends.agent.toolserver.exchange import Exchange
from dragoman.backends.agent.toolserver.headers import (
    EVENTS,
    JSON,
    SESSION,
    VERSION,
    accepted,
    is_json,
    mismatch,
)
from dragoman.backends.agent.toolserver.service import McpClient, ToolService
from dragoman.backends.agent.toolserver.session import (
    HANDSHAKE_VERSIONS,
    STATELESS_VERSION,
    McpSession,
    unsupported,
)
from dragoman.backends.agent.toolserver.wire import (
    MAX_CONNECTIONS,
    WaitableSet,
    failed_call,
    read_message,
)
from dragoman.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorObject,
    Malformed,
    Notification,
    RequestId,
    RpcRequest,
    encode_error,
)

__all__ = ["StreamableHttp"]

_log = logging.getLogger(__name__)

# How long responses that are complete may take to leave us when an endpoint closes.
_CLOSE_SECONDS = 1.0

_HEADER_MISMATCH = -32020
_PING = b": ping\n\n"
# Line breaks to Python, and so to agents whose reader of events splits lines as Python does.
_ODD_BREAKS = (("\x85", b"\\u0085"), ("\u2028", b"\\u2028"), ("\u2029", b"\\u2029"))

_Headers = list[tuple[bytes, bytes]]
_JSON_HEADERS: _Headers = [(b"content-type", JSON)]
_EVENT_HEADERS: _Headers = [
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class StreamableHttp:
    def __init__(self, service: ToolService, session_idle_seconds: float) -> None:
        self.service = service
        self.idle_seconds = session_idle_seconds
        # The replies that are not complete.
        self.replies: WaitableSet[_Reply] = WaitableSet()
        self.sessions: dict[bytes, _Session] = {}

    def serve(self, exchange: Exchange, body: bytes) -> None:
        version = exchange.value(VERSION)
        if version is not None and version.decode(errors="replace") not in HANDSHAKE_VERSIONS:
            self._serve_stateless(exchange, body)
            return
        key = exchange.value(SESSION)
        session = None if key is None else self.sessions.get(key)
        if key is not None and session is None:
            # "When a client receives HTTP 404 in response to a request containing an Mcp-Session-Id, it MUST start a
            # new session".
            _refuse(exchange, 404, "Session not found")
        elif exchange.method == "POST":
            self._post(exchange, body, session)
        elif exchange.method not in ("GET", "DELETE"):
            _refuse(exchange, 405, "Method Not Allowed", headers=[(b"allow", b"GET, POST, DELETE")])
        elif session is None:
            _refuse(exchange, 400, "Missing session ID")
        elif exchange.method == "GET":
            self._get(exchange, session)
        else:
            session.end()
            exchange.respond(200, [(SESSION, session.key)])

    async def close(self) -> None:
        """Close all sessions after the responses of the ended calls have been sent. Announcement streams just end."""
        for session in self.sessions.values():
            if session.stream is not None:
                session.stream.end()
        await self.replies.until_empty(_CLOSE_SECONDS)
        for session in list(self.sessions.values()):
            session.end()
        for reply in self.replies:
            reply.exchange.abort()

    def _post(self, exchange: Exchange, body: bytes, session: _Session | None) -> None:
        accepts_json, accepts_events = accepted(exchange)
        if _is_refused(exchange, is_accepted=accepts_json or accepts_events):
            return
        message = read_message(body)
        if isinstance(message, Malformed):
            _refuse_malformed(exchange, message, session.client.session if session is not None else None)
            return
        if session is None:
            if not isinstance(message, RpcRequest) or message.method != "initialize":
                _refuse(exchange, 400, "Missing session ID")
                return
            if len(self.sessions) >= MAX_CONNECTIONS and not self._give_one_up():
                _refuse(exchange, 503, "Too many open sessions")
                return
            session = _Session(self)
        if not isinstance(message, RpcRequest):
            if isinstance(message, Notification):
                session.client.notification(message)
            exchange.respond(202, [(SESSION, session.key)])
            return
        reply = _Reply(self, exchange, session.key)
        session.holds(reply)
        if accepts_events:
            reply.begin()
        else:
            reply.is_json = True
        session.client.request(message, reply)
        if session.client.session.version is None:
            # The handshake failed.
            session.end()

    def _give_one_up(self) -> bool:
        """Make room for a session: some agents begin one with every prompt, and end none."""
        idle = [session for session in self.sessions.values() if session.is_idle]
        if not idle:
            return False
        min(idle, key=lambda session: session.since).give_up()
        return True

    def _get(self, exchange: Exchange, session: _Session) -> None:
        if not accepted(exchange)[1]:
            _refuse(exchange, 406, "Client must accept text/event-stream")
        elif session.stream is not None:
            _refuse(exchange, 409, "Only one stream is allowed per session")
        else:
            # Events are not stored, so a client cannot resume from one. A change that it has missed is announced again.
            session.stream = reply = _Reply(self, exchange, session.key)
            session.holds(reply)
            reply.begin()
            self.service.remind(session.client)

    def _serve_stateless(self, exchange: Exchange, body: bytes) -> None:
        if exchange.method != "POST":
            exchange.respond(405, [(b"allow", b"POST")])
            return
        if _is_refused(exchange, is_accepted=all(accepted(exchange))):
            return
        message = read_message(body)
        match message:
            case Malformed():
                _refuse_malformed(exchange, message, McpSession(self.service.endpoint.name, "stateless"))
            case RpcRequest():
                problem = mismatch(exchange, message)
                if problem is not None:
                    _refuse(exchange, 400, problem, code=_HEADER_MISMATCH, request_id=message.id)
                    return
                reply = _Reply(self, exchange)
                session = McpSession(self.service.endpoint.name, "stateless")
                client = McpClient(self.service, session, reply.announce)
                reply.on_end = client.close
                client.request(message, reply)
            case Notification():
                version = (exchange.value(VERSION) or b"").decode(errors="replace")
                if version != STATELESS_VERSION:
                    refusal = unsupported(version)
                    _refuse(exchange, 400, refusal.message, code=refusal.code, data=refusal.data)
                    return
                # It has no session to apply to: a client cancels by closing the stream.
                exchange.respond(202, [])
            case _:
                _refuse(exchange, 400, "The body must be a request or a notification")


class _Session:
    """The HTTP session of a client of the handshake era."""

    def __init__(self, served: StreamableHttp) -> None:
        self._served = served
        self.key = secrets.token_hex(16).encode()
        session = McpSession(served.service.endpoint.name, "handshake")
        self.client = McpClient(served.service, session, self._announce)
        self.stream: _Reply | None = None
        self._replies: set[_Reply] = set()
        self.since = time.monotonic()
        self._watch: asyncio.TimerHandle | None = None
        served.sessions[self.key] = self

    @property
    def is_idle(self) -> bool:
        """Whether it has no open reply. `since` is the time of the last one."""
        return not self._replies

    def holds(self, reply: _Reply) -> None:
        self._replies.add(reply)
        reply.on_end = lambda: self._lets_go(reply)

    def end(self) -> None:
        if self._served.sessions.pop(self.key, None) is None:
            return
        if self._watch is not None:
            self._watch.cancel()
        self.client.close()
        for reply in list(self._replies):
            reply.end()

    def give_up(self) -> None:
        _log.info("a session of %s is closed: it was not used", self._served.service.endpoint.name)
        self.end()

    def _announce(self, message: bytes) -> None:
        if self.stream is not None:
            self.stream.announce(message)

    def _lets_go(self, reply: _Reply) -> None:
        self._replies.discard(reply)
        if reply is self.stream:
            self.stream = None
        # In older revisions this is not a cancellation, because a client could reconnect for the response. Here it
        # cannot: we store no events to resume from.
        self.client.abandon(reply)
        if self.is_idle and self.key in self._served.sessions:
            self.since = time.monotonic()
            if self._watch is None:
                self._look_later(self._served.idle_seconds)

    def _look_later(self, seconds: float) -> None:
        self._watch = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._watch = None
        if not self.is_idle:
            return
        left = self.since + self._served.idle_seconds - time.monotonic()
        if left > 0:
            self._look_later(left)
        else:
            self.give_up()


class _Reply:
    """The response to a request, or the announcement stream of a session.

    It becomes an event stream at once (`begin`), or with the first event before the answer. If there is none, the
    response is the answer as JSON.
    """

    __slots__ = (
        "_begun",
        "_key",
        "_owed",
        "_served",
        "exchange",
        "is_json",
        "on_end",
    )

    def __init__(self, served: StreamableHttp, exchange: Exchange, key: bytes | None = None) -> None:
        self._served = served
        self.exchange = exchange
        self._key = key
        # Whether the client accepts no events.
        self.is_json = False
        self._begun = False
        self._owed: dict[bytes, None] = {}
        self.on_end: Callable[[], None] | None = None
        exchange.on_end = self._ended
        exchange.on_drained = self._drained
        served.replies.add(self)

    def begin(self) -> None:
        self._begun = True
        self.exchange.begin([*_EVENT_HEADERS, *self._session_header])

    def ping(self) -> None:
        if not self.is_json and not self.exchange.is_clogged:
            self._ensure_begun()
            self.exchange.write(_PING)

    def notify(self, message: bytes) -> None:
        if not self.is_json and not self.exchange.is_clogged:
            self._ensure_begun()
            self.exchange.write(_event(message))

    def announce(self, message: bytes) -> None:
        if self.exchange.is_clogged:
            self._owed[message] = None
        else:
            self.notify(message)

    def answer(self, message: bytes, code: int | None = None) -> None:
        if self._begun:
            self.exchange.end(_event(message))
            return
        status = 200 if self._key is not None else _status(code)
        self.exchange.respond(status, [*_JSON_HEADERS, *self._session_header], message)

    def drop(self, message: bytes) -> None:
        if self.is_json:
            # A JSON response needs a body.
            self.answer(message)
            return
        # "The receiver of a cancellation notification SHOULD … not send a response": the stream only ends. Qwen Code
        # takes a response to what it has withdrawn for a broken connection, and drops its tools.
        self._ensure_begun()
        self.exchange.end()

    def end(self) -> None:
        """End without an answer."""
        if self._begun:
            self.exchange.end()
        else:
            self.exchange.respond(404, [])

    @property
    def _session_header(self) -> _Headers:
        return [] if self._key is None else [(SESSION, self._key)]

    def _ensure_begun(self) -> None:
        if not self._begun:
            self.begin()

    def _drained(self) -> None:
        owed, self._owed = self._owed, {}
        for message in owed:
            self.announce(message)

    def _ended(self) -> None:
        self._served.replies.discard(self)
        if self.on_end is not None:
            self.on_end()


def _event(message: bytes) -> bytes:
    """One line of JSON, with its line break, as an event."""
    for character, escape in _ODD_BREAKS:
        message = message.replace(character.encode(), escape)
    return b"event: message\ndata: " + message + b"\n"


def _is_refused(exchange: Exchange, *, is_accepted: bool) -> bool:
    """Whether a POST was refused by its headers. `is_accepted`: its client takes what it would be answered with."""
    if not is_accepted:
        _refuse(exchange, 406, "Client must accept application/json and text/event-stream")
    elif not is_json(exchange):
        _refuse(exchange, 415, "Content-Type must be application/json")
    else:
        return False
    return True


def _refuse(
    exchange: Exchange,
    status: int,
    reason: str,
    *,
    code: int = INVALID_REQUEST,
    request_id: RequestId = None,
    data: object = None,
    headers: _Headers = [],  # noqa: B006 - it is never changed
) -> None:
    body = encode_error(request_id, ErrorObject(code, reason, data))
    exchange.respond(status, [*_JSON_HEADERS, *headers], body)


def _refuse_malformed(exchange: Exchange, message: Malformed, session: McpSession | None) -> None:
    """A tool call gets a result that says what is wrong: a client may take an HTTP error for the end of the session."""
    result = failed_call(message)
    if session is None or result is None:
        _refuse(exchange, 400, message.reason, code=message.code, request_id=message.request_id)
    else:
        exchange.respond(200, _JSON_HEADERS, session.response(message.request_id, result))


def _status(code: int | None) -> int:
    """The HTTP status for a JSON-RPC error code, as required from 2026-07-28 on."""
    if code is None or code == INTERNAL_ERROR:
        return 200
    return 404 if code == METHOD_NOT_FOUND else 400
