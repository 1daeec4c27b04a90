"""What the headers of a request say, for MCP over HTTP."""

from __future__ import annotations

import base64
import binascii

from dragoman.backends.agent.toolserver.exchange import Exchange
from dragoman.backends.agent.toolserver.session import META_VERSION, params_of
from dragoman.jsonrpc.messages import RpcRequest

__all__ = ["EVENTS", "JSON", "SESSION", "VERSION", "accepted", "is_json", "mismatch"]

SESSION = b"mcp-session-id"
VERSION = b"mcp-protocol-version"
JSON = b"application/json"
EVENTS = b"text/event-stream"

_METHOD = b"mcp-method"
_NAME = b"mcp-name"
_ENCODED = ("=?base64?", "?=")


def accepted(exchange: Exchange) -> tuple[bool, bool]:
    """Whether the client takes JSON, and whether it takes a stream of events."""
    accepted = {
        kind.partition(b";")[0].strip().lower()
        for header in exchange.values(b"accept")
        for kind in header.split(b",")
    }
    return (
        not accepted.isdisjoint((JSON, b"application/*", b"*/*")),
        not accepted.isdisjoint((EVENTS, b"text/*", b"*/*")),
    )


def is_json(exchange: Exchange) -> bool:
    kind = exchange.value(b"content-type") or b""
    return kind.partition(b";")[0].strip().lower() == JSON


def mismatch(exchange: Exchange, request: RpcRequest) -> str | None:
    """Why the headers do not match the body, as they must from 2026-07-28 on; None if they do.

    There are no headers for a call's arguments: a server must request them in a schema, and `tool_shapes` removes that
    from ours.
    """
    params = params_of(request) or {}
    meta = params.get("_meta")
    if not isinstance(meta, dict) or META_VERSION not in meta:
        # The request gets another error.
        return None
    pairs = [(VERSION, _header(exchange, VERSION), meta[META_VERSION])]
    pairs.append((_METHOD, _header(exchange, _METHOD), request.method))
    if request.method == "tools/call" and params.get("name") is not None:
        pairs.append((_NAME, _decoded(_header(exchange, _NAME)), params["name"]))
    for name, header, body in pairs:
        if header != body:
            return f"the {name.decode()} header must be there once and say what the body says"
    return None


def _header(exchange: Exchange, name: bytes) -> str | None:
    """None unless it is there once, with characters that a header may have."""
    values = exchange.values(name)
    return values[0].decode() if len(values) == 1 and values[0].isascii() else None


def _decoded(value: str | None) -> str | None:
    """Text that a header cannot carry comes in base 64."""
    if value is None or not (value.startswith(_ENCODED[0]) and value.endswith(_ENCODED[1])):
        return value
    try:
        return base64.b64decode(value[len(_ENCODED[0]) : -len(_ENCODED[1])], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
