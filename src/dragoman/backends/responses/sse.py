"""Server-sent events, from bytes. https://html.spec.whatwg.org/multipage/server-sent-events.html

The network may cut a stream anywhere: in a line break, in a character, in a name. So lines are found in bytes, and
only whole lines are parsed. The data stays bytes: it is JSON, and the caller that decodes it says whether it is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MAX_EVENT_BYTES", "EventTooLarge", "ServerEvent", "SseReader"]

# The last event of a response carries all of it again, and a string in it may have 10 MiB by the specification.
MAX_EVENT_BYTES = 64 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """An event that has not ended when the limit is reached. It may never end."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    data: bytes
    # The `event` field; empty where there was none.
    name: str = ""
    # We never resume a stream from an id; it is stored only so that the checker can report it.
    id: str | None = None


class SseReader:
    """Reads one stream. Ignores comments and unused fields (`retry`, unknown ones)."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._line = bytearray()
        self._name = b""
        self._id: bytes | None = None
        self._data: list[bytes] = []
        # Of the event that has begun, with the line that has.
        self._size = 0
        self._is_first_line = True
        self._ended_with_cr = False

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that `chunk` completes."""
        if not chunk:
            return
        if self._ended_with_cr and chunk.startswith(b"\n"):
            # The other half of a line break that is counted already.
            chunk = chunk[1:]
        self._ended_with_cr = chunk.endswith(b"\r")
        start = 0
        for end in _LINE_END.finditer(chunk):
            self._extend(chunk[start : end.start()])
            start = end.end()
            if (event := self._end_line()) is not None:
                yield event
        self._extend(chunk[start:])

    def end(self) -> ServerEvent | None:
        """The last event, if the stream ended without the empty line after it."""
        if self._line:
            self._end_line()
        return self._dispatch()

    def _extend(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise EventTooLarge(f"an event has more than {self._limit:,} bytes")
        self._line += piece

    def _end_line(self) -> ServerEvent | None:
        line = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        # A line that begins with a colon is a comment: a field without a name.
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id":
            self._id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        data, name, id_ = self._data, self._name, self._id
        self._data, self._name, self._id, self._size = [], b"", None, 0
        if not data:
            return None
        shown = id_.decode("utf-8", "replace") if id_ is not None else None
        return ServerEvent(b"\n".join(data), name.decode("utf-8", "replace"), shown)
