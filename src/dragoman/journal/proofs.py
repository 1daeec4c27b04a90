"""Events as they may be printed: without the nonces and grants that prove a person's approval."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from dragoman.journal.events import AnyEvent
from dragoman.permissions.action import is_permission_tool
from dragoman.permissions.grants import GRANT_PREFIX

__all__ = ["without_proofs"]

_GRANT = re.compile(rf"{GRANT_PREFIX}[\w-]+")
# In the arguments of a call, which are JSON in a string.
_NONCE = re.compile(r'("nonce":\s*")[^"]*')


_Event = TypeVar("_Event", bound=AnyEvent)


def without_proofs(event: _Event) -> _Event:
    return msgspec.convert(_without(msgspec.to_builtins(event)), type(event))


def _without(value: object) -> object:
    match value:
        case {"name": str() as name, "input": dict() as given, **rest} if is_permission_tool(name):
            shown = {key: each for key, each in given.items() if key != "nonce"}
            return {"name": name, "input": shown, **{key: _without(each) for key, each in rest.items()}}
        case [str() as id_, str() as name, str() as arguments] if is_permission_tool(name):
            return [id_, name, _NONCE.sub(r"\1…", arguments)]
        case dict():
            return {key: _without(each) for key, each in value.items()}
        case list() | tuple():
            return [_without(each) for each in value]
        case str():
            return _GRANT.sub(f"{GRANT_PREFIX}…", value)
        case _:
            return value
