"""The names of what a request asked for, or contained, and did not get. Values in, values out.

Some are known before the model has the request, others only when the model has it. The metadata of a response has all.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.lm import DataPart, JsonObject

__all__ = ["IGNORED_KEY", "METADATA_LENGTH", "names_of", "printable", "with_ignored"]

# The key of a response's metadata that names the ignored fields.
IGNORED_KEY = "dragoman.ignored"
METADATA_LENGTH = 512
_HEADER_LENGTH = 2_000


def names_of(part: DataPart) -> list[str]:
    """The names in a report of the model."""
    return msgspec.json.decode(part.data, type=list[str])


def with_ignored(metadata: JsonObject, names: Iterable[str]) -> JsonObject:
    """Return the metadata of a response with these names added, each once."""
    known = metadata.get(IGNORED_KEY)
    named = dict.fromkeys([*(known.split(", ") if isinstance(known, str) and known else ()), *names])
    return {**metadata, IGNORED_KEY: ", ".join(named)[:METADATA_LENGTH]} if named else metadata


def printable(names: Iterable[str]) -> str:
    """The names for a header. The client chose them: a character that is not printable ASCII becomes a question mark."""
    named = ", ".join(dict.fromkeys(names))[:_HEADER_LENGTH]
    return "".join(char if " " <= char <= "~" else "?" for char in named)
