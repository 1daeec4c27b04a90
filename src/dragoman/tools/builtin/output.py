"""The beginning and the end of a long output, without its middle."""

from __future__ import annotations

__all__ = ["HeadAndTail"]


class HeadAndTail:
    """Buffers the first and the last `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def receive(self, data: bytes) -> None:
        room = self._limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Not at every piece: deleting from the front moves all the rest.
        if len(self._tail) > 2 * self._limit:
            self._trim()

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._limit)
        del self._tail[:excess]
        self._dropped += excess

    def text(self) -> str:
        """The buffered output, with a line where something is missing."""
        self._trim()
        if not self._dropped:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        return (
            f"{head}\n[{self._dropped:,} bytes are left out here. To see them, send the output to a file"
            f" and read that.]\n{tail}"
        )
