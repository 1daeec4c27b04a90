"""Terminals of the editor that show the commands of agents. The commands run here; the editor shows them and can stop them."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress

from dragoman.jsonrpc import ConnectionClosed, ErrorResponse, Peer, RpcReply
from dragoman.lm.json import JsonObject

__all__ = ["EditorTerminals"]

_log = logging.getLogger(__name__)


class EditorTerminals:
    """An `lm.client_services.ClientTerminals`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._on_stop: dict[str, Callable[[], None]] = {}

    def open(self, command: str, folder: str, on_stop: Callable[[], None]) -> _EditorTerminal:
        id_ = f"t{secrets.token_hex(8)}"
        self._on_stop[id_] = on_stop
        with suppress(ConnectionClosed):
            self._peer.call("terminal/create", {"id": id_, "command": command, "cwd": folder}, _log_refusal)
        return _EditorTerminal(self._peer, id_, lambda: self._on_stop.pop(id_, None))

    def stop(self, id_: str) -> None:
        """The user wants a command to end."""
        if (on_stop := self._on_stop.pop(id_, None)) is not None:
            on_stop()

    def close(self) -> None:
        """The editor is gone: no one sees the commands any more."""
        for id_ in tuple(self._on_stop):
            self.stop(id_)


class _EditorTerminal:
    def __init__(self, peer: Peer, id_: str, on_ended: Callable[[], object]) -> None:
        self._peer = peer
        self._id = id_
        self._on_ended = on_ended

    def show(self, output: str) -> None:
        self._notify("terminal/output", {"id": self._id, "data": output})

    async def drain(self) -> None:
        with suppress(ConnectionClosed):
            await self._peer.drain()

    def ended(self, code: int | None, signal: str | None) -> None:
        self._on_ended()
        self._notify("terminal/exit", {"id": self._id, "exitCode": code, "signal": signal})

    def _notify(self, method: str, params: JsonObject) -> None:
        with suppress(ConnectionClosed):
            self._peer.notify(method, params)


def _log_refusal(reply: RpcReply) -> None:
    if isinstance(reply, ErrorResponse):
        _log.warning("the editor shows no terminal: %s", reply.error.message)
