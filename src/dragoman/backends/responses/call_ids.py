"""Call ids, towards the consumer and back.

An endpoint's ids may be of any form, and some count from zero in every response. Ours are legal and never occur twice
(stream rule S4), so each is a tag of our own with the endpoint's id behind it: the original is read out of the id when
it comes back, without any stored state. Only an id that does not fit into sixty-four legal characters is cached here,
because some gateways store state in their ids. If the cache has lost it, our id is sent in its place, which also works
for a server that sees the call and its result together.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable

from dragoman.lm.rules import CALL_ID, CALL_ID_LIMIT

__all__ = ["CallIds", "wire_ids"]

_TAG_BYTES = 5
_OURS = re.compile(r"dg_r[a-z2-7]{8}_(.*)", re.DOTALL)
_LEGAL = re.compile(rf"(?!.*__vscode){CALL_ID.pattern}\Z", re.DOTALL)
# What stands for an id that does not fit.
_ELSEWHERE = "0"
# Several long conversations of calls with such ids.
_REMEMBERED = 4_096
# Beyond this an id is a fault, not an id.
_LONGEST = 16_384


def _random_tag() -> str:
    return base64.b32encode(secrets.token_bytes(_TAG_BYTES)).decode().lower()


class CallIds:
    """Issues ids for the calls of one endpoint's model, and knows what they stand for."""

    def __init__(self, tag: Callable[[], str] = _random_tag) -> None:
        self._tag = tag
        self._unfit: OrderedDict[str, str] = OrderedDict()

    def issue(self, wire_id: str) -> str:
        """A new id for a call that the endpoint calls `wire_id`."""
        prefix = f"dg_r{self._tag()}_"
        call_id = prefix + wire_id
        if len(call_id) <= CALL_ID_LIMIT and _LEGAL.match(call_id) and wire_id != _ELSEWHERE:
            return call_id
        call_id = prefix + _ELSEWHERE
        if len(wire_id) <= _LONGEST:
            self._unfit[call_id] = wire_id
            while len(self._unfit) > _REMEMBERED:
                self._unfit.popitem(last=False)
        return call_id

    def original(self, call_id: str) -> str | None:
        """The endpoint's own id for a call; None for an id that is not ours, or is no longer cached."""
        found = _OURS.fullmatch(call_id)
        if found is None:
            return None
        return self._unfit.get(call_id) if found[1] == _ELSEWHERE else found[1]


def wire_ids(call_ids: Iterable[str], original: Callable[[str], str | None]) -> dict[str, str]:
    """How each of a history's ids is sent: its original, else itself, and never two of them alike.

    An id depends only on those before it, so that a history that grows is sent with the same beginning.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for number, call_id in enumerate(dict.fromkeys(call_ids)):
        candidates = (original(call_id), call_id if _is_sendable(call_id) else None)
        names[call_id] = next(
            (each for each in candidates if each and each not in taken), f"call_dragoman_{number}"
        )
        taken.add(names[call_id])
    return names


def _is_sendable(call_id: str) -> bool:
    return len(call_id) <= CALL_ID_LIMIT and CALL_ID.fullmatch(call_id) is not None
