"""The event stream: order, scopes, resuming, beats, ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings, strategies as st

from console.asking import ADMIN, ALICE, session_of, stamped
from dragoman.frontends.console.feed import MOST_STREAMS, REACHABLE_SECONDS, Feed, FeedStream
from dragoman.frontends.console.sessions import ConsoleScope
from dragoman.frontends.console.wire import ConsoleError
from dragoman.lm import JsonObject
from http_server.kit import soon
from searching import examples


def data_of(frame: bytes) -> JsonObject:
    value: JsonObject = json.loads(frame.decode().partition("data: ")[2])
    return value


def feed_of(**options: float) -> Feed:
    return Feed(lambda session: {"session": session.id}, now=lambda: Clock.now, **options)  # type: ignore[arg-type]  # numbers


class Clock:
    now = 1000.0


async def taken(frames: AsyncIterator[bytes], count: int) -> list[bytes]:
    return [await soon(anext(frames)) for _ in range(count)]


async def test_a_stream_begins_with_a_snapshot_and_goes_on_with_what_happens() -> None:
    feed, session = feed_of(), session_of()
    feed.publish("before", {})
    stream = feed.open(session)
    frames = stream.frames()
    (hello,) = await taken(frames, 1)
    assert stamped(hello) == (f"{feed.epoch}-1", "hello")
    assert data_of(hello) == {"stream": stream.id, "session": session.id}
    feed.publish("question", {"id": "q"}, connection="http:b")
    (question,) = await taken(frames, 1)
    assert stamped(question) == (f"{feed.epoch}-2", "question")
    assert data_of(question) == {"id": "q"}


async def test_a_session_of_one_key_gets_nothing_of_others() -> None:
    feed = feed_of()
    frames = feed.open(session_of(ALICE)).frames()
    await taken(frames, 1)
    feed.publish("question", {"of": "bob"}, connection="http:b")
    feed.publish("elsewhere", {}, needs_sees_all=True)
    feed.publish("question", {"of": "alice"}, connection="http:a")
    feed.publish("sessions", {})
    assert [stamped(each)[1] for each in await taken(frames, 2)] == ["question", "sessions"]


async def test_beats_have_no_id_and_name_the_stream() -> None:
    feed = feed_of(beat_seconds=0.01)
    stream = feed.open(session_of())
    _, first, second = await taken(stream.frames(), 3)
    assert stamped(first) == stamped(second) == (None, "beat")
    assert data_of(first) == {"stream": stream.id}


async def test_a_resumed_stream_begins_with_what_was_missed_and_a_beat() -> None:
    feed, session = feed_of(), session_of()
    feed.publish("seen", {})
    feed.publish("missed", {})
    stream = feed.open(session, f"{feed.epoch}-1")
    missed, beat = await taken(stream.frames(), 2)
    assert stamped(missed) == (f"{feed.epoch}-2", "missed")
    assert data_of(beat) == {"stream": stream.id}


@pytest.mark.parametrize(
    "last", ["other-1", "", "x", "-1", "{epoch}-", "{epoch}-9", "{epoch}-²", "{epoch}-0"]
)
async def test_what_cannot_be_resumed_begins_anew(last: str) -> None:
    feed = feed_of(most_events=2)
    for name in ("a", "b", "c"):
        feed.publish(name, {})
    (hello,) = await taken(feed.open(session_of(), last.format(epoch=feed.epoch)).frames(), 1)
    assert stamped(hello)[1] == "hello"


async def test_a_stream_that_is_too_far_behind_ends() -> None:
    feed = feed_of(most_events=3)
    frames = feed.open(session_of()).frames()
    await taken(frames, 1)
    for number in range(4):
        feed.publish("event", {"number": number})
    with pytest.raises(StopAsyncIteration):
        await soon(anext(frames))


async def test_an_ended_session_is_told_so_and_its_streams_end() -> None:
    feed, ended, other = feed_of(), session_of(name="ended"), session_of(name="other")
    frames, others = feed.open(ended).frames(), feed.open(other).frames()
    await taken(frames, 1)
    await taken(others, 1)
    feed.end_session(ended)
    (last,) = await taken(frames, 1)
    assert stamped(last) == (None, "signed_out")
    with pytest.raises(StopAsyncIteration):
        await soon(anext(frames))
    feed.publish("sessions", {})
    assert stamped((await taken(others, 1))[0])[1] == "sessions"


async def test_when_the_server_ends_streams_end_and_none_begins() -> None:
    feed = feed_of()
    frames = feed.open(session_of()).frames()
    await taken(frames, 1)
    waiting = asyncio.ensure_future(anext(frames))
    await asyncio.sleep(0)
    feed.close()
    with pytest.raises(StopAsyncIteration):
        await soon(waiting)
    with pytest.raises(ConsoleError) as refused:
        feed.open(session_of())
    assert refused.value.status == 503


async def test_a_person_is_reachable_while_a_deciding_page_is_open_and_answers_beats() -> None:
    Clock.now = 5.0
    feed = feed_of()
    feed.open(session_of(role="watch"))
    assert not feed.reach().covers("http:a")
    alice = session_of(ALICE)
    stream = feed.open(alice)
    assert feed.reach().covers("http:a")
    assert not feed.reach().covers("http:b")
    Clock.now += REACHABLE_SECONDS
    assert feed.reach().covers("http:a")
    Clock.now += 0.1
    assert not feed.reach().covers("http:a")
    # A page that names another stream has an open one, but nothing was heard of that.
    assert feed.seen(alice, "another")
    assert not feed.reach().covers("http:a")
    assert feed.seen(alice, stream.id)
    assert feed.reach().covers("http:a")
    feed.end_session(alice)
    assert not feed.reach().covers("http:a")


async def test_a_stream_is_counted_until_it_closes() -> None:
    counts: list[int] = []
    feed = Feed(lambda _session: {}, on_streams=counts.append)
    session = session_of()
    stream = feed.open(session)
    feed.close_stream(stream)
    feed.close_stream(stream)
    assert counts == [1, 0]
    assert not feed.seen(session, stream.id)
    assert not feed.reach().covers("http:a")


async def test_a_dead_stream_makes_room_and_a_live_one_does_not() -> None:
    Clock.now = 0.0
    feed, session = feed_of(), session_of()
    streams = [feed.open(session) for _ in range(MOST_STREAMS)]
    with pytest.raises(ConsoleError) as refused:
        feed.open(session)
    assert (refused.value.status, refused.value.code) == (429, "too_many_streams")
    # Another session is not affected.
    feed.open(session_of(name="other"))
    Clock.now += REACHABLE_SECONDS
    for stream in streams[1:]:
        assert feed.seen(session, stream.id)
    feed.open(session)
    # And that of the other session.
    assert feed.streams == MOST_STREAMS + 1
    frames = streams[0].frames()
    await taken(frames, 1)
    with pytest.raises(StopAsyncIteration):
        await soon(anext(frames))


async def test_an_event_that_has_nothing_to_say_any_more_is_left_out() -> None:
    feed = feed_of()
    frames = feed.open(session_of(ALICE)).frames()
    await taken(frames, 1)
    feed.publish("question", lambda _scope: None)
    feed.publish("question", lambda scope: {"to": scope.key})
    assert data_of((await taken(frames, 1))[0]) == {"to": "alice"}


_SCOPES = st.sampled_from([ADMIN, ALICE, ConsoleScope("bob", "http:b")])
_EVENT = st.tuples(st.sampled_from([None, "http:a", "http:b", "http:"]), st.booleans())
# What happens: an event; or the reader takes so many frames, and then its connection breaks or not.
_STEP = st.one_of(_EVENT, st.tuples(st.integers(1, 5), st.booleans()))


@settings(max_examples=examples(200), deadline=None)
@given(_SCOPES, st.lists(_STEP, max_size=40))
def test_a_reader_gets_each_event_it_may_see_once_and_in_order(
    scope: ConsoleScope, steps: list[tuple[int | str | None, bool]]
) -> None:
    """However often it reconnects. The log is long enough here, so nothing may be missing."""

    async def run() -> None:
        feed = feed_of()
        expected: list[int] = []
        got: list[int] = []
        last: str | None = None
        stream: FeedStream | None = None
        frames: AsyncIterator[bytes] | None = None

        def take(frame: bytes) -> str:
            nonlocal last
            id_, name = stamped(frame)
            last = id_ or last
            if name == "event":
                got.append(int(str(data_of(frame)["number"])))
            return name

        async def read(most: int) -> None:
            nonlocal stream, frames
            if frames is None or stream is None:
                stream = feed.open(session_of(scope), last)
                frames = stream.frames()
            for _ in range(most):
                try:
                    frame = await asyncio.wait_for(anext(frames), 0.001)
                except TimeoutError:
                    # A generator that was cancelled is over: as a broken connection.
                    feed.close_stream(stream)
                    frames = None
                    return
                take(frame)

        take(await soon(anext(feed.open(session_of(scope)).frames())))
        for number, (first, second) in enumerate(steps):
            if isinstance(first, int):
                await read(first)
                if second and stream is not None:
                    feed.close_stream(stream)
                    frames = None
            else:
                feed.publish("event", {"number": number}, connection=first, needs_sees_all=second)
                if (scope.sees_all or not second) and (first is None or scope.sees(first)):
                    expected.append(number)
        # The beat comes when there is nothing more.
        rest = feed.open(session_of(scope), last).frames()
        while take(await soon(anext(rest))) != "beat":
            pass
        assert got == expected

    asyncio.run(run())
