"""A picture for a model to describe: three stripes in random colours, so that a right answer proves that it was seen."""

from __future__ import annotations

import re
import secrets
import struct
import zlib
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

__all__ = ["QUESTION", "Stripes", "StripesSeen"]

_COLOURS = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 40, 220),
    "yellow": (250, 220, 20),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}
# Guessed right once in 120 times.
_COUNT = 3
# In pixels. Some providers refuse pictures that are smaller than a few dozen.
_WIDTH = 192
_STRIPE_HEIGHT = 64
QUESTION = (
    "This checks whether pictures reach you. The picture has three horizontal stripes, each in one colour out of"
    f" {', '.join(_COLOURS)}. Answer with the three colours from top to bottom and nothing else."
    " If you see no picture, say so. Use no tools."
)
_NAMED = re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b", re.IGNORECASE)
_OF_PICTURES = re.compile(r"\b(?:pictures?|images?|see|attach\w*|vision)\b", re.IGNORECASE)

StripesSeen: TypeAlias = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Stripes:
    colours: tuple[str, ...]

    @classmethod
    def random(cls) -> Self:
        return cls(tuple(secrets.SystemRandom().sample(tuple(_COLOURS), _COUNT)))

    @property
    def png(self) -> bytes:
        """8 bits a channel, RGB, no filter: https://www.w3.org/TR/png/"""
        rows = b"".join(
            (b"\0" + bytes(_COLOURS[colour]) * _WIDTH) * _STRIPE_HEIGHT for colour in self.colours
        )
        header = struct.pack(">IIBBBBB", _WIDTH, _STRIPE_HEIGHT * len(self.colours), 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)

    def seen(self, answer: str) -> StripesSeen:
        """Whether an answer to `QUESTION` shows that the picture was seen."""
        named = tuple(colour.lower() for colour in _NAMED.findall(answer))
        if named == self.colours:
            return "yes"
        if not named:
            # "I see no picture" is an answer to the question, "Hello" is not.
            return "no" if _OF_PICTURES.search(answer) else "unknown"
        # The right colours in another order, or among others: the model may have seen the picture.
        return "unknown" if set(self.colours) <= set(named) else "no"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
