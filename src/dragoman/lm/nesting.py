"""How deep JSON may be nested, counted without decoding it.

Many functions call themselves for every level of a value: decoders, encoders, schema checks, what a question shows. Python
ends them with a `RecursionError` after about a thousand calls, and earlier when the stack is in use already. So every JSON
text is measured where it comes in, and nothing behind that place sees a value that is too deep. Counting is a scan over
bytes that calls no function for a level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

import msgspec

__all__ = [
    "INPUT_LEVELS",
    "MOST_LEVELS",
    "NestedTooDeeply",
    "check_levels",
    "envelope_of",
    "is_deeper",
    "place_of",
]

# Levels of objects and arrays in one JSON text. Programs write about ten, a large JSON schema has thirty. Schema checks
# take the most stack, about six calls for each level: at this limit they stay below Python's thousand.
MOST_LEVELS = 128
# Levels of the input of a tool call. It comes back inside larger texts, in a history or a stored conversation, which must
# not become too deep by that.
INPUT_LEVELS = MOST_LEVELS // 2

# How many steps of the path to a value an error names.
_NAMED_STEPS = 3
_STRING = re.compile(rb'"[^"]*+"?')
_ALL_ELSE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEP = [1 if byte in b"[{" else -1 for byte in range(256)]
# A string, with the colon behind it if it is the name of a field; or a character that structures the text.
_TOKEN = re.compile(rb'"((?:[^"\\]++|\\.)*+)"\s*+(:)?|[\[\]{},]', re.DOTALL)


class NestedTooDeeply(msgspec.DecodeError):
    """A JSON text has more levels than are read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it is nested more than {most} levels deep")


def check_levels(data: bytes, most: int = MOST_LEVELS) -> None:
    """Raise `NestedTooDeeply` for a text that has more levels."""
    if is_deeper(data, most):
        raise NestedTooDeeply(most)


def is_deeper(data: bytes, most: int = MOST_LEVELS) -> bool:
    """Whether a JSON text has more levels of objects and arrays. What is no JSON has some number of them, or none."""
    # True of nearly every text, and as fast as memory.
    if data.count(b"[") + data.count(b"{") <= most:
        return False
    # Without escapes, a quote is always the beginning or the end of a string.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    # Two quotes beside each other change nothing for what stands behind them.
    marks = plain.translate(None, _ALL_ELSE).replace(b'""', b"")
    brackets = _STRING.sub(b"", marks)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > most


def place_of(data: bytes, most: int = MOST_LEVELS) -> str:
    """The beginning of the path to the first value that is too deep: `input[3].arguments`."""
    # Of each open object the name of its current field, of each open array the current index.
    path: list[str | int] = []
    for token in _TOKEN.finditer(data):
        match token[0][:1]:
            case b"{" | b"[" as opening:
                if len(path) >= most:
                    break
                path.append(0 if opening == b"[" else "")
            case b"}" | b"]":
                del path[-1:]
            case b",":
                if path and isinstance(path[-1], int):
                    path[-1] += 1
            case _:
                if path and token[2]:
                    path[-1] = token[1].decode(errors="replace")
    named = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path[:_NAMED_STEPS])
    return named.removeprefix(".")


def envelope_of(data: bytes) -> bytes:
    """The outermost object of a JSON text, with null in place of every object and array in it."""
    return b"".join(_outermost(data))


def _outermost(data: bytes) -> Iterator[bytes]:
    level = start = 0
    for token in _TOKEN.finditer(data):
        match token[0][:1]:
            case b"{" | b"[":
                if level == 1:
                    yield data[start : token.start()] + b"null"
                level += 1
            case b"}" | b"]":
                level -= 1
                if level == 1:
                    start = token.end()
            case _:
                pass
    if level <= 1:
        yield data[start:]
