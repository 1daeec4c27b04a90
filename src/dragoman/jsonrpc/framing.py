"""Bytes in any pieces, back into the lines they were.

Line breaks are LF or CRLF; empty lines are nobody's message. A line longer than the limit is not kept: its bytes are
counted and thrown away until it ends, and an `Oversized` stands in its place, so that the line after it is served.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = ["MAX_MESSAGE_BYTES", "Line", "LineSplitter", "Oversized"]

# Room for a long history with some screenshots, in base64. Beyond it something is wrong on the other side, and memory
# for it would be taken from everybody else.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class Oversized(msgspec.Struct, frozen=True):
    """A line that was too long, and how long it was."""

    size: int


Line: TypeAlias = bytes | Oversized


class LineSplitter:
    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        # The beginning of a line whose end has not come yet. A bytearray, so that a line in a million pieces costs no
        # more than in one.
        self._begun = bytearray()
        # Bytes of the present line that were thrown away; 0 while it is not too long.
        self._discarded = 0

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes."""
        pieces = data.split(b"\n")
        rest = pieces.pop()
        lines: list[Line] = []
        for piece in pieces:
            # Nearly every line comes whole and is no longer than the limit.
            is_whole = not self._begun and not self._discarded and len(piece) <= self._limit
            line = piece if is_whole and piece[-1:] == b"}" else self._completed(piece)
            if line:
                lines.append(line)
        if rest:
            self._begin(rest)
        return lines

    def end(self) -> list[Line]:
        """What is left when no more comes: a last line may lack its line break."""
        line = self._completed(b"")
        return [line] if line else []

    @property
    def buffered(self) -> int:
        """Bytes held for a line that is not complete."""
        return len(self._begun)

    def _begin(self, piece: bytes) -> None:
        if self._discarded:
            self._discarded += len(piece)
        elif len(self._begun) + len(piece) > self._limit:
            self._discarded = len(self._begun) + len(piece)
            self._begun = bytearray()
        else:
            self._begun += piece

    def _completed(self, piece: bytes) -> Line | None:
        """The line that ends with `piece`; nothing when it is empty."""
        if self._begun or self._discarded:
            self._begin(piece)
            if self._discarded:
                size, self._discarded = self._discarded, 0
                return Oversized(size)
            piece = bytes(self._begun)
            self._begun = bytearray()
        elif len(piece) > self._limit:
            return Oversized(len(piece))
        if piece[-1:] == b"\r":
            piece = piece[:-1]
        return None if not piece or piece.isspace() else piece
