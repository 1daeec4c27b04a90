"""The MCP protocol: it turns an agent's messages into actions. It does no I/O, and knows no tools.

MCP has two eras. Up to 2025-11-25 a client begins a session with a handshake (`initialize`), and later messages belong
to that session. From 2026-07-28 on there is no session: every request names its revision in `_meta`, and every result
names the server. A connection, or a session over HTTP, has one era as long as it lives. The first request that is
specific to an era decides it.

`McpSession.request` turns one request into one *action*: a response that is known already (`Respond`, `Refuse`), or
work for `service` (`ListTools`, `CallTool`, `Listen`). `McpSession.notification` returns a `CancelCall`, or None.
`response` and `error` encode the outcome in the form of the era.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman import __version__
from dragoman.jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    ErrorObject,
    Notification,
    RequestId,
    RpcRequest,
    encode_error,
    encode_notification,
    encode_response,
)
from dragoman.lm import JsonObject, json
from dragoman.lm.nesting import INPUT_LEVELS, is_deeper

__all__ = [
    "HANDSHAKE_VERSIONS",
    "META_VERSION",
    "STATELESS_VERSION",
    "SUBSCRIPTION",
    "TOOLS_CHANGED",
    "UNSUPPORTED_VERSION",
    "CallTool",
    "CancelCall",
    "Era",
    "ListTools",
    "Listen",
    "McpAction",
    "McpSession",
    "Refuse",
    "Respond",
    "notification",
    "params_of",
    "unsupported",
]

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION: Final = "2026-07-28"

# A code that MCP adds to those of JSON-RPC.
UNSUPPORTED_VERSION: Final = -32022

_PREFIX = "io.modelcontextprotocol/"
META_VERSION: Final = f"{_PREFIX}protocolVersion"
_CLIENT_CAPABILITIES = f"{_PREFIX}clientCapabilities"
_SERVER_INFO = f"{_PREFIX}serverInfo"
SUBSCRIPTION: Final = f"{_PREFIX}subscriptionId"

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_CAPABILITIES: JsonObject = {"tools": {"listChanged": True}}
# Changes of the tools are announced; clients must not cache a list beyond an announcement.
_CACHING: JsonObject = {"ttlMs": 0, "cacheScope": "private"}

Era: TypeAlias = Literal["handshake", "stateless"]


@dataclass(frozen=True, slots=True)
class Respond:
    result: JsonObject


@dataclass(frozen=True, slots=True)
class Refuse:
    code: int
    message: str
    data: object = None


@dataclass(frozen=True, slots=True)
class ListTools:
    pass


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool. An invalid name or invalid arguments are None; the agent gets a result about them, not an error."""

    name: str | None
    arguments: JsonObject | None
    progress_token: int | str | None
    # Why the arguments are invalid, if they are an object.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Listen:
    """Announce changes on the stream of this request: of tools, if requested. There are no other announcements."""

    tools: bool


@dataclass(frozen=True, slots=True)
class CancelCall:
    request_id: int | str


McpAction: TypeAlias = Respond | Refuse | ListTools | CallTool | Listen


