"""One connection to NATS: messages of any size, requests with one answer or many, and errors with names that say what to do.

A message that is larger than the server takes goes in pieces. The receiver joins them; the pieces of one message arrive in
order, because they take the same way. A message of which a piece is lost is dropped, as a lost message would be.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

from dragoman.fleet.client import GuardedClient, NoTls
from dragoman.fleet.nkeys import Credentials
from dragoman.fleet.subjects import NEWS, STORE_API

__all__ = [
    "FleetConnection",
    "FleetUnavailable",
    "NoAnswer",
    "NobodyThere",
    "Received",
    "credentials_command",
]

_log = logging.getLogger(__name__)

_NODE_ROLES = ("worker", "gateway")
_PIECES = "Dg-Pieces"
# The id of the message, the number of the piece from 0, and how many there are.
_PIECE_HEADER = re.compile(r"([0-9a-f]{1,32}) ([0-9]{1,9}) ([0-9]{1,9})")
# The server adds it to what an operator asks, who is in another account.
_REQUEST_INFO = "Nats-Request-Info"
# How JetStream's acknowledgements and answers begin.
_JSON_BEGINS = b"{"
# For headers, beside the payload.
_HEADER_BYTES = 512
# A request may bring pictures and files; `[serve] max_body_megabytes` is 64 by default.
# Of all messages of which some pieces have arrived.
_MOST_BYTES = 256 * 1024 * 1024
# Messages of which some pieces have arrived. A sender that dies leaves one behind.
_MOST_PARTIAL = 64
_NO_RESPONDERS = "503"
# A request for many answers is sent again after so long without any.
_AGAIN_SECONDS = 1.0
# How a server refuses credentials; in small letters.
_REFUSALS = (
    "authorization violation",
    "authentication expired",
    "authentication revoked",
    "authentication timeout",
)
_CONNECT_SECONDS = 5
# Resets of connections to each server, before it is given up. The client reports one twice: when it reads, and when it closes.
_MOST_RESETS = 10
# Of an outage: the log names so many errors. There may be one for each server.
_MOST_SAID = 3
# What is written and not sent yet gets so long.
_CLOSE_SECONDS = 2
# Between two attempts at the same server; another one is tried at once.
_RECONNECT_SECONDS = 0.25
# What is sent while the connection is down waits here, and is sent when it is up again. Streams repeat what was lost, so
# little needs to wait.
_PENDING_BYTES = 8 * 1024 * 1024


class FleetUnavailable(Exception):
    """NATS cannot be reached, or refuses. The message is a sentence."""


class NoAnswer(Exception):
    """No answer came in time. The receiver may have got the message."""


class NobodyThere(Exception):
    """No node listens at this subject. Nobody has got the message."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message, whole."""

    subject: str
    data: bytes
    # Where the sender expects the answer; "": nowhere.
    reply: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Joiner:
    """Joins pieces to messages. All listeners of a connection share its limits."""

    # By the listener, and the id of the message; the oldest first.
    _partial: OrderedDict[tuple[object, str], list[bytes]] = field(default_factory=OrderedDict)
    # Of all pieces.
    size: int = 0

    def take(self, message: Msg, listener: object) -> Received | None:
        """The message, if it is whole now. Two listeners may get the same pieces."""
        named = (message.headers or {}).get(_PIECES)
        if named is None:
            return Received(message.subject, message.data, message.reply, message.headers or {})
        described = _PIECE_HEADER.fullmatch(named)
        if described is None:
            _log.warning("a message at %s came with a header that cannot be read", message.subject)
            return None
        key, index, count = (listener, described[1]), int(described[2]), int(described[3])
        if len(self._partial.get(key, ())) != index:
            self._drop(key)
            _log.warning("a message at %s came in part only", message.subject)
            return None
        self._partial.setdefault(key, []).append(message.data)
        self.size += len(message.data)
        whole = self._drop(key) if index + 1 >= count else None
        while self.size > _MOST_BYTES or len(self._partial) > _MOST_PARTIAL:
            _log.warning("pieces of messages take too much memory: the oldest are dropped")
            self._drop(next(iter(self._partial)))
        return None if whole is None else Received(message.subject, b"".join(whole), message.reply)

    def _drop(self, key: tuple[object, str]) -> list[bytes]:
        pieces = self._partial.pop(key, [])
        self.size -= sum(map(len, pieces))
        return pieces


