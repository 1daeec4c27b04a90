"""Server-sent events, as all dialects have them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from model_server.asked import Json, Reply

__all__ = ["Pass", "event", "words"]

# Waits at a gate.
Pass: TypeAlias = Callable[[str], Awaitable[None]]


def event(data: Json, name: str | None = None) -> bytes:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(data)}\n\n".encode()


async def words(reply: Reply, pass_gate: Pass) -> AsyncIterator[str]:
    """What is said, a word at a time, as a model would."""
    for piece in reply.said:
        if isinstance(piece, str):
            for word in piece.split(" "):
                yield f"{word} "
        else:
            await pass_gate(piece.name)
