"""What both transports share: how large a message may be, how it is mended, and where it came from."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from dragoman.lm import json

__all__ = ["MAX_CONNECTIONS", "MAX_MESSAGE_BYTES", "Arrival", "mended"]

# Room for the largest file an agent would pass through a tool, several times over.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# For one conversation, over either transport. An agent needs one; some connect anew with every prompt and leave the old
# ones behind.
MAX_CONNECTIONS = 64


def _never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """How a request came to us: on which session, if it has one, and whether anybody still waits for the response."""

    session: object = None
    # Done when the stream that would carry the response is closed.
    gone: asyncio.Future[None] = field(default_factory=_never)


def mended(message: bytes) -> bytes:
    """A JSON message without halves of surrogate pairs, which MCP's parsers refuse or hand on.

    An agent in JavaScript that cuts a model's text in the middle of an emoji sends such a half.
    """
    if b"\\ud" not in message and b"\\uD" not in message:
        return message
    try:
        return json.encode(json.decode(message))
    except msgspec.DecodeError:
        return message
