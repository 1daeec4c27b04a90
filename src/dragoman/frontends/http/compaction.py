"""Compaction: a history in one opaque item.

Only the payload of a request becomes shorter: an agent stores its own context, and an endpoint has its own compaction. So
nothing is summarised or lost: the item holds the packed history, and the server unpacks it when it comes back.

It is not signed. A client can send the same items unpacked, so a forged compaction gains nothing. A signature would need
a key that every server shares which the client uses, and a compaction would not survive a new state folder. What a small
item may unpack to is limited by the request's budget.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

import msgspec

from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.errors import ApiError, bad_request, too_deep
from dragoman.lm import JsonObject
from dragoman.lm.json import decode, encode
from dragoman.lm.nesting import NestedTooDeeply

__all__ = ["compacted", "expanded"]

_FORM = "dg1."


def compacted(items: Sequence[JsonObject], budget: Budget) -> str:
    """Pack these items into one. Raise `ApiError` for more than a request could bring back."""
    data = encode(list(items))
    budget.spend(data, "input")
    return _FORM + base64.urlsafe_b64encode(zlib.compress(data, 9)).decode()


def expanded(content: str, where: str, budget: Budget) -> list[JsonObject]:
    """Unpack the items of a compaction. All compactions of a request share its budget."""
    form, packed = content[: len(_FORM)], content[len(_FORM) :]
    if form != _FORM:
        raise _unreadable(where)
    try:
        data = budget.unpack(base64.urlsafe_b64decode(packed), where)
        items = msgspec.convert(decode(data), list[JsonObject])
    except NestedTooDeeply as error:
        raise too_deep(error, where) from None
    except (zlib.error, binascii.Error, ValueError, msgspec.MsgspecError):
        raise _unreadable(where) from None
    # The server never packs a compaction into another, so a nested one is forged.
    if any(item.get("type") == "compaction" for item in items):
        raise _unreadable(where)
    return items


def _unreadable(where: str) -> ApiError:
    return bad_request(
        "This compaction is not one of ours, or it is damaged.", param=where, code="invalid_compaction"
    )
