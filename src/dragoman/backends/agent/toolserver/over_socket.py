"""MCP as lines of JSON over a unix socket: the other end of the relay that agents start.

The socket is in a folder that only its owner can enter. A connection begins with the token of a conversation and a line
break; whoever does not know one is cut off without a word.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import mcp_types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from dragoman.backends.agent.toolserver.folder import socket_folder
from dragoman.backends.agent.toolserver.service import Service
from dragoman.backends.agent.toolserver.wire import MAX_CONNECTIONS, MAX_MESSAGE_BYTES, Arrival, mended

__all__ = ["SocketListener"]

_log = logging.getLogger(__name__)

_NAME = "tools"
_PRIVATE = 0o600
# The relay sends the token with its first breath.
_TOKEN_SECONDS = 5.0
_TOKEN_LENGTH = 43
# How long what is written may take to leave us when a connection closes.
_CLOSE_SECONDS = 1.0


class SocketListener:
    def __init__(self) -> None:
        self._folder: Path | None = None
        self._listening: asyncio.Server | None = None
        # By a digest of the token: how long a look-up takes says nothing about the token.
        self._services: dict[bytes, Service] = {}
        self._connections: dict[asyncio.Task[None], Service | None] = {}

    @property
    def path(self) -> Path:
        if self._folder is None:
            raise RuntimeError("nobody listens")
        return self._folder / _NAME

    async def start(self) -> None:
        self._folder = socket_folder(_NAME)
        self._listening = await asyncio.start_unix_server(self._accept, self.path, limit=MAX_MESSAGE_BYTES)
        self.path.chmod(_PRIVATE)

    def add(self, service: Service) -> None:
        self._services[_digest(service.endpoint.token.encode())] = service

    async def remove(self, service: Service) -> None:
        self._services.pop(_digest(service.endpoint.token.encode()), None)
        await _end([task for task, served in self._connections.items() if served is service])

    async def close(self) -> None:
        """Stop listening, cut off who has not said a token yet, and remove the folder."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
            await _end(list(self._connections))
            await listening.wait_closed()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a connection is handled in a task")
        self._connections[task] = None
        try:
            service = await self._authenticated(reader)
            if service is not None:
                self._connections[task] = service
                await _serve(service, reader, writer)
        except asyncio.CancelledError:
            # We are closing. The task has nobody to tell: asyncio would log it.
            pass
        except Exception:
            _log.exception("a connection to the tool server failed")
        finally:
            del self._connections[task]
            await _hang_up(writer)

    async def _authenticated(self, reader: asyncio.StreamReader) -> Service | None:
        try:
            async with asyncio.timeout(_TOKEN_SECONDS):
                line = await reader.readexactly(_TOKEN_LENGTH + 1)
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            return None
        service = self._services.get(_digest(line.removesuffix(b"\n")))
        if service is None:
            _log.warning("a connection to the tool server without a valid token was refused")
            return None
        if sum(served is service for served in self._connections.values()) >= MAX_CONNECTIONS:
            _log.warning("%s has %d connections already", service.endpoint.name, MAX_CONNECTIONS)
            return None
        return service


async def _serve(service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    session = object()
    try:
        await service.server.run(
            _Incoming(reader, session), _Outgoing(writer), service.server.create_initialization_options()
        )
    finally:
        service.forget(session)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        # Somebody who does not read what we have still to say, or is gone.
        writer.transport.abort()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class _Incoming:
    """Messages from a socket, as the MCP library reads them."""

    def __init__(self, reader: asyncio.StreamReader, session: object) -> None:
        self._reader = reader
        self._session = session

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, OSError):
                raise anyio.EndOfStream from None
            except asyncio.LimitOverrunError:
                _log.warning(
                    "a connection is closed: it sent a line of more than %d bytes", MAX_MESSAGE_BYTES
                )
                raise anyio.EndOfStream from None
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(mended(line), by_name=False)
            except ValidationError:
                _log.warning("a line that is no JSON-RPC message was ignored")
                continue
            return SessionMessage(message, ServerMessageMetadata(request_context=Arrival(self._session)))

    async def aclose(self) -> None:
        """Nothing: the socket is closed once, by whoever accepted it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Outgoing:
    """Messages to a socket, as the MCP library writes them."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, item: SessionMessage, /) -> None:
        if self._writer.is_closing():
            raise anyio.ClosedResourceError
        self._writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        try:
            await self._writer.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Nothing: the socket is closed once, by whoever accepted it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
