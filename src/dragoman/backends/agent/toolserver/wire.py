"""Shared parts of both transports: limits, decoding of messages, and a set that can be awaited until empty."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Generic, TypeVar

from dragoman.backends.agent.toolserver import content
from dragoman.jsonrpc.messages import INVALID_REQUEST, Malformed, RpcMessage, RpcRequest, parse
from dragoman.lm import JsonObject
from dragoman.lm.surrogates import mended_json

__all__ = [
    "MAX_CONNECTIONS",
    "MAX_MESSAGE_BYTES",
    "WaitableSet",
    "failed_call",
    "read_message",
]

# Room for the largest file an agent would pass through a tool, several times over.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# For one conversation, over either transport. An agent needs one; some connect again with every prompt and leave the old
# ones behind.
MAX_CONNECTIONS = 64

_T = TypeVar("_T")


class WaitableSet(Generic[_T]):
    """A set that can be awaited until it is empty."""

    __slots__ = ("_emptied", "_members")

    def __init__(self) -> None:
        self._members: set[_T] = set()
        self._emptied: asyncio.Future[None] | None = None

    def add(self, member: _T) -> None:
        self._members.add(member)

    def discard(self, member: _T) -> None:
        self._members.discard(member)
        if not self._members and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[_T]:
        """Iterate over a snapshot of the members."""
        return iter(tuple(self._members))

    async def until_empty(self, seconds: float) -> None:
        """Wait until the set is empty, at most so long."""
        if not self._members:
            return
        self._emptied = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._emptied,), timeout=seconds)


def read_message(body: bytes) -> RpcMessage | Malformed:
    """One JSON-RPC message. A batch is malformed, also for a client of the revisions 2024-11-05 and 2025-03-26.

    Those allow batches and later ones do not. No agent that we know sends them, nor do the official MCP libraries.
    """
    message = parse(mended_json(body))
    if isinstance(message, RpcRequest) and message.id is None:
        # "Unlike base JSON-RPC, the ID MUST NOT be null".
        return Malformed(INVALID_REQUEST, "a request whose id is null", len(body))
    return message


def failed_call(message: Malformed) -> JsonObject | None:
    """The result of a tool call whose params cannot be read; None if the message is no tool call."""
    if message.method != "tools/call" or message.request_id is None:
        return None
    return content.failure(f"This call cannot be read: {message.reason}.")