class FleetConnection:
    """Use `FleetConnection.open`. All of it belongs to one event loop."""

    def __init__(self, client: Client, name: str, *, is_node: bool = False) -> None:
        """`is_node`: with credentials of a node, for which JetStream is in another account."""
        self._client = client
        self.name = name
        # Where JetStream takes requests.
        self.api = STORE_API if is_node else "$JS.API"
        self.js: JetStreamContext = client.jetstream(prefix=self.api)
        self._inbox = client.new_inbox()
        self._answers: dict[str, Callable[[Received | None], None]] = {}
        self._subscriptions: list[Subscription] = []
        self._joiner = _Joiner()
        # Called when the connection is up again: messages may have been lost.
        self.on_reconnect: list[Callable[[], None]] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        urls: tuple[str, ...],
        name: str,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        role: str | None = None,
    ) -> AsyncIterator[FleetConnection]:
        """Connect, and disconnect at the end of the block. Raises `FleetUnavailable`.

        `role`: for an error that names the command which makes credentials.
        """
        opened: list[FleetConnection] = []

        async def reconnected() -> None:
            _log.warning("NATS: connected again")
            said.clear()
            for each in opened:
                for notify in each.on_reconnect:
                    notify()

        failures: list[str] = []
        resets = 0
        # In this outage.
        said: set[str] = set()

        async def failed(error: Exception) -> None:
            nonlocal resets
            words = _words(error)
            # A server that refuses credentials closes the connection, while the client still writes: then its reason may be
            # lost, and the next attempt tells it.
            is_reset = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
            resets += is_reset
            may_repeat = is_reset and resets < _MOST_RESETS * len(urls)
            if not opened and not may_repeat and len(failures) + 1 >= len(urls):
                # The client would try for ever. Each server had its chance.
                raise _not_connected(urls, error, name, credentials, role) from error
            is_repeated = failures[-1:] == [words] if client.is_connected else words in said
            if not is_repeated and len(said) < _MOST_SAID:
                _log.warning("NATS: %s", words)
            if not client.is_connected:
                said.add(words)
            failures.append(words)
            del failures[: -len(urls)]

        jwt, sign = (None, None) if credentials is None else credentials.callbacks
        client = GuardedClient()
        try:
            await client.connect(
                list(urls),
                name=name,
                tls=tls,
                connect_timeout=_CONNECT_SECONDS,
                # For ever: a node that loses NATS fences itself, and is there again when NATS is.
                max_reconnect_attempts=-1,
                reconnect_time_wait=0,
                pending_size=_PENDING_BYTES,
                ping_interval=5,
                error_cb=failed,
                reconnected_cb=reconnected,
                allow_reconnect=True,
                inbox_prefix=b"_INBOX." + name.encode(),
                user_jwt_cb=jwt,
                signature_cb=sign,
            )
        except (nats.errors.Error, OSError, ValueError, TimeoutError) as error:
            raise _not_connected(urls, error, name, credentials, role) from error
        except FleetUnavailable:
            await _close(client)
            raise
        client.options["reconnect_time_wait"] = _RECONNECT_SECONDS
        is_node = credentials is not None and credentials.role in _NODE_ROLES
        connection = cls(client, name, is_node=is_node)
        opened.append(connection)
        try:
            await connection._listen()
            yield connection
        finally:
            await _close(client)

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    @property
    def server_version(self) -> tuple[int, int]:
        version = self._client.connected_server_version
        return version.major, version.minor

    async def flush(self) -> None:
        """Wait until the server has what was published so far. Raises `FleetUnavailable`."""
        try:
            # Client.flush sends its PING before the pending buffer. The first call writes the buffer; the second waits for it.
            await self._client.flush()
            await self._client.flush()
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise _unavailable(error) from error

    @property
    def max_payload(self) -> int:
        """In bytes: of one message, with its headers."""
        return self._client.max_payload

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a message. It may be lost: nobody may listen, or a server may end. Raises `FleetUnavailable`.

        Headers are for a message that goes in one piece.
        """
        most = self.max_payload - _HEADER_BYTES
        try:
            if len(data) <= most:
                await self._client.publish(subject, data, reply, dict(headers) if headers else None)
                return
            id_, count = secrets.token_hex(8), -(-len(data) // most)
            for index in range(count):
                await self._client.publish(
                    subject,
                    data[index * most : (index + 1) * most],
                    reply if index == count - 1 else "",
                    {_PIECES: f"{id_} {index} {count}"},
                )
        except (nats.errors.Error, OSError) as error:
            raise _unavailable(error) from error

    async def subscribe(
        self, subject: str, handle: Callable[[Received], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Call a function with each message, one after the other. Returns a function that ends that."""
        listener = object()
        # The server sends these itself, and nobody acts on what they say.
        is_news = subject.startswith(f"{NEWS}.")

        async def take(message: Msg) -> None:
            if not is_news and _is_sent_by_jetstream(message):
                _log.warning("a message at %s came out of a stream, and is ignored", message.subject)
                return
            whole = self._joiner.take(message, listener)
            if whole is None:
                return
            try:
                await handle(whole)
            except Exception:
                # The next message is served, whatever this one was.
                _log.exception("a message at %s could not be handled", message.subject)

        subscription = await self._client.subscribe(
            subject, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        self._subscriptions.append(subscription)

        async def end() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                await subscription.unsubscribe()

        return end

    async def request(self, subject: str, data: bytes, seconds: float) -> bytes:
        """The answer to a message. Raises `NobodyThere`, `NoAnswer` or `FleetUnavailable`."""
        answers = await self.request_many(subject, data, seconds, lambda _: True)
        return answers[0].data

    async def collect(
        self,
        subject: str,
        data: bytes,
        seconds: float,
        is_last: Callable[[bytes], bool] = lambda _: False,
        first_seconds: float = 0.0,
    ) -> list[bytes]:
        """Return the answers that arrive in time, up to the last. Empty at once if the server knows of no node that listens.

        `is_last` is called once with each answer. `first_seconds`: so long it waits for the first, if that is longer, and
        sends the message again every second. It may be lost with a server that hangs or ends, so all answers to it count.
        """
        answers: list[bytes] = []
        done = asyncio.Event()
        is_late = False

        def take(received: Received | None) -> None:
            if received is not None:
                answers.append(received.data)
            if received is None or is_last(received.data) or is_late:
                done.set()

        reply = self._await_answers(take)
        try:
            async with asyncio.timeout(seconds):
                await self.publish(subject, data, reply)
                await done.wait()
        except TimeoutError:
            is_late = True
            if not answers and first_seconds > seconds:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(first_seconds - seconds):
                        await self._ask_again(subject, data, reply, done)
        finally:
            self._answers.pop(reply, None)
        return answers

    async def _ask_again(self, subject: str, data: bytes, reply: str, done: asyncio.Event) -> None:
        while not done.is_set():
            await self.publish(subject, data, reply)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await done.wait()

    async def request_many(
        self, subject: str, data: bytes, seconds: float, is_last: Callable[[Received], bool]
    ) -> list[Received]:
        """All answers to a message, up to the last. Raises `NobodyThere`, `NoAnswer` or `FleetUnavailable`.

        `seconds`: for each of them.
        """
        answers: list[Received] = []
        is_whole = is_nobody = False
        news = asyncio.Event()

        def take(received: Received | None) -> None:
            nonlocal is_whole, is_nobody
            if received is None:
                is_nobody = True
            else:
                answers.append(received)
                is_whole = is_last(received)
            news.set()

        reply = self._await_answers(take)
        try:
            async with asyncio.timeout(seconds) as limit:
                await self.publish(subject, data, reply)
                while not (is_whole or is_nobody):
                    await news.wait()
                    news.clear()
                    limit.reschedule(asyncio.get_running_loop().time() + seconds)
        except TimeoutError as error:
            raise NoAnswer(f"no answer from {subject} within {seconds:g} seconds") from error
        finally:
            self._answers.pop(reply, None)
        if is_nobody:
            raise NobodyThere(f"nobody listens at {subject}")
        return answers

    async def answer(self, received: Received, data: bytes) -> None:
        """Answer a message, if its sender waits for that."""
        if received.reply:
            await self.publish(received.reply, data)

    def _await_answers(self, take: Callable[[Received | None], None]) -> str:
        reply = f"{self._inbox}.{secrets.token_hex(8)}"
        self._answers[reply] = take
        return reply

    async def _listen(self) -> None:
        async def answered(message: Msg) -> None:
            take = self._answers.get(message.subject)
            if take is None:
                return
            if (message.headers or {}).get("Status") == _NO_RESPONDERS:
                take(None)
            elif (whole := self._joiner.take(message, self._inbox)) is not None:
                take(whole)

        await self._client.subscribe(f"{self._inbox}.*", cb=answered)
        await self._client.flush()


def _is_sent_by_jetstream(message: Msg) -> bool:
    """Return whether JetStream sent this message.

    An attacker can make JetStream answer at a subject where the attacker may not publish. Such an answer has headers that
    the server adds, or a subject for an acknowledgement, or it is JSON without headers. Messages of nodes have none of this:
    they are msgpack. A piece of one may begin as JSON does, and has a header that says so.
    """
    headers = (message.headers or {}).keys()
    return (
        bool(headers - {_PIECES, _REQUEST_INFO})
        or message.reply.startswith("$JS.")
        or (_PIECES not in headers and message.data.startswith(_JSON_BEGINS))
    )


async def _close(client: Client) -> None:
    """A connection whose handshake of TLS has failed is never reported as closed. One that is down cannot be written to:

    uvloop says so with a `RuntimeError`.
    """
    with contextlib.suppress(TimeoutError, OSError, RuntimeError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()


def credentials_command(name: str, role: str | None) -> str:
    """The command that makes a node's credentials."""
    return f"dragoman fleet credentials {role or 'worker'} {name}{'' if role else ' (or gateway)'}"


def _not_connected(
    urls: tuple[str, ...], error: Exception, name: str, credentials: Credentials | None, role: str | None
) -> FleetUnavailable:
    """Why the first connection failed, and what to do."""
    where = f"NATS at {', '.join(urls)}"
    if any(each in str(error).lower() for each in _REFUSALS):
        what = (
            "asks for credentials, and there are none"
            if credentials is None
            else f"refuses the credentials of {name}: they are of another fleet, or do not count any more"
        )
        return FleetUnavailable(
            f"{where} {what} ({error}). Make some where the keys of the fleet are: {credentials_command(name, role)}. "
            "Then name the file in `[fleet] credentials`."
        )
    if isinstance(error, NoTls):
        return FleetUnavailable(
            f"{where} is not used: {error}. Nothing was sent to it. Add `tls` to the configuration of the NATS server. "
            "Or write nats:// in `[fleet] url`: then everything goes in the clear."
        )
    hint = "" if isinstance(error, ssl.SSLError) else " Does NATS run there? `[fleet] url` has the address."
    return FleetUnavailable(f"{where} cannot be reached: {_words(error)}.{hint}")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _unavailable(error: Exception) -> FleetUnavailable:
    return FleetUnavailable(f"NATS cannot be used now: {_words(error)}.")
