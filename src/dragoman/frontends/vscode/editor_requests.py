"""Requests to the editor: its documents. Each has a time limit, and fails with a sentence that an agent can read."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec

from dragoman.jsonrpc import ConnectionClosed, ErrorResponse, Peer, RpcReply, RpcResponse
from dragoman.lm.client_services import ClientServiceError
from dragoman.lm.json import JsonObject

__all__ = ["EditorFiles", "ask_editor"]

_T = TypeVar("_T")

# A document that is open is in memory.
_READ_SECONDS = 10.0
# Saving may run formatters and other participants. VS Code gives each of them some seconds.
_WRITE_SECONDS = 60.0


async def ask_editor(peer: Peer, method: str, params: JsonObject, kind: type[_T], seconds: float) -> _T:
    """Send a request to the editor. `ClientServiceError` if it is gone, refuses, or does not answer in time."""
    replied: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()

    def on_reply(reply: RpcReply) -> None:
        if not replied.done():
            replied.set_result(reply)

    try:
        identity = peer.call(method, params, on_reply)
    except ConnectionClosed as closed:
        raise ClientServiceError("The editor is gone.") from closed
    try:
        async with asyncio.timeout(seconds):
            reply = await asyncio.shield(replied)
    except TimeoutError as late:
        raise ClientServiceError(f"The editor did not answer within {seconds:g} seconds.") from late
    finally:
        if not replied.done() and peer.closed is None:
            peer.withdraw(identity)
    match reply:
        case RpcResponse(result=result):
            try:
                return msgspec.json.decode(result, type=kind)
            except msgspec.DecodeError as error:
                raise ClientServiceError(f"The editor's answer cannot be read: {error}.") from error
        case ErrorResponse(error=error):
            raise ClientServiceError(f"The editor refused: {error.message}")
        case ConnectionClosed():
            raise ClientServiceError("The editor is gone.")


class _Text(msgspec.Struct, frozen=True, rename="camel"):
    text: str | None = None
    is_open: bool = False


class EditorFiles:
    """The editor's documents, as `lm.client_services.ClientFiles`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def buffer(self, path: str) -> str | None:
        return (await self._read(path)).text

    async def is_open(self, path: str) -> bool:
        return (await self._read(path)).is_open

    async def _read(self, path: str) -> _Text:
        return await ask_editor(self._peer, "fs/readTextFile", {"path": path}, _Text, _READ_SECONDS)

    async def write(self, path: str, text: str, expected: str | None) -> str | None:
        params: JsonObject = {"path": path, "text": text, "expected": expected}
        written = await ask_editor(self._peer, "fs/writeTextFile", params, _Text, _WRITE_SECONDS)
        return written.text
