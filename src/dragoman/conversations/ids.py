r"""The names we give to things that leave us and come back: markers and call ids.

Both say which conversation they belong to, so they must not be guessed or carried from one conversation into another.
Each is authenticated with a key that never leaves the machine; what does not verify is foreign, and is ignored.

A marker is the payload of a `stateful_marker` data part. VS Code gives those bytes back only in the form
`modelId\marker` and cuts the marker at the next backslash, so it is base64url. A call id has at most 64 characters of
`[A-Za-z0-9_-]`; ours are lower-case base 32 between single underscores, so none can contain `__vscode`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from dragoman.lm.parts import STATEFUL_MARKER, DataPart

__all__ = [
    "CONVERSATION_ID",
    "KEY_BYTES",
    "CallName",
    "IdSigner",
    "MarkerName",
    "conversation_in_call_id",
    "conversation_in_marker",
    "new_conversation_id",
]

KEY_BYTES = 32
# Enough that two conversations never share one, short enough for a call id.
_CONVERSATION_BYTES = 10
CONVERSATION_ID = re.compile(r"[a-z2-7]{16}")
_CALL_ID = re.compile(rf"dg_({CONVERSATION_ID.pattern})_([0-9]{{1,9}})_([a-z2-7]{{16}})")
_MARKER = re.compile(rf"({CONVERSATION_ID.pattern})\.([0-9]{{1,9}})\.([0-9]{{1,9}})")
_MAC_BYTES = 10
_MARKER_MAC_BYTES = 16
# Longer than any marker of ours: what exceeds it is not worth decoding.
_MARKER_LIMIT = 256


def new_conversation_id() -> str:
    return _base32(secrets.token_bytes(_CONVERSATION_BYTES))


@dataclass(frozen=True, slots=True)
class MarkerName:
    """Where in a conversation a response stands."""

    conversation: str
    turn: int
    response: int


@dataclass(frozen=True, slots=True)
class CallName:
    conversation: str
    number: int


class IdSigner:
    """Issues and verifies markers and call ids with one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes, not {len(key)}")
        self._key = key

    def call_id(self, name: CallName) -> str:
        return f"dg_{name.conversation}_{name.number}_{self._call_mac(name)}"

    def read_call_id(self, call_id: str) -> CallName | None:
        """The name a call id carries, or None if we did not issue it."""
        found = _CALL_ID.fullmatch(call_id)
        if found is None:
            return None
        name = CallName(found[1], int(found[2]))
        # The whole of it, so that no other spelling of the number passes.
        return name if hmac.compare_digest(call_id, self.call_id(name)) else None

    def marker(self, model_id: str, name: MarkerName) -> DataPart:
        payload = f"{name.conversation}.{name.turn}.{name.response}".encode()
        signed = base64.urlsafe_b64encode(payload + self._mac(b"marker", payload)[:_MARKER_MAC_BYTES]).rstrip(
            b"="
        )
        return DataPart(STATEFUL_MARKER, model_id.encode() + b"\\" + signed)

    def read_marker(self, part: DataPart) -> MarkerName | None:
        """The name a marker carries, whatever model it was given to; None if it is not ours."""
        payload, mac = _taken_apart(part)
        if not hmac.compare_digest(mac, self._mac(b"marker", payload)[:_MARKER_MAC_BYTES]):
            return None
        named = _MARKER.fullmatch(payload.decode("ascii", "replace"))
        return MarkerName(named[1], int(named[2]), int(named[3])) if named else None

    def _call_mac(self, name: CallName) -> str:
        return _base32(self._mac(b"call", f"{name.conversation}_{name.number}".encode())[:_MAC_BYTES])

    def _mac(self, purpose: bytes, payload: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b"\0" + payload, hashlib.sha256)


def conversation_in_marker(part: DataPart) -> str | None:
    """The conversation that a marker names, whoever made it: for who has no key, and only looks for it."""
    named = _MARKER.fullmatch(_taken_apart(part)[0].decode("ascii", "replace"))
    return named[1] if named else None


def conversation_in_call_id(call_id: str) -> str | None:
    """The conversation that a call id names, whoever made it."""
    found = _CALL_ID.fullmatch(call_id)
    return found[1] if found else None


def _taken_apart(part: DataPart) -> tuple[bytes, bytes]:
    """The payload and the signature of a marker; both are empty if it is none."""
    _, found, token = part.data.rpartition(b"\\")
    if part.mime_type != STATEFUL_MARKER or not found or len(token) > _MARKER_LIMIT:
        return b"", b""
    try:
        signed = base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        return b"", b""
    return signed[:-_MARKER_MAC_BYTES], signed[-_MARKER_MAC_BYTES:]


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().lower()
