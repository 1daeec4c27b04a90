"""MCP over the standard input and output of a process: a line a message.

The process is supervised: it and everything it starts end with us, whatever becomes of us.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path

from dragoman.acp.messages import StdioServer
from dragoman.demo.mcp.link import CANCELLED, McpError, OnNotification
from dragoman.jsonrpc import (
    METHOD_NOT_FOUND,
    ConnectionClosed,
    ErrorResponse,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RemoteError,
    RpcReply,
    RpcResponse,
)
from dragoman.process import SpawnError, SupervisedProcess

__all__ = ["StdioLink"]

_log = logging.getLogger(__name__)


class StdioLink:
    def __init__(self, name: str, process: SupervisedProcess, peer: Peer) -> None:
        self._name = name
        self._process = process
        self._peer = peer

    @classmethod
    async def start(cls, server: StdioServer, cwd: Path, on_notification: OnNotification) -> StdioLink:
        env = {**os.environ, **{variable.name: variable.value for variable in server.env}}
        try:
            process = await SupervisedProcess.start((server.command, *server.args), env=env, cwd=cwd)
        except SpawnError as error:
            raise McpError(f"{server.name}: {error}") from error
        try:
            options = PeerOptions(name=server.name, cancel_methods=(CANCELLED,))
            peer = await process.connect(_Receiver(on_notification), options)
        except BaseException:
            await process.stop()
            raise
        return cls(server.name, process, peer)

    async def request(self, method: str, params: object) -> bytes:
        replied: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: RpcReply) -> None:
            if not replied.done():
                replied.set_result(reply)

        try:
            identity = self._peer.call(method, params, on_reply)
        except ConnectionClosed as closed:
            raise self._gone(closed) from closed
        try:
            reply = await replied
        except asyncio.CancelledError:
            with suppress(ConnectionClosed):
                self._peer.withdraw(identity)
            raise
        match reply:
            case RpcResponse(result=result):
                return result
            case ErrorResponse(error=error):
                raise RemoteError(error)
            case ConnectionClosed():
                raise self._gone(reply)

    async def notify(self, method: str, params: object) -> None:
        try:
            self._peer.notify(method, params)
        except ConnectionClosed as closed:
            raise self._gone(closed) from closed

    def agreed(self, version: str) -> None:
        _log.debug("%s speaks MCP %s", self._name, version)

    async def close(self) -> None:
        await self._process.stop()

    def _gone(self, closed: ConnectionClosed) -> McpError:
        last_words = self._process.stderr_tail.strip().rpartition("\n")[2]
        said = f" Its last words: {last_words}" if last_words else ""
        return McpError(f"{self._name} is gone: {closed.reason}.{said}")


class _Receiver:
    def __init__(self, on_notification: OnNotification) -> None:
        self._on_notification = on_notification

    def connected(self, peer: Peer) -> None:
        """Nothing to do: the code that connects passes the peer to the link."""

    def request(self, incoming: Incoming) -> None:
        if incoming.method == "ping":
            incoming.reply({})
        else:
            # We declare no capabilities, so nothing else may be asked of us.
            incoming.fail(METHOD_NOT_FOUND, f"{incoming.method} is not offered")

    def notification(self, notification: Notification) -> None:
        self._on_notification(notification)

    def closed(self, reason: str) -> None:
        """Nothing to do: the peer fails the pending requests."""
