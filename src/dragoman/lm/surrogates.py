r"""Halves of surrogate pairs in text: joined where both are there, U+FFFD where one is missing.

A program that keeps text as UTF-16 and cuts it into chunks sometimes cuts an emoji in two. Each half is sent as an
escape that stands for no character: `"\ud83d"` here, `"\ude00"` in the next chunk. Strict JSON decoders reject such a
text as a whole. Python also makes single halves: of the bytes of a file's name that is not UTF-8.
"""

from __future__ import annotations

import re

__all__ = ["SurrogateJoiner", "mended", "mended_json", "mended_value"]

_REPLACEMENT = "\ufffd"
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_HIGH_HALF = re.compile("[\ud800-\udbff]")
# The escapes of a JSON text, one by one, a surrogate pair as one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def mended(text: str) -> str:
    """The text with every pair of halves as the one character they are, and every single half as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _HALVES.sub(_mend, text)
    return text


def _mend(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return _REPLACEMENT
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def mended_value(value: object) -> object:
    """A builtin value with all its strings mended."""
    match value:
        case str():
            return mended(value)
        case list() | tuple():
            return [mended_value(item) for item in value]
        case dict():
            return {mended_value(key): mended_value(item) for key, item in value.items()}
        case _:
            return value


def mended_json(data: bytes) -> bytes:
    """The same JSON text with U+FFFD for every escape that is half of a pair."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], data)


class SurrogateJoiner:
    """Text that arrives in chunks, one of these for each stream.

    A high half at the end of a chunk is held back for the next one, which may begin with the low half. When something
    other than text comes next, or nothing does, `end` gives back what is held, as U+FFFD.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, chunk: str) -> str:
        if not chunk:
            return ""
        if chunk.isascii() and not self._held:
            return chunk
        text = self._held + chunk
        self._held = ""
        if _HIGH_HALF.match(text, len(text) - 1):
            text, self._held = text[:-1], text[-1]
        return mended(text)

    def end(self) -> str:
        held, self._held = self._held, ""
        return mended(held)
