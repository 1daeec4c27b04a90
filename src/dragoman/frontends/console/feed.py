"""The event stream of the console: one log of events, which every open stream reads at its own pace.

The log has the last 500 events. A stream is a position in it, so a slow reader costs no memory: when its position has left
the log, the stream ends and the page opens another. Ids are `EPOCH-N`, with an epoch for each process. A page that gives the
last id it has seen goes on behind it, if that is still in the log; otherwise it gets a new snapshot.

What a session may see depends on its scope. The filter is applied when an event is read, so it holds for resumed streams
as well.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSession
from dragoman.frontends.console.wire import ConsoleError
from dragoman.frontends.request_values import whole_number
from dragoman.lm import JsonObject
from dragoman.lm.json import encode
from dragoman.permissions.inbox import Reach

__all__ = ["MOST_EVENTS", "MOST_STREAMS", "REACHABLE_SECONDS", "Feed", "FeedData", "FeedStream"]

# What an event says; or a function that makes it when a stream reads it. None: it has nothing to say to this scope any more.
FeedData: TypeAlias = JsonObject | Callable[[ConsoleScope], JsonObject | None]

MOST_EVENTS = 500
MOST_STREAMS = 4
# A page that has not acknowledged a beat for so long is gone, though its connection may look open.
REACHABLE_SECONDS = 30.0
_BEAT_SECONDS = 10.0
_ID_BYTES = 9


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    name: str
    data: FeedData
    # Whose conversation it is about; None: it is for all.
    connection: str | None
    needs_sees_all: bool

    def is_for(self, scope: ConsoleScope) -> bool:
        return scope.sees_all or (
            not self.needs_sees_all and (self.connection is None or scope.sees(self.connection))
        )


class Feed:
    """Publishes events to the streams of all sessions."""

    def __init__(
        self,
        hello: Callable[[ConsoleSession], JsonObject],
        *,
        on_streams: Callable[[int], None] = lambda _count: None,
        # A clock that only goes forward: setting the time of day must not make a page reachable for longer.
        now: Callable[[], float] = time.monotonic,
        beat_seconds: float = _BEAT_SECONDS,
        most_events: int = MOST_EVENTS,
    ) -> None:
        """`hello` makes the snapshot that a stream begins with. `on_streams` is called with the number of open streams."""
        self.epoch = secrets.token_hex(4)
        self._hello = hello
        self._on_streams = on_streams
        self._now = now
        self.beat_seconds = beat_seconds
        self._events: deque[_Event] = deque(maxlen=most_events)
        self.last = 0
        self._streams: dict[str, FeedStream] = {}
        self._is_closed = False

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def publish(
        self, name: str, data: FeedData, *, connection: str | None = None, needs_sees_all: bool = False
    ) -> None:
        """Add an event. `connection`: it is about a conversation of this one, and only for sessions that see it."""
        self.last += 1
        self._events.append(_Event(self.last, name, data, connection, needs_sees_all))
        for stream in self._streams.values():
            stream.news.set()

    def open(self, session: ConsoleSession, last_event_id: str | None = None) -> FeedStream:
        """Open a stream. The caller closes it. Raises `ConsoleError` if the session has too many."""
        if self._is_closed:
            raise ConsoleError(503, "ending", "The server is shutting down.")
        self._make_room(session)
        resumes_at = self._position_of(last_event_id)
        stream = FeedStream(self, session, secrets.token_urlsafe(_ID_BYTES), resumes_at, self._now())
        self._streams[stream.id] = stream
        self._on_streams(len(self._streams))
        return stream

    def close_stream(self, stream: FeedStream) -> None:
        """The stream has ended. Calling it again does nothing."""
        if self._streams.pop(stream.id, None) is not None:
            self._on_streams(len(self._streams))

    def seen(self, session: ConsoleSession, stream_id: str) -> bool:
        """The page of a session has acknowledged a beat. False if the session has no open stream.

        A stream that was resumed has another id than the one before. A page may not know it yet, and names the one before.
        """
        own = self._of(session)
        for stream in own:
            if stream.id == stream_id:
                stream.seen_at = self._now()
        return bool(own)

    def reach(self) -> Reach:
        """About whose conversations those people may decide who have the page open now."""
        earliest = self._now() - REACHABLE_SECONDS
        scopes = [
            each.session.scope
            for each in self._streams.values()
            if each.session.may_decide and each.seen_at >= earliest and not each.has_ended
        ]
        connections = frozenset(each.connection for each in scopes if each.connection is not None)
        return Reach(any(each.sees_all for each in scopes), connections)

    def end_session(self, session: ConsoleSession) -> None:
        """The session has ended: its streams say so, and end."""
        for stream in self._of(session):
            stream.end(signed_out=True)

    def close(self) -> None:
        """End all streams, because the server ends. The pages connect again later."""
        self._is_closed = True
        for stream in tuple(self._streams.values()):
            stream.end()

    def _of(self, session: ConsoleSession) -> list[FeedStream]:
        return [each for each in self._streams.values() if each.session is session]

    def _make_room(self, session: ConsoleSession) -> None:
        """A stream that no page has acknowledged for long is of a connection that is dead. It makes room for another."""
        own = self._of(session)
        if len(own) < MOST_STREAMS:
            return
        oldest = min(own, key=lambda each: each.seen_at)
        if self._now() - oldest.seen_at < REACHABLE_SECONDS:
            raise ConsoleError(
                429, "too_many_streams", f"The console is open {len(own)} times here. Close a tab."
            )
        oldest.end()
        self.close_stream(oldest)

    def _position_of(self, last_event_id: str | None) -> int | None:
        """The number of the last event that a page has seen; None if it cannot resume there."""
        epoch, _, number = (last_event_id or "").partition("-")
        position = whole_number(number) if epoch == self.epoch else None
        if position is None or position > self.last or self.is_lost(position):
            return None
        return position

    def is_lost(self, position: int) -> bool:
        """Whether events behind this position have left the log."""
        return position < self.last and self._events[0].number > position + 1

    def after(self, position: int, scope: ConsoleScope) -> Iterator[bytes]:
        """The events behind a position that this scope may see."""
        for event in [each for each in self._events if each.number > position]:
            if event.is_for(scope):
                data = event.data(scope) if callable(event.data) else event.data
                if data is not None:
                    yield self.framed(event.name, data, event.number)

    def hello(self, stream: FeedStream) -> bytes:
        data = {"stream": stream.id, **self._hello(stream.session)}
        return self.framed("hello", data, self.last)

    def framed(self, name: str, data: JsonObject, number: int | None = None) -> bytes:
        """A server-sent event. Encoded JSON contains no line breaks."""
        id_ = b"" if number is None else b"id: %s-%d\n" % (self.epoch.encode(), number)
        return b"%sevent: %s\ndata: %s\n\n" % (id_, name.encode(), encode(data))


@dataclass(eq=False)
class FeedStream:
    """One open stream of a session."""

    feed: Feed
    session: ConsoleSession
    id: str
    # The number of the last event that the page has; None: it begins with a snapshot.
    resumes_at: int | None
    # When the page acknowledged a beat of this stream.
    seen_at: float
    news: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False
    _is_signed_out: bool = False

    def end(self, *, signed_out: bool = False) -> None:
        self.has_ended = True
        self._is_signed_out |= signed_out
        self.news.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """The events, and a beat when the time has come. It ends with the session, or when it is too far behind."""
        feed, scope = self.feed, self.session.scope
        loop = asyncio.get_running_loop()
        if self.resumes_at is None:
            position = feed.last
            yield feed.hello(self)
            next_beat = loop.time() + feed.beat_seconds
        else:
            # The first beat has the id of the new stream.
            position, next_beat = self.resumes_at, loop.time()
        while not self.has_ended:
            self.news.clear()
            if feed.is_lost(position):
                return
            last = feed.last
            for frame in feed.after(position, scope):
                yield frame
            position = last
            if loop.time() >= next_beat:
                next_beat = loop.time() + feed.beat_seconds
                yield feed.framed("beat", {"stream": self.id})
            if feed.last > position:
                continue
            try:
                async with asyncio.timeout_at(next_beat):
                    await self.news.wait()
            except TimeoutError:
                pass
        if self._is_signed_out:
            yield feed.framed("signed_out", {})
