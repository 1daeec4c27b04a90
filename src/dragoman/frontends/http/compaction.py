"""Compaction: a history in one opaque item.

An agent keeps its own context, and an endpoint has its own compaction; what is made short here is what travels. So nothing
is summarised and nothing is lost: the item holds the history packed, and is unpacked when it comes back.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

import msgspec

from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.lm import JsonObject
from dragoman.lm.json import decode, encode

__all__ = ["compacted", "expanded"]

_FORM = "dg1."
# As much as a request may bring unpacked: a small item may be a large history, but not any.
_UNPACKED_LIMIT = 64 * 1024 * 1024


def compacted(items: Sequence[JsonObject]) -> str:
    return _FORM + base64.urlsafe_b64encode(zlib.compress(encode(list(items)), 9)).decode()


def expanded(content: str, where: str) -> list[JsonObject]:
    form, packed = content[: len(_FORM)], content[len(_FORM) :]
    if form != _FORM:
        raise _unreadable(where)
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.urlsafe_b64decode(packed), _UNPACKED_LIMIT)
        if not unpacking.eof:
            raise _unreadable(where)
        items = msgspec.convert(decode(data), list[JsonObject])
    except (zlib.error, binascii.Error, ValueError, msgspec.MsgspecError):
        raise _unreadable(where) from None
    # One inside another was unpacked when it was packed: another layer is a trap.
    if any(item.get("type") == "compaction" for item in items):
        raise _unreadable(where)
    return items


def _unreadable(where: str) -> ApiError:
    return bad_request(
        "This compaction is not one of ours, or it is damaged.", param=where, code="invalid_compaction"
    )
