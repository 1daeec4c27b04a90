"""What both transports share: how large a message may be, how it is read, and how to wait for those who leave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from dragoman.backends.agent.toolserver import content
from dragoman.jsonrpc.messages import INVALID_REQUEST, Malformed, Message, Request, parse
from dragoman.lm import JsonObject, json

__all__ = [
    "MAX_BATCH",
    "MAX_CONNECTIONS",
    "MAX_MESSAGE_BYTES",
    "Group",
    "as_batch",
    "failed_call",
    "read_messages",
]

# Room for the largest file an agent would pass through a tool, several times over.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# For one conversation, over either transport. An agent needs one; some connect anew with every prompt and leave the old
# ones behind.
MAX_CONNECTIONS = 64
# Messages at once. What they are answered with may be a thousand times their size.
MAX_BATCH = 128

_T = TypeVar("_T")


class Group(Generic[_T]):
    """A set that can be waited for until nobody is left in it."""

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
        """Over those who are here now, whoever comes or goes meanwhile."""
        return iter(tuple(self._members))

    async def until_empty(self, seconds: float) -> None:
        """Wait, but no longer than that."""
        if not self._members:
            return
        self._emptied = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._emptied,), timeout=seconds)


def read_messages(body: bytes, *, takes_batches: bool) -> Message | list[Message] | Malformed:
    """The message, or those of a batch. One that cannot be read spoils them all."""
    body = _mended(body)
    if not takes_batches or not body.lstrip().startswith(b"["):
        return _read(body)
    try:
        batch = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return _read(body)
    if not 0 < len(batch) <= MAX_BATCH:
        return Malformed(INVALID_REQUEST, f"a batch of {len(batch)} messages", len(body))
    messages: list[Message] = []
    for each in batch:
        message = _read(bytes(each))
        if isinstance(message, Malformed):
            return message
        messages.append(message)
    return messages


def failed_call(message: Malformed) -> JsonObject | None:
    """The result of a tool call whose params cannot be read; None if the message is no tool call."""
    if message.method != "tools/call" or message.request_id is None:
        return None
    return content.failure(f"This call cannot be read: {message.reason}.")


def as_batch(answers: list[bytes]) -> bytes:
    """One line for the lines of JSON that answer a batch."""
    return b"[" + b",".join(answer.rstrip(b"\n") for answer in answers) + b"]\n"


def _read(body: bytes) -> Message | Malformed:
    message = parse(body)
    if isinstance(message, Request) and message.id is None:
        # "Unlike base JSON-RPC, the ID MUST NOT be null".
        return Malformed(INVALID_REQUEST, "a request whose id is null", len(body))
    return message


def _mended(message: bytes) -> bytes:
    """A JSON message without halves of surrogate pairs, which a parser refuses or hands on.

    An agent in JavaScript that cuts a model's text in the middle of an emoji sends such a half.
    """
    if b"\\ud" not in message and b"\\uD" not in message:
        return message
    try:
        return json.encode(json.decode(message))
    except (msgspec.DecodeError, RecursionError):
        return message
