"""A receiver that writes down what it is given, and lets a test wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.jsonrpc import Incoming, Notification, Peer, RpcReply, RpcResponse

__all__ = ["DEADLINE_SECONDS", "Recorder"]

DEADLINE_SECONDS = 20


class Recorder:
    """Everything in the order it came, in `events`; `until` waits until they satisfy a test."""

    def __init__(self, *, answer: bool = False) -> None:
        self._answer = answer
        self._changed = asyncio.Event()
        self.events: list[tuple[str, object]] = []
        self.incoming: list[Incoming] = []
        self.peer: Peer | None = None

    def connected(self, peer: Peer) -> None:
        self.peer = peer
        self._note("connected", None)

    def request(self, incoming: Incoming) -> None:
        self.incoming.append(incoming)
        self._note("request", incoming.method)
        if self._answer:
            incoming.reply({"echo": incoming.method})

    def notification(self, notification: Notification) -> None:
        self._note("notification", (notification.method, notification.params))

    def replied(self, reply: RpcReply) -> None:
        """To be given to `call`."""
        self._note("reply", reply.result if isinstance(reply, RpcResponse) else type(reply).__name__)

    def closed(self, reason: str) -> None:
        self._note("closed", reason)

    def of(self, kind: str) -> list[object]:
        return [value for name, value in self.events if name == kind]

    @property
    def kinds(self) -> list[str]:
        return [name for name, _ in self.events]

    async def until(self, satisfied: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not satisfied():
                self._changed.clear()
                await self._changed.wait()

    async def until_count(self, kind: str, number: int) -> None:
        await self.until(lambda: len(self.of(kind)) >= number)

    def _note(self, kind: str, value: object) -> None:
        self.events.append((kind, value))
        self._changed.set()
