"""Limits on the size of one request, packed and unpacked. Values in, values out.

A body has a limit in bytes, and a few bytes of JSON can become a large object: 64 MB of `{},{},…` take 3 GB of memory
and 18 seconds. So the number of JSON values is limited as well, and counted before anything is decoded. What is packed
in a request counts with its unpacked size: all its compactions, and the JSON texts that are the arguments of calls, share
one budget. The stored items that it refers to have another one.
"""

from __future__ import annotations

import re
import zlib
from itertools import islice

from dragoman.frontends.http.errors import ApiError

__all__ = ["MOST_VALUES", "Budget", "check_values", "values_in"]

# JSON values in one request. A history of 20,000 items, each with its text in a part, has 140,000.
MOST_VALUES = 400_000
# All that stands before the next value, with the character that begins it. It matches everywhere, so that a scan is
# linear. Escaped quotes are removed before.
_VALUE = re.compile(rb'(?:"[^"]*+"?|[^"\[{,]++)*+[\[{,]?')


class Budget:
    """The remaining bytes and JSON values for the compactions and arguments of one request, or for its references."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = most_bytes
        self._values = MOST_VALUES

    def unpack(self, packed: bytes, where: str) -> bytes:
        """Decompress, as far as the budget goes. Raises `zlib.error` for damaged data and `ApiError` beyond the budget."""
        unpacking = zlib.decompressobj()
        # One byte more than is left shows that there is more.
        data = unpacking.decompress(packed, self._bytes + 1)
        self.spend(data, where)
        if not unpacking.eof:
            raise zlib.error("cut off")
        return data

    def spend(self, data: bytes, where: str) -> None:
        """Count the JSON of a compaction, or of an item that is referred to. Raises `ApiError` beyond the budget."""
        if len(data) > self._bytes:
            packed = "The compactions, or the references, of a request"
            raise _too_large(f"{packed} hold at most {self._most_bytes:,} bytes.", where)
        self.count(data, where)
        self._bytes -= len(data)

    def count(self, text: bytes, where: str) -> None:
        """Count the values of a JSON text that is about to be decoded. Raises `ApiError` beyond the budget."""
        values = values_in(text, self._values)
        if values > self._values:
            packed = "The compactions and arguments, or the references, of a request"
            raise _too_large(f"{packed} hold at most {MOST_VALUES:,} JSON values.", where)
        self._values -= values


def check_values(body: bytes) -> None:
    """Raise `ApiError` for a body with too many JSON values."""
    # Each value but the first follows one of these characters. Most bodies need no closer look.
    at_most = 1 + body.count(b",") + body.count(b"[") + body.count(b"{")
    if at_most > MOST_VALUES and values_in(body, MOST_VALUES) > MOST_VALUES:
        raise _too_large(f"The body has more than {MOST_VALUES:,} JSON values.", None)


def values_in(data: bytes, most: int) -> int:
    """The number of values in a JSON text, found without decoding it. Counting stops at one more than `most`."""
    # Without escapes, a quote is always the beginning or the end of a string.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return sum(1 for _ in islice(_VALUE.finditer(plain), most + 1))


def _too_large(message: str, where: str | None) -> ApiError:
    return ApiError(413, "invalid_request", message, code="body_too_large", param=where)
