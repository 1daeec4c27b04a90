"""What the demo agent sees in a picture: the colours of its stripes, from top to bottom.

That is all that a script can see. It reads the plainest PNG there is: 8 bits a channel, RGB, without filters.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import groupby

__all__ = ["stripes"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Bit depth, colour type RGB, and the only compression, filter method and no interlacing.
_PLAIN = (8, 2, 0, 0, 0)
_CHANNELS = 3
# Unpacked: a picture of a thousand by a thousand pixels. What is larger is not looked at.
_MAX_BYTES = 3_001_000
_COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}


def stripes(png: bytes) -> tuple[str, ...]:
    """The colours down its left edge, each once in a row; none if the picture cannot be read."""
    try:
        return tuple(name for name, _ in groupby(_edge(png)))
    except (struct.error, zlib.error, ValueError, KeyError):
        return ()


def _edge(png: bytes) -> Iterator[str]:
    if not png.startswith(_SIGNATURE):
        raise ValueError("no PNG")
    chunks = [*_chunks(png[len(_SIGNATURE) :])]
    width, height, *form = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
    row = 1 + _CHANNELS * width
    if tuple(form) != _PLAIN or row * height > _MAX_BYTES:
        raise ValueError("not a plain one")
    packed = b"".join(data for kind, data in chunks if kind == b"IDAT")
    pixels = zlib.decompressobj().decompress(packed, row * height)
    for start in range(0, len(pixels) - row + 1, row):
        if pixels[start]:
            raise ValueError("a filter")
        yield _named(pixels[start + 1 : start + 1 + _CHANNELS])


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    while data:
        length, kind = struct.unpack(">I4s", data[:8])
        yield kind, data[8 : 8 + length]
        # Behind the data is a checksum of four bytes.
        data = data[12 + length :]


def _named(pixel: bytes) -> str:
    def distance(name: str) -> int:
        return sum((have - want) ** 2 for have, want in zip(pixel, _COLOURS[name], strict=True))

    return min(_COLOURS, key=distance)
