"""What a target is, and what several of them say of what they are given out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias
from unicodedata import category

import msgspec

from dragoman.lm.json import decode

__all__ = ["Check", "Target", "json_of", "obeyed", "pieces"]

Check: TypeAlias = Callable[[bytes], None]
# What a check needs is there while it is open.
Target: TypeAlias = Callable[[], AbstractContextManager[Check]]

_OBEYED = frozenset({"Cc", "Cs"})


def pieces(data: bytes) -> Iterator[bytes]:
    """The same bytes, cut in places that depend on nothing but them."""
    start, size = 0, 1
    while start < len(data):
        yield data[start : start + size]
        start, size = start + size, 1 + data[start] % 7


def json_of(data: bytes) -> object:
    """What a JSON text stands for; itself, where it is nested so deeply that nobody reads it."""
    try:
        return decode(data)
    except msgspec.DecodeError:
        return data


def obeyed(text: str) -> list[str]:
    """What of a text a terminal would do instead of showing it."""
    return [each for each in text if category(each) in _OBEYED and each not in "\n\t"]