class McpSession:
    """The protocol state of one client. With `era` None, the first request that is specific to an era decides it."""

    __slots__ = ("_name", "era", "version")

    def __init__(self, name: str, era: Era | None = None) -> None:
        self._name = name
        self.era = era
        # The negotiated revision; None before a handshake.
        self.version: str | None = None

    def request(self, request: RpcRequest) -> McpAction:
        params = params_of(request)
        if params is None:
            return Refuse(INVALID_PARAMS, "params must be an object")
        if self.era is None:
            self.era = _era(request.method, params)
        # A probe with an unsupported revision gets the supported ones, and the client may still do the handshake.
        if self.era == "stateless" or (self.era is None and _has_envelope(params)):
            action = self._stateless(request.method, params)
        else:
            action = self._handshake(request.method, params)
        # The params themselves are one level.
        if isinstance(action, CallTool) and is_deeper(request.params, INPUT_LEVELS + 1):
            problem = f"The arguments of a tool may be nested at most {INPUT_LEVELS} levels deep. Call it with flatter ones."
            return replace(action, arguments=None, problem=problem)
        return action

    def notification(self, notification: Notification) -> CancelCall | None:
        if notification.method != "notifications/cancelled":
            return None
        match params_of(notification):
            case {"requestId": bool()}:
                # To Python a bool is an int, and could equal the id of another request.
                return None
            case {"requestId": int() | str() as request_id}:
                return CancelCall(request_id)
            case _:
                return None

    def response(self, request_id: RequestId, result: JsonObject) -> bytes:
        """One line of JSON."""
        if self.era == "stateless":
            meta = result.get("_meta")
            stamp: JsonObject = {_SERVER_INFO: self._information()}
            meta = {**meta, **stamp} if isinstance(meta, dict) else stamp
            result = {**result, "resultType": "complete", "_meta": meta}
        return encode_response(request_id, result)

    def error(self, request_id: RequestId, refusal: Refuse) -> bytes:
        return encode_error(request_id, ErrorObject(refusal.code, refusal.message, refusal.data))

    def cancelled(self, request_id: RequestId) -> bytes:
        """The response to a cancelled request, for a stream that must end with one."""
        return self.error(request_id, Refuse(REQUEST_CANCELLED, "Request cancelled"))

    def tools(self, tools: list[JsonObject]) -> JsonObject:
        """A list of tools as the result of a request."""
        return {"tools": tools, **(_CACHING if self.era == "stateless" else {})}

    def _information(self) -> JsonObject:
        return {"name": self._name, "version": __version__}

    def _handshake(self, method: str, params: JsonObject) -> McpAction:
        if method == "initialize":
            return self._initialize(params)
        if method == "ping":
            return Respond({})
        if _has_envelope(params):
            return Refuse(
                INVALID_REQUEST,
                f"this session began with a handshake: requests of {STATELESS_VERSION} have no place here",
            )
        if self.version is None:
            return Refuse(INVALID_REQUEST, "a session begins with initialize")
        match method:
            case "tools/list":
                return _list(params)
            case "tools/call":
                return _call(params)
            case _:
                return Refuse(METHOD_NOT_FOUND, "Method not found", method)

    def _initialize(self, params: JsonObject) -> McpAction:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            return Refuse(INVALID_PARAMS, "initialize needs a protocolVersion")
        # "Otherwise, the server MUST respond with another protocol version it supports. This SHOULD be the latest".
        self.version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return Respond(
            {
                "protocolVersion": self.version,
                "capabilities": _CAPABILITIES,
                "serverInfo": self._information(),
            }
        )

    def _stateless(self, method: str, params: JsonObject) -> McpAction:
        if method == "initialize":
            supported: JsonObject = {
                "supported": [STATELESS_VERSION],
                "requested": params.get("protocolVersion"),
            }
            return Refuse(
                UNSUPPORTED_VERSION,
                f"this connection speaks {STATELESS_VERSION}, without a handshake",
                supported,
            )
        problem = _envelope_problem(params)
        if problem is not None:
            return problem
        match method:
            case "server/discover":
                return Respond(
                    {"supportedVersions": [STATELESS_VERSION], "capabilities": _CAPABILITIES, **_CACHING}
                )
            case "tools/list":
                return _list(params)
            case "tools/call":
                return _call(params)
            case "subscriptions/listen":
                return _listen(params)
            case _:
                return Refuse(METHOD_NOT_FOUND, "Method not found", method)


def params_of(message: RpcRequest | Notification) -> JsonObject | None:
    """The params of a message; None if they are no object."""
    try:
        params = json.decode(message.params)
    except msgspec.DecodeError:
        return None
    return params if isinstance(params, dict) else None


def notification(method: str, params: JsonObject | None = None) -> bytes:
    return encode_notification(method) if params is None else encode_notification(method, params)


def unsupported(version: str) -> Refuse:
    """The error for an unsupported revision, with the supported ones."""
    return Refuse(
        UNSUPPORTED_VERSION,
        "Unsupported protocol version",
        {"supported": [STATELESS_VERSION], "requested": version},
    )


def _era(method: str, params: JsonObject) -> Era | None:
    """The era that a request decides. A ping, or a probe of an unsupported revision, decides none."""
    if method == "initialize":
        return "handshake"
    meta = params.get("_meta")
    speaks_ours = isinstance(meta, dict) and meta.get(META_VERSION) == STATELESS_VERSION
    return "stateless" if speaks_ours else None


def _has_envelope(params: JsonObject) -> bool:
    """Whether a request names its revision in `_meta`. Clients of the other era never do."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and META_VERSION in meta


def _envelope_problem(params: JsonObject) -> Refuse | None:
    meta = params.get("_meta")
    missing = [
        key for key in (META_VERSION, _CLIENT_CAPABILITIES) if not isinstance(meta, dict) or key not in meta
    ]
    if missing or not isinstance(meta, dict):
        return Refuse(INVALID_PARAMS, f"params._meta must be an object with {' and '.join(missing)}")
    version = meta[META_VERSION]
    if not isinstance(version, str):
        return Refuse(INVALID_PARAMS, f"{META_VERSION} must be a string")
    if version != STATELESS_VERSION:
        return unsupported(version)
    return None


def _list(params: JsonObject) -> McpAction:
    # We issue no cursors: a request with one gets the whole list.
    if isinstance(params.get("cursor"), str | None):
        return ListTools()
    return Refuse(INVALID_PARAMS, "a cursor is a string")


def _call(params: JsonObject) -> CallTool:
    name, arguments = params.get("name"), params.get("arguments")
    return CallTool(
        name if isinstance(name, str) else None,
        arguments if isinstance(arguments, dict) else {} if arguments is None else None,
        _progress_token(params),
    )


def _progress_token(params: JsonObject) -> int | str | None:
    match params.get("_meta"):
        case {"progressToken": bool()}:
            return None
        case {"progressToken": int() | str() as token}:
            return token
        case _:
            return None


def _listen(params: JsonObject) -> McpAction:
    wanted = params.get("notifications")
    if not isinstance(wanted, dict):
        return Refuse(INVALID_PARAMS, "notifications must say what to listen for")
    return Listen(tools=wanted.get("toolsListChanged") is True)
