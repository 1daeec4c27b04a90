"""The event stream of the console: one log of events, which every open stream reads at its own pace.

The log has the last 500 events. A stream is a place in it, so a slow reader costs no memory: when its place has left the
log, the stream ends and the page opens another. Ids are `EPOCH-N`, with an epoch for each process. A page that gives the
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

from dragoman.frontends.console.errors import ConsoleError
from dragoman.frontends.console.sessions import REACHABLE_SECONDS, ConsoleScope, ConsoleSession
from dragoman.lm import JsonObject
from dragoman.lm.json import encode

__all__ = ["MOST_EVENTS", "MOST_STREAMS", "Feed", "FeedData", "FeedStream"]

# What an event says; or a function that makes it when a stream reads it. None: it has nothing to say to this scope any more.
FeedData: TypeAlias = JsonObject | Callable[[ConsoleScope], JsonObject | None]

MOST_EVENTS = 500
MOST_STREAMS = 4
_BEAT_SECONDS = 10.0
_ID_BYTES = 9


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    name: str
    data: FeedData
    # Whose conversation it is about; None: it is for all.
    connection: str | None
    is_for_admins: bool

    def is_for(self, scope: ConsoleScope) -> bool:
        if self.is_for_admins and scope.key is not None:
            return False
        return self.connection is None or scope.sees(self.connection)


class Feed:
    """Publishes events to the streams of all sessions."""

    def __init__(
        self,
        hello: Callable[[ConsoleSession], JsonObject],
        *,
        on_streams: Callable[[int], None] = lambda _count: None,
        now: Callable[[], float] = time.time,
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
        self._last = 0
        self._streams: dict[str, FeedStream] = {}
        self._is_closed = False

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def publish(
        self, name: str, data: FeedData, *, connection: str | None = None, is_for_admins: bool = False
    ) -> None:
        """Add an event. `connection`: it is about a conversation of this one, and only for sessions that see it."""
        self._last += 1
        self._events.append(_Event(self._last, name, data, connection, is_for_admins))
        for stream in self._streams.values():
            stream.news.set()

    def open(self, session: ConsoleSession, last_event_id: str | None = None) -> FeedStream:
        """Open a stream. The caller closes it. Raises `ConsoleError` if the session has too many."""
        if self._is_closed:
            raise ConsoleError(503, "ending", "The server is shutting down.")
        self._make_room(session)
        resumes_at = self._place_of(last_event_id)
        stream = FeedStream(self, session, secrets.token_urlsafe(_ID_BYTES), resumes_at, self._now())
        self._streams[stream.id] = stream
        session.streams += 1
        session.seen_at = self._now()
        self._on_streams(len(self._streams))
        return stream

    def close_stream(self, stream: FeedStream) -> None:
        """The stream has ended. Calling it again does nothing."""
        if self._streams.pop(stream.id, None) is None:
            return
        stream.session.streams -= 1
        self._on_streams(len(self._streams))

    def seen(self, session: ConsoleSession, stream_id: str) -> bool:
        """The page of a session has acknowledged a beat. False if the session has no open stream.

        A stream that was resumed has another id than the one before. A page that does not know it yet is there all the same.
        """
        if session.streams == 0:
            return False
        session.seen_at = self._now()
        stream = self._streams.get(stream_id)
        if stream is not None and stream.session is session:
            stream.seen_at = self._now()
        return True

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

    def _place_of(self, last_event_id: str | None) -> int | None:
        """The number of the last event that a page has seen; None if it cannot resume there."""
        epoch, _, number = (last_event_id or "").partition("-")
        if epoch != self.epoch or not (number.isascii() and number.isdecimal() and len(number) <= 18):  # noqa: PLR2004 - digits
            return None
        place = int(number)
        return place if place <= self._last and not self.is_lost(place) else None

    def is_lost(self, place: int) -> bool:
        """Whether events behind this place have left the log."""
        return place < self._last and self._events[0].number > place + 1

    @property
    def last(self) -> int:
        return self._last

    def after(self, place: int, scope: ConsoleScope) -> Iterator[tuple[int, bytes]]:
        """The events behind a place that this scope may see, each with its number."""
        count = self._last - place
        if count <= 0:
            return
        for event in list(self._events)[-count:]:
            if event.is_for(scope):
                data = event.data(scope) if callable(event.data) else event.data
                if data is not None:
                    yield event.number, self.framed(event.name, data, event.number)

    def hello(self, stream: FeedStream) -> bytes:
        data = {"stream": stream.id, **self._hello(stream.session)}
        return self.framed("hello", data, self._last)

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
    _has_ended: bool = False
    _is_signed_out: bool = False

    def end(self, *, signed_out: bool = False) -> None:
        self._has_ended = True
        self._is_signed_out |= signed_out
        self.news.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """The events, and a beat when the time has come. It ends with the session, or when it is too far behind."""
        feed, scope = self.feed, self.session.scope
        loop = asyncio.get_running_loop()
        if self.resumes_at is None:
            place = feed.last
            yield feed.hello(self)
            next_beat = loop.time() + feed.beat_seconds
        else:
            # The first beat has the id of the new stream.
            place, next_beat = self.resumes_at, loop.time()
        while not self._has_ended:
            self.news.clear()
            if feed.is_lost(place):
                return
            last = feed.last
            for _, frame in feed.after(place, scope):
                yield frame
            place = last
            if loop.time() >= next_beat:
                next_beat = loop.time() + feed.beat_seconds
                yield feed.framed("beat", {"stream": self.id})
            if feed.last > place:
                continue
            try:
                async with asyncio.timeout_at(next_beat):
                    await self.news.wait()
            except TimeoutError:
                pass
        if self._is_signed_out:
            yield feed.framed("signed_out", {})
