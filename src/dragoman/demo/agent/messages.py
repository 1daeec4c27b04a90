"""The requests of a client, as types. https://agentclientprotocol.com/protocol/schema

The agent's responses are in `acp.messages`, which the client uses as well.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TypeVar

import msgspec

from dragoman.acp.content import ContentBlock
from dragoman.acp.messages import StdioServer
from dragoman.jsonrpc import INVALID_PARAMS, Decoder
from dragoman.lm import JsonObject

__all__ = [
    "NO_SUCH_SESSION",
    "InitializeParams",
    "Prompted",
    "RequestRefused",
    "SessionNamed",
    "SessionPlace",
    "SetMode",
    "SetOption",
    "read",
]

# "Resource not found", in the words of ACP.
NO_SUCH_SESSION = -32002

_T = TypeVar("_T")


class RequestRefused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str, details: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = None if details is None else {"details": details}


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    pass


class InitializeParams(_Params, frozen=True):
    protocol_version: int


class SessionNamed(_Params, frozen=True):
    session_id: str


class SessionPlace(_Params, frozen=True):
    """Where a session works, and with whose tools. `session_id` is absent for a new one."""

    cwd: str
    mcp_servers: tuple[JsonObject, ...] = ()
    additional_directories: tuple[str, ...] = ()
    session_id: str = ""

    def __post_init__(self) -> None:
        for folder in (self.cwd, *self.additional_directories):
            if not PurePath(folder).is_absolute():
                raise ValueError(f"{folder!r} is not an absolute path")

    @property
    def servers(self) -> tuple[StdioServer, ...]:
        """Raises `RequestRefused` for a transport that was not declared."""
        return tuple(map(_server, self.mcp_servers))


class Prompted(_Params, frozen=True):
    session_id: str
    prompt: tuple[ContentBlock, ...]


class SetMode(_Params, frozen=True):
    session_id: str
    mode_id: str


class SetOption(_Params, frozen=True):
    session_id: str
    config_id: str
    value: object


def read(params: bytes, kind: type[_T]) -> _T:
    """Decode the parameters of a request. Raises `RequestRefused` if they do not fit."""
    try:
        return Decoder(kind).decode(params)
    except msgspec.DecodeError as error:
        raise RequestRefused(INVALID_PARAMS, f"These parameters cannot be read: {error}") from error


def _server(value: JsonObject) -> StdioServer:
    if (kind := value.get("type", "stdio")) != "stdio":
        raise RequestRefused(INVALID_PARAMS, f"Tool servers over {kind} are not supported; use stdio.")
    try:
        return msgspec.convert(value, StdioServer)
    except msgspec.ValidationError as error:
        raise RequestRefused(INVALID_PARAMS, f"This tool server cannot be read: {error}") from error
