"""Takes one side of a trace: says what that side said, and expects to hear what it heard.

The frames are gone through in their order. One of ours is sent, after as much time as lay before it. One of theirs is
waited for: a reply is the one to the request that the trace has it for, anything else is the next in the order in which it
comes. So it does not matter whether the other side is faster or slower than it was, and the outcome is always the same.

The first frame that is another than in the trace ends it. Every request that is open or comes after that fails, and says why.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from devtools.traces.reading import TraceError, is_reply, is_request, method_of
from devtools.traces.sameness import Names, difference
from dragoman.clock import Clock
from dragoman.jsonrpc import (
    INTERNAL_ERROR,
    ConnectionClosed,
    ErrorResponse,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RequestId,
    RpcReply,
    RpcResponse,
)
from dragoman.jsonrpc.text import loads_tolerantly
from dragoman.lm import JsonObject
from dragoman.lm.json import pretty
from dragoman.traces.frames import Direction, Frame

__all__ = ["OPTIONS", "Difference", "Side", "TracePlayer"]

Side: TypeAlias = Literal["agent", "client"]

# A request that is withdrawn is a frame like any other here.
OPTIONS = PeerOptions(name="trace", cancel_methods=())

_SENDS: Mapping[Side, Direction] = {"agent": "a2c", "client": "c2a"}
_WITHDRAWALS = frozenset({"$/cancel_request"})
# Of a frame, as much as a person reads.
_SHOWN_LINES = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """The first frame that was another than in the trace. Without `expected` the trace was over, without `got` they were."""

    what: str
    number: int
    expected: Frame | None = None
    got: JsonObject | None = None

    def __str__(self) -> str:
        at = f", {self.expected.at:g} s" if self.expected is not None else ""
        expected = None if self.expected is None else self.expected.message or self.expected.text
        return "\n".join(
            (
                f"{self.what} (frame {self.number}{at})",
                "expected:",
                _shown(expected, "nothing more"),
                "got:",
                _shown(self.got, "nothing"),
            )
        )


class TracePlayer:
    """A receiver for one end of a connection, made with `OPTIONS`. Begins to play when it is connected."""

    def __init__(
        self,
        frames: Sequence[Frame],
        plays: Side,
        *,
        clock: Clock | None = None,
        names: Mapping[str, str] | None = None,
        on_awaited: Callable[[Frame], None] | None = None,
        on_asked: Callable[[Incoming], Awaitable[None]] | None = None,
    ) -> None:
        """With a clock, time passes as it did; without one there is none. `names` are what names of the trace are now.

        `on_awaited` is told of each frame that is waited for, for whoever has the other side and must be told what to do.
        `on_asked` is waited for when a request was the expected one: for what this side did then, beside its frames.
        Raises `TraceError` for frames that make no sense together.
        """
        _check(frames)
        self._frames = frames
        self._sends = _SENDS[plays]
        self._clock = clock
        self._names = Names(names)
        self._on_awaited = on_awaited
        self._on_asked = on_asked
        self._peer: Peer | None = None
        self._closed: str | None = None
        self._news = asyncio.Event()
        # What came and was not looked at yet.
        self._asked: deque[Incoming | Notification] = deque()
        self._replies: dict[RequestId, JsonObject] = {}
        # By their ids in the trace: their requests, and the ids of ours.
        self._incoming: dict[RequestId, Incoming] = {}
        self._outgoing: dict[RequestId, RequestId] = {}
        self._playing: asyncio.Task[None] | None = None
        self._outcome: asyncio.Future[Difference | None] = asyncio.get_running_loop().create_future()
        self._difference: Difference | None = None

    async def played(self) -> Difference | None:
        """Until the trace is over, or something else came. What comes after it is seen by `difference`."""
        return await asyncio.shield(self._outcome)

    @property
    def difference(self) -> Difference | None:
        return self._difference

    # As a receiver.

    def connected(self, peer: Peer) -> None:
        self._peer = peer
        self._playing = asyncio.create_task(self._play())

    def request(self, incoming: Incoming) -> None:
        self._arrived(incoming)

    def notification(self, notification: Notification) -> None:
        self._arrived(notification)

    def closed(self, reason: str) -> None:
        self._closed = reason
        self._news.set()

    def _arrived(self, message: Incoming | Notification) -> None:
        if self._difference is None and self._outcome.done():
            self._differ(Difference("the trace is over", len(self._frames), None, _asked(message)))
        if self._difference is None:
            self._asked.append(message)
            self._news.set()
        elif isinstance(message, Incoming):
            message.fail(INTERNAL_ERROR, f"The trace goes on differently: {self._difference.what}")

    # Playing.

    async def _play(self) -> None:
        try:
            await self._through()
        except asyncio.CancelledError:
            self._outcome.cancel()
            raise
        except Exception as error:
            # A mistake of ours, for whoever waits.
            self._outcome.set_exception(error)

    async def _through(self) -> None:
        before = self._frames[0].at if self._frames else 0.0
        for number, frame in enumerate(self._frames, 1):
            if frame.direction == self._sends:
                if self._clock is not None and frame.at > before:
                    await self._clock.sleep(frame.at - before)
                try:
                    self._send(frame)
                except ConnectionClosed as closed:
                    self._differ(Difference(f"the connection ended: {closed.reason}", number, frame))
            elif frame.message is not None:
                # What is no message is not heard by anybody.
                await self._expect(number, frame)
            if self._difference is not None:
                return
            before = frame.at
        if self._asked:
            self._differ(Difference("the trace is over", len(self._frames), None, _asked(self._asked[0])))
        else:
            self._outcome.set_result(None)

    def _send(self, frame: Frame) -> None:
        message, peer = self._renamed(frame.message or {}), self._connection
        identity = _identity(frame)
        if frame.message is None:
            peer.stream.write(f"{frame.text}\n".encode(errors="replace"))
        elif is_request(frame):
            method = method_of(frame) or ""
            self._outgoing[identity] = peer.call(
                method, message.get("params", {}), lambda reply: self._replied(identity, reply)
            )
        elif is_reply(frame):
            incoming = self._incoming.pop(identity)
            match message.get("error"):
                case dict(error):
                    code = error.get("code")
                    code = code if isinstance(code, int) else INTERNAL_ERROR
                    incoming.fail(code, str(error.get("message", "")), error.get("data"))
                case _:
                    incoming.reply(message.get("result"))
        else:
            # As it is: a half of a character is not mended.
            peer.stream.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def _renamed(self, message: JsonObject) -> JsonObject:
        renamed = self._names.renamed(message)
        if not isinstance(renamed, dict):
            raise TypeError("a message is an object")
        if message.get("method") in _WITHDRAWALS and isinstance(params := renamed.get("params"), dict):
            of = params.get("requestId")
            renamed["params"] = {**params, "requestId": self._outgoing.get(of, of)}
        return renamed

    def _replied(self, identity: RequestId, reply: RpcReply) -> None:
        match reply:
            case RpcResponse(result=result):
                self._replies[identity] = {"result": loads_tolerantly(result)}
            case ErrorResponse(error=error):
                told: JsonObject = {"code": error.code, "message": error.message}
                self._replies[identity] = {
                    "error": told if error.data is None else {**told, "data": error.data}
                }
            case ConnectionClosed():
                return
        self._news.set()

    async def _expect(self, number: int, frame: Frame) -> None:
        if self._on_awaited is not None:
            self._on_awaited(frame)
        while not self._is_here(frame):
            if self._closed is not None:
                self._differ(Difference(f"the connection ended: {self._closed}", number, frame))
                return
            self._news.clear()
            await self._news.wait()
        identity = _identity(frame)
        if is_reply(frame):
            got = self._replies.pop(identity)
        else:
            message = self._asked.popleft()
            got = _asked(message)
            if isinstance(message, Incoming):
                self._incoming[identity] = message
        found = self._compared(frame, got)
        if found is not None:
            self._differ(Difference(found, number, frame, got))
        elif self._on_asked is not None and identity in self._incoming and is_request(frame):
            await self._on_asked(self._incoming[identity])

    def _is_here(self, frame: Frame) -> bool:
        return _identity(frame) in self._replies if is_reply(frame) else bool(self._asked)

    def _compared(self, frame: Frame, got: JsonObject) -> str | None:
        expected = {
            key: value for key, value in (frame.message or {}).items() if key not in ("jsonrpc", "id")
        }
        if method_of(frame) is None:
            return difference(expected, got, self._names)
        # Null and nothing are the same as an empty object there.
        expected["params"] = expected.get("params") or {}
        said = {key: value for key, value in got.items() if key != "id"}
        if method_of(frame) in _WITHDRAWALS:
            # It has an id, and nothing else.
            expected["params"], said["params"] = {}, {}
        found = difference(expected, said, self._names)
        if found is None and is_request(frame) != ("id" in got):
            return f"{method_of(frame)} is {'no request' if is_request(frame) else 'a request'}"
        return found

    def _differ(self, found: Difference) -> None:
        self._difference = found
        for incoming in (*self._incoming.values(), *self._asked):
            if isinstance(incoming, Incoming) and not incoming.answered:
                incoming.fail(INTERNAL_ERROR, f"The trace goes on differently: {found.what}")
        if not self._outcome.done():
            self._outcome.set_result(found)

    @property
    def _connection(self) -> Peer:
        if self._peer is None:
            raise AssertionError("not connected")
        return self._peer


def _asked(message: Incoming | Notification) -> JsonObject:
    asked: JsonObject = {"method": message.method, "params": loads_tolerantly(message.params)}
    return {"id": message.id, **asked} if isinstance(message, Incoming) else asked


def _identity(frame: Frame) -> RequestId:
    identity = (frame.message or {}).get("id")
    return identity if isinstance(identity, int | str) else None


def _check(frames: Sequence[Frame]) -> None:
    """Every reply is one to a request before it."""
    open_: set[tuple[Direction, RequestId]] = set()
    for number, frame in enumerate(frames, 1):
        other: Direction = "a2c" if frame.direction == "c2a" else "c2a"
        if is_request(frame):
            open_.add((frame.direction, _identity(frame)))
        elif is_reply(frame):
            if (other, _identity(frame)) not in open_:
                raise TraceError(
                    f"frame {number} answers a request that is not in the trace, or was answered before"
                )
            open_.discard((other, _identity(frame)))


def _shown(value: object, nothing: str) -> str:
    if value is None:
        return f"  {nothing}"
    lines = pretty(value).splitlines()
    more = [f"… and {len(lines) - _SHOWN_LINES} lines"] if len(lines) > _SHOWN_LINES else []
    return "\n".join(f"  {line}" for line in (*lines[:_SHOWN_LINES], *more))
