"""MCP as lines of JSON over a unix socket: the other end of the relay that agents start.

The socket is in a folder that only its owner can enter. A connection begins with the token of a conversation and a line
break; a connection without a valid token is closed without a response.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from collections import deque
from pathlib import Path
from typing import cast

from dragoman.backends.agent.toolserver.folder import socket_folder
from dragoman.backends.agent.toolserver.service import McpClient, ToolService
from dragoman.backends.agent.toolserver.session import McpSession
from dragoman.backends.agent.toolserver.wire import (
    MAX_CONNECTIONS,
    MAX_MESSAGE_BYTES,
    WaitableSet,
    failed_call,
    read_message,
)
from dragoman.jsonrpc.framing import Line, LineSplitter, Oversized
from dragoman.jsonrpc.messages import (
    ErrorObject,
    Malformed,
    Notification,
    RpcRequest,
    encode_error,
)

__all__ = ["SocketListener"]

_log = logging.getLogger(__name__)

_NAME = "tools"
_PRIVATE = 0o600
# The relay sends the token at once.
_TOKEN_SECONDS = 5.0
_TOKEN_LENGTH = 43
# How long the send buffer may take to drain when a connection closes.
_CLOSE_SECONDS = 1.0
# Thousands of relays may come at once.
_BACKLOG = 2_048


class SocketListener:
    def __init__(self) -> None:
        self._folder: Path | None = None
        self._listening: asyncio.Server | None = None
        # By a digest of the token: how long a look-up takes says nothing about the token.
        self._services: dict[bytes, ToolService] = {}
        self._connections: WaitableSet[_Connection] = WaitableSet()

    @property
    def path(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the listener is not started")
        return self._folder / _NAME

    async def start(self) -> None:
        self._folder = socket_folder(_NAME)
        self._listening = await asyncio.get_running_loop().create_unix_server(
            lambda: _Connection(self), str(self.path), backlog=_BACKLOG
        )
        self.path.chmod(_PRIVATE)

    def add(self, service: ToolService) -> None:
        self._services[_digest(service.endpoint.token.encode())] = service

    async def remove(self, service: ToolService) -> None:
        self._services.pop(_digest(service.endpoint.token.encode()), None)
        # One round of the loop, in which answers that are ready get written.
        await asyncio.sleep(0)
        await _end([connection for connection in self._connections if connection.service is service])

    async def close(self) -> None:
        """Stop listening, close connections without a token, and remove the folder."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
            await _end(list(self._connections))
            await listening.wait_closed()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    # For the connections.

    def opened(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def closed(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    def authenticated(self, token: bytes) -> ToolService | None:
        service = self._services.get(_digest(token))
        if service is None:
            _log.warning("a connection to the tool server without a valid token was refused")
            return None
        if sum(connection.service is service for connection in self._connections) >= MAX_CONNECTIONS:
            _log.warning("%s has %d connections already", service.endpoint.name, MAX_CONNECTIONS)
            return None
        return service


class _Connection(asyncio.Protocol):
    """The connection of one relay. It is the `McpReply` of all its requests, because they share the socket."""

    __slots__ = (
        "_arrived",
        "_client",
        "_is_clogged",
        "_lines",
        "_listener",
        "_lost",
        "_owed",
        "_token",
        "_transport",
        "_watch",
    )

    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._client: McpClient | None = None
        self._token = bytearray()
        self._watch: asyncio.TimerHandle | None = None
        self._lines = LineSplitter(MAX_MESSAGE_BYTES)
        # Lines that wait until the client has read the earlier responses.
        self._arrived: deque[Line] = deque()
        self._is_clogged = False
        self._owed: dict[bytes, None] = {}
        self._lost: asyncio.Future[None] | None = None

    @property
    def service(self) -> ToolService | None:
        return None if self._client is None else self._client.service

    async def end(self) -> None:
        """Close, and wait until the send buffer is written, but not for long if the client does not read."""
        if self._transport is None:
            return
        self._lost = asyncio.get_running_loop().create_future()
        self._transport.close()
        await asyncio.wait((self._lost,), timeout=_CLOSE_SECONDS)
        if not self._lost.done():
            self._transport.abort()
            await asyncio.wait((self._lost,), timeout=_CLOSE_SECONDS)

    # For the service.

    def notify(self, message: bytes) -> None:
        if not self._is_clogged:
            self._write(message)

    def announce(self, message: bytes) -> None:
        if self._is_clogged:
            self._owed[message] = None
        else:
            self._write(message)

    def answer(self, message: bytes, code: int | None = None) -> None:  # noqa: ARG002 - it is in the message
        self._write(message)

    def drop(self, message: bytes) -> None:
        """Nothing: "The receiver of a cancellation notification SHOULD … not send a response"."""

    def _write(self, message: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message)

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._watch = asyncio.get_running_loop().call_later(_TOKEN_SECONDS, self._transport.abort)
        self._listener.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._client is None:
            self._token += data
            if len(self._token) <= _TOKEN_LENGTH:
                return
            opening, data = bytes(self._token[: _TOKEN_LENGTH + 1]), bytes(self._token[_TOKEN_LENGTH + 1 :])
            self._token = bytearray()
            if not self._is_admitted(opening.removesuffix(b"\n")):
                return
        self._arrived.extend(self._lines.feed(data))
        self._go_on()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the event loop's signature
        self._transport = None
        if self._watch is not None:
            self._watch.cancel()
        if self._client is not None:
            self._client.close()
        self._listener.closed(self)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        # Stop reading requests while the client does not read, so that responses are not buffered without limit.
        self._is_clogged = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_clogged = False
        owed, self._owed = self._owed, {}
        for message in owed:
            self.announce(message)
        self._go_on()
        if not self._is_clogged and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _is_admitted(self, token: bytes) -> bool:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        service = self._listener.authenticated(token)
        if service is None:
            self._close()
            return False
        self._client = McpClient(service, McpSession(service.endpoint.name), self.announce)
        return True

    def _go_on(self) -> None:
        while self._arrived and not self._is_clogged and self._transport is not None:
            line = self._arrived.popleft()
            if isinstance(line, Oversized):
                _log.warning("a connection is closed: it sent a line of %d bytes", line.size)
                self._arrived.clear()
                self._close()
            elif self._client is not None:
                self._receive(self._client, line)

    def _receive(self, client: McpClient, line: bytes) -> None:
        match read_message(line):
            case Malformed() as malformed:
                _log.warning("a line that is no JSON-RPC message was ignored")
                if (result := failed_call(malformed)) is not None:
                    self._write(client.session.response(malformed.request_id, result))
                elif malformed.is_batch or malformed.request_id is not None:
                    error = ErrorObject(malformed.code, malformed.reason)
                    self._write(encode_error(malformed.request_id, error))
            case RpcRequest() as request:
                client.request(request, self)
            case Notification() as notification:
                client.notification(notification)
            case _:
                # A response, though we send no requests.
                pass

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _end(connections: list[_Connection]) -> None:
    await asyncio.gather(*(connection.end() for connection in connections))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
