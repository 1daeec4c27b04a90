"""JSON-RPC 2.0 messages: what one line says, and how to say it.

Reading takes the envelope apart and leaves `params` and `result` as they came, as JSON in bytes: only the receiver
knows their type, and most of what passes through is never looked into here. `Decoder` in `text` reads them.

Forgiven: a missing `jsonrpc`, unknown fields, `params` that are null or missing (they read as an empty object), a null
`error` beside a result, an error object with parts missing. Not forgiven, because nobody could say what was meant: a
line that is not a JSON object, an id that is neither a number without a fraction nor a string nor null, a method that
is no string, another version, a batch. Those are `Malformed`, with the reason and the code to answer them with.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.jsonrpc.text import Decoder, encode, loads_tolerantly
from dragoman.lm.nesting import MOST_LEVELS, envelope_of, is_deeper
from dragoman.lm.surrogates import mended

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "ErrorObject",
    "ErrorResponse",
    "Malformed",
    "Notification",
    "OutgoingNotification",
    "RequestId",
    "RpcMessage",
    "RpcRequest",
    "RpcResponse",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_response",
    "parse",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
# Not of JSON-RPC itself: the Language Server Protocol's, and after it ACP's.
REQUEST_CANCELLED: Final = -32800

RequestId: TypeAlias = int | str | None

_NO_PARAMS = b"{}"
# As much of a bad line as says what it was, in a log.
_EXCERPT_CHARACTERS = 120
_NO_BATCHES = "batches are not supported: send each message as one JSON object on a line of its own"


class RpcRequest(msgspec.Struct, frozen=True):
    id: RequestId
    method: str
    params: bytes = _NO_PARAMS


class Notification(msgspec.Struct, frozen=True):
    method: str
    params: bytes = _NO_PARAMS


class RpcResponse(msgspec.Struct, frozen=True):
    id: RequestId
    result: bytes


class ErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: object = None


class ErrorResponse(msgspec.Struct, frozen=True):
    id: RequestId
    error: ErrorObject


class Malformed(msgspec.Struct, frozen=True):
    """A line nobody can act on.

    `request_id` is the id to answer it with, where it had one that can be read; `reply_id` is set instead when the
    line can only have been the answer to that request of ours. `method` is what the request was for, where all that is
    wrong with it are its params. `is_batch`: the line is a JSON array. Its requests would wait for ever, so the sender
    always gets one error, with the id null.
    """

    code: int
    reason: str
    size: int
    request_id: RequestId = None
    reply_id: RequestId = None
    method: str | None = None
    is_batch: bool = False


RpcMessage: TypeAlias = RpcRequest | Notification | RpcResponse | ErrorResponse

_ABSENT = Raw(b"")


class _Envelope(msgspec.Struct, gc=False):
    jsonrpc: str = "2.0"
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


_envelope = msgspec.json.Decoder(_Envelope)
_error_object = Decoder(ErrorObject)


def parse(line: bytes) -> RpcMessage | Malformed:
    """What one line says. Never raises."""
    if is_deeper(line):
        return _too_deep(line)
    try:
        # The decoder does not look at the bytes of strings that it leaves as they are.
        if not line.isascii():
            line.decode()
        envelope = _envelope.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _parse_tolerantly(line)
    return _classified(envelope, line)


def _classified(envelope: _Envelope, line: bytes) -> RpcMessage | Malformed:
    identity, method = envelope.id, envelope.method
    if envelope.jsonrpc != "2.0":
        return _malformed(line, "it is of another version of JSON-RPC", request_id=identity)
    if method is not UNSET:
        params = bytes(envelope.params)
        if params[:1] not in (b"{", b"["):
            if params not in (b"", b"null"):
                return _malformed(line, "params are neither an object nor an array", request_id=identity)
            params = _NO_PARAMS
        if identity is UNSET:
            return Notification(method, params)
        return RpcRequest(identity, method, params)
    if identity is UNSET:
        return _malformed(line, "it has neither a method nor an id")
    error = bytes(envelope.error)
    if error not in (b"", b"null"):
        return ErrorResponse(identity, _read_error(error))
    result = bytes(envelope.result)
    if result:
        return RpcResponse(identity, result)
    return _malformed(line, "it has no method, no result and no error", reply_id=identity)


def _read_error(error: bytes) -> ErrorObject:
    """The error object, or what can be made of it: that a request failed is more than how it was put."""
    try:
        read = _error_object.decode(error)
    except msgspec.DecodeError:
        value = loads_tolerantly(error)
        if not isinstance(value, dict):
            value = {"message": value}
        code, message, data = value.get("code"), value.get("message"), value.get("data")
        if not isinstance(message, str):
            message = error.decode()
        read = ErrorObject(code if type(code) is int else INTERNAL_ERROR, message, data)
    return ErrorObject(read.code, mended(read.message), read.data)


def _too_deep(line: bytes) -> Malformed:
    """The refusal of a line that is nested too deeply. Its envelope is read, so that its request gets an answer."""
    reason = f"it is nested more than {MOST_LEVELS} levels deep"
    try:
        envelope = _envelope.decode(envelope_of(line))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _malformed(line, reason)
    if envelope.method is UNSET:
        reply_id = None if envelope.id is UNSET else envelope.id
        return _malformed(line, reason, reply_id=reply_id)
    refused = _malformed(line, reason, code=INVALID_PARAMS, request_id=envelope.id)
    return msgspec.structs.replace(refused, method=envelope.method)


def _parse_tolerantly(line: bytes) -> RpcMessage | Malformed:
    """A line the strict decoder refuses: either it has lone surrogates and is welcome, or this says what is wrong."""
    try:
        value = loads_tolerantly(line)
    except msgspec.DecodeError as error:
        return _malformed(line, f"it is not JSON: {error}", code=PARSE_ERROR)
    if isinstance(value, list):
        return msgspec.structs.replace(_malformed(line, _NO_BATCHES), is_batch=True)
    if not isinstance(value, dict):
        return _malformed(line, "it is not a JSON object")
    identity = value.get("id", UNSET)
    if type(identity) not in (int, str, type(None), UnsetType):
        return _malformed(line, "its id is neither an integer nor a string nor null")
    identity = cast("int | str | UnsetType | None", identity)
    version, method = value.get("jsonrpc", "2.0"), value.get("method", UNSET)
    if not isinstance(method, str | UnsetType):
        return _malformed(line, "its method is not a string", request_id=identity)
    if not isinstance(version, str):
        version = ""
    try:
        raw = {name: Raw(_dumped(value[name])) for name in ("params", "result", "error") if name in value}
    except ValueError as error:
        return _malformed(line, f"it is not JSON: {error}", code=PARSE_ERROR)
    if isinstance(identity, str):
        # It has to go back in the answer, and halves cannot.
        identity = mended(identity)
    if isinstance(method, str):
        method = mended(method)
    return _classified(_Envelope(version, identity, method, **raw), line)


def _dumped(value: object) -> bytes:
    # Escapes keep the lone halves. A number too large for a float has become infinity, which JSON does not have.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _malformed(
    line: bytes,
    reason: str,
    *,
    code: int = INVALID_REQUEST,
    request_id: int | str | UnsetType | None = None,
    reply_id: RequestId = None,
) -> Malformed:
    excerpt = line[:_EXCERPT_CHARACTERS].decode(errors="replace")
    cut = "…" if len(line) > _EXCERPT_CHARACTERS else ""
    return Malformed(
        code,
        f"{reason} ({excerpt!r}{cut})",
        len(line),
        None if request_id is UNSET else request_id,
        reply_id,
    )


class _Outgoing(msgspec.Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """The tag writes `"jsonrpc":"2.0"` in front."""


class _OutgoingRequest(_Outgoing, frozen=True, tag="2.0"):
    id: RequestId
    method: str
    params: object = UNSET


class OutgoingNotification(_Outgoing, frozen=True, tag="2.0"):
    method: str
    params: object = UNSET


class _OutgoingResponse(_Outgoing, frozen=True, tag="2.0"):
    id: RequestId
    result: object


class _OutgoingError(_Outgoing, frozen=True, tag="2.0"):
    id: RequestId
    error: ErrorObject


def encode_request(identity: RequestId, method: str, params: object = UNSET) -> bytes:
    return encode(_OutgoingRequest(identity, method, params)) + b"\n"


def encode_notification(method: str, params: object = UNSET) -> bytes:
    return encode(OutgoingNotification(method, params)) + b"\n"


def encode_response(identity: RequestId, result: object) -> bytes:
    return encode(_OutgoingResponse(identity, result)) + b"\n"


def encode_error(identity: RequestId, error: ErrorObject) -> bytes:
    return encode(_OutgoingError(identity, error)) + b"\n"
