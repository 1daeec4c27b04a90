"""A trace as either side of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from devtools.traces.player import OPTIONS, Difference, TracePlayer
from devtools.traces.reading import TraceError, method_of, parse_trace
from devtools.traces.sameness import Names, difference
from hypothesis import given, settings, strategies as st

import virtual_clock
from demo_agent.harness import Editor
from dragoman.backends.scripted import load_script
from dragoman.demo.agent import SCRIPT
from dragoman.demo.agent.server import AgentServer
from dragoman.demo.agent.store import SessionStore
from dragoman.jsonrpc import ConnectionClosed, PeerOptions, RemoteError
from dragoman.lm import JsonObject
from dragoman.lm.json import encode_text
from dragoman.logs import Redaction
from dragoman.traces.frames import Direction, Frame
from dragoman.traces.recording import Recording
from memory_peers import memory_pair
from virtual_clock import running_clock

_OTHER: dict[Direction, Direction] = {"c2a": "a2c", "a2c": "c2a"}


@dataclass
class _Writing:
    """A trace, as it is made up."""

    frames: list[Frame] = field(default_factory=list)

    def add(self, direction: Direction, at: float = 0.0, **message: object) -> _Writing:
        self.frames.append(Frame(at, direction, {"jsonrpc": "2.0", **message}))
        return self


def _hello() -> _Writing:
    """A handshake, a session, a turn with a question in it."""
    return (
        _Writing()
        .add("c2a", 0.0, id=1, method="initialize", params={"protocolVersion": 1})
        .add("a2c", 0.5, id=1, result={"protocolVersion": 1})
        .add("c2a", 0.6, id=2, method="session/new", params={"cwd": "/WS", "mcpServers": []})
        .add("a2c", 0.7, id=2, result={"sessionId": "session-one"})
        .add("c2a", 9.0, id=3, method="session/prompt", params={"sessionId": "session-one", "prompt": "go"})
        .add("a2c", 9.1, method="session/update", params={"sessionId": "session-one", "text": "in /WS/a"})
        .add("a2c", 9.2, id=0, method="ask", params={"sessionId": "session-one"})
        .add("c2a", 60.0, id=0, result={"outcome": "yes"})
        .add("a2c", 61.0, id=3, result={"stopReason": "end_turn"})
    )


def _between(agent: Sequence[Frame], client: Sequence[Frame], **names: str) -> tuple[Difference | None, ...]:
    """What each of two players says of the other."""

    async def play() -> tuple[Difference | None, ...]:
        players = TracePlayer(agent, "agent", names=names), TracePlayer(client, "client")
        peers = memory_pair(*players, OPTIONS, OPTIONS)
        ends = [asyncio.ensure_future(player.played()) for player in players]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if any(end.done() and end.result() for end in ends):
            # The one that found it says no more, and nobody else may wait for it.
            peers[0].close()
        found = [await end for end in ends]
        peers[0].close()
        return tuple(found)

    return virtual_clock.run(play())


# Any trace.

_texts = st.text(st.characters(codec="utf-8"), max_size=12)
_values = st.dictionaries(_texts, _texts | st.integers(-9, 9) | st.lists(_texts, max_size=2), max_size=2)
_directions: st.SearchStrategy[Direction] = st.sampled_from(["c2a", "a2c"])


@st.composite
def traces(draw: st.DrawFn) -> list[Frame]:
    """Requests that are answered sooner or later, or never, and notifications between them."""
    writing = _Writing()
    open_: list[tuple[Direction, int | str]] = []
    for number in range(draw(st.integers(0, 14))):
        direction = draw(_directions)
        match draw(st.sampled_from(["request", "notification", "reply", "error"])):
            case "request":
                identity: int | str = draw(st.sampled_from((number, -number)) | st.just(f"id-{number}"))
                open_.append((direction, identity))
                writing.add(direction, number, id=identity, method="ask", params=draw(_values))
            case "notification":
                writing.add(direction, number, method="tell", params=draw(_values))
            case kind if open_:
                asked, identity = open_.pop(draw(st.integers(0, len(open_) - 1)))
                answer: JsonObject = (
                    {"result": draw(_values)}
                    if kind == "reply"
                    else {"error": {"code": -32000, "message": draw(_texts)}}
                )
                writing.add(_OTHER[asked], number, id=identity, **answer)
    return writing.frames


@settings(max_examples=25)
@given(traces())
def test_both_sides_of_a_trace_agree_with_each_other(frames: list[Frame]) -> None:
    assert _between(frames, frames) == (None, None)


@settings(max_examples=25)
@given(traces())
def test_what_is_recorded_of_a_trace_is_that_trace(frames: list[Frame]) -> None:
    async def recorded() -> list[Frame]:
        written: list[bytes] = []
        clock = running_clock()
        seen = Recording(written.append, Redaction(), now=clock.now).watch("x", {})

        def hearing(way: Literal["in", "out"]) -> PeerOptions:
            # What one side hears is what the other says.
            return replace(OPTIONS, watch=lambda of, line: seen(way, line) if of == "in" else None)

        players = TracePlayer(frames, "client", clock=clock), TracePlayer(frames, "agent", clock=clock)
        peers = memory_pair(*players, hearing("in"), hearing("out"))
        for player in players:
            assert await player.played() is None
        await clock.sleep(0)
        peers[0].close()
        return list(parse_trace(b"".join(written)))

    again = virtual_clock.run(recorded())
    for direction in _OTHER:
        assert [_without_id(frame) for frame in again if frame.direction == direction] == [
            _without_id(frame) for frame in frames if frame.direction == direction
        ]


def _without_id(frame: Frame) -> JsonObject:
    return {key: value for key, value in (frame.message or {}).items() if key != "id"}


@settings(max_examples=25)
@given(traces(), st.data())
def test_one_frame_that_is_another_is_the_first_difference(frames: list[Frame], data: st.DataObject) -> None:
    changeable = [n for n, frame in enumerate(frames) if "params" in (frame.message or {})]
    if not changeable:
        return
    changed = data.draw(st.sampled_from(changeable))
    message = {**(frames[changed].message or {}), "params": {"quite": "another"}}
    other = [*frames]
    other[changed] = Frame(frames[changed].at, frames[changed].direction, message)
    sender = frames[changed].direction
    agent, client = _between(*((frames, other) if sender == "c2a" else (other, frames)))
    found = agent if sender == "c2a" else client
    assert found is not None
    assert found.number == changed + 1
    assert found.expected == frames[changed]
    assert found.got is not None
    assert found.got["params"] == {"quite": "another"}


# One trace.


def test_time_passes_as_it_did() -> None:
    async def play() -> float:
        frames = _hello().frames
        clock = running_clock()
        agent = TracePlayer(frames, "agent", clock=clock)
        client = TracePlayer(frames, "client", clock=clock)
        peers = memory_pair(agent, client, OPTIONS, OPTIONS)
        assert (await agent.played(), await client.played()) == (None, None)
        peers[0].close()
        return clock.now()

    assert virtual_clock.run(play()) == pytest.approx(61.0)


def test_names_may_be_others_as_long_as_they_stay_the_same() -> None:
    then = _hello().frames
    now = [
        Frame(
            frame.at,
            frame.direction,
            parse_trace(
                (
                    '{"t":0,"dir":"c2a","msg":'
                    + encode_text(frame.message).replace("session-one", "s-2").replace("/WS", "/elsewhere")
                    + "}\n"
                ).encode()
            )[0].message,
        )
        for frame in then
    ]
    assert _between(now, then) == (None, None)
    # Once another, it is another.
    now[6] = Frame(0, "a2c", {"jsonrpc": "2.0", "id": 0, "method": "ask", "params": {"sessionId": "s-3"}})
    _, client = _between(now, then)
    assert client is not None
    assert client.what == 'params.sessionId is "s-3" instead of "session-one"'


def test_the_first_difference_is_shown_with_both_frames() -> None:
    other = _hello().frames
    other[4] = Frame(
        9.0,
        "c2a",
        {"id": 3, "method": "session/prompt", "params": {"sessionId": "session-one", "prompt": "stop"}},
    )
    agent, client = _between(_hello().frames, other)
    assert str(agent).splitlines() == [
        'params.prompt is "stop" instead of "go" (frame 5, 9 s)',
        "expected:",
        "  {",
        '    "id": 3,',
        '    "jsonrpc": "2.0",',
        '    "method": "session/prompt",',
        '    "params": {',
        '      "prompt": "go",',
        '      "sessionId": "session-one"',
        "    }",
        "  }",
        "got:",
        "  {",
        '    "id": 3,',
        '    "method": "session/prompt",',
        '    "params": {',
        '      "prompt": "stop",',
        '      "sessionId": "session-one"',
        "    }",
        "  }",
    ]
    # The other side is told instead of waiting.
    assert client is not None


def test_what_comes_after_the_end_is_a_difference() -> None:
    async def play() -> str:
        frames = _hello().frames[:2]
        agent, editor = TracePlayer(frames, "agent"), Editor()
        memory_pair(agent, editor, OPTIONS)
        await editor.peer.request("initialize", {"protocolVersion": 1})
        assert await agent.played() is None
        with pytest.raises(RemoteError, match="The trace goes on differently: the trace is over"):
            await editor.peer.request("session/new", {"cwd": "/x"})
        editor.peer.close()
        return str(agent.difference)

    shown = virtual_clock.run(play()).splitlines()
    assert shown[:4] == ["the trace is over (frame 2)", "expected:", "  nothing more", "got:"]


def test_an_end_of_the_connection_is_a_difference() -> None:
    async def play() -> Difference | None:
        agent, editor = TracePlayer(_hello().frames, "agent"), Editor()
        memory_pair(agent, editor, OPTIONS)
        editor.peer.close()
        return await agent.played()

    found = virtual_clock.run(play())
    assert found is not None
    assert found.what.startswith("the connection ended: ")
    assert str(found).endswith("got:\n  nothing")


def test_whoever_waits_when_it_differs_is_told() -> None:
    async def play() -> None:
        frames = _hello().frames
        agent, editor = TracePlayer(frames, "agent"), Editor()
        memory_pair(agent, editor, OPTIONS)
        with pytest.raises(RemoteError, match=r"method is \"session/list\" instead of \"initialize\""):
            await editor.peer.request("session/list", {})
        editor.peer.close()
        with pytest.raises(ConnectionClosed):
            await editor.peer.request("x", {})

    virtual_clock.run(play())


def test_a_redacted_text_stands_for_any() -> None:
    then = (
        _Writing().add("c2a", method="m", params={"key": "[redacted]", "text": "use [redacted] now"}).frames
    )
    now = _Writing().add("c2a", method="m", params={"key": "k", "text": "use it\nall now"}).frames
    other = _Writing().add("c2a", method="m", params={"key": "k", "text": "use it never"}).frames
    assert _between(then, now) == (None, None)
    assert _between(then, other)[0] is not None


def test_lines_that_are_no_messages_and_halves_of_characters_are_said_as_they_were() -> None:
    frames = [
        Frame(0, "a2c", None, "", "Loading…"),
        Frame(0, "a2c", {"method": "tell", "params": {"text": "a\ud83d"}}),
    ]

    async def play() -> list[bytes]:
        heard: list[bytes] = []
        agent, editor = TracePlayer(frames, "agent"), _Silent()
        watched = PeerOptions(watch=lambda _way, line: heard.append(line))
        memory_pair(agent, editor, OPTIONS, watched)
        assert await agent.played() is None
        await running_clock().sleep(0)
        return heard

    assert virtual_clock.run(play()) == [
        "Loading…".encode(),
        b'{"method":"tell","params":{"text":"a\\ud83d"}}',
    ]


def test_lines_that_are_no_messages_are_not_waited_for() -> None:
    frames = [Frame(0, "a2c", None, "", "Loading…"), *_hello().frames, Frame(70, "c2a", None, "", "?")]
    assert _between(frames, frames) == (None, None)


@pytest.mark.parametrize(
    ("then", "now", "found"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": True}, "a is true instead of 1"),
        ({"a": 1}, {"a": 1.5}, "a is 1.5 instead of 1"),
        ({"a": None}, {}, "a is missing"),
        ({}, {"a": {"b": 1}}, "a is new"),
        ({"a": {}}, {"a": {"b": 1}}, "a.b is new"),
        ({"a": [1, 2]}, {"a": [1]}, "a has 1 elements instead of 2"),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, 'a[1].b is "y" instead of "x"'),
        ({"a": "in /WS."}, {"a": "in /here."}, None),
        ({"a": "in /WS-2"}, {"a": "in /here-2"}, 'a is "in /here-2" instead of "in /WS-2"'),
        ({"a": "mcp__dg-00000001__x"}, {"a": "mcp__dg-00000002__x"}, None),
        ({"mcpServers": [{"name": "dg-00000001"}]}, {"mcpServers": [{"name": "dg-00000002"}]}, None),
        (
            {"tools": [{"name": "one"}]},
            {"tools": [{"name": "two"}]},
            'tools[0].name is "two" instead of "one"',
        ),
        ({"sessionId": "b"}, {"sessionId": "/here"}, 'sessionId is "/here" instead of "b"'),
        ({"_meta": {"x": 1}, "version": "1"}, {"version": "2"}, None),
        ({"a": "x" * 999}, {"a": ""}, f'a is "" instead of "{"x" * 199}…'),
    ],
)
def test_what_is_the_same(then: JsonObject, now: JsonObject, found: str | None) -> None:
    names = Names({"/WS": "/here", "dg-00000001": "dg-00000002"})
    assert difference(then, now, names) == found


class _Silent(Editor):
    def notification(self, notification: object) -> None:
        pass


@pytest.mark.parametrize(
    "frames",
    [
        _Writing().add("a2c", id=1, result={}).frames,
        _Writing().add("c2a", id=1, method="m").add("c2a", id=1, result={}).frames,
        _hello().add("a2c", id=3, result={}).frames,
    ],
)
def test_a_reply_to_nothing_is_no_trace(frames: list[Frame]) -> None:
    async def play() -> None:
        with pytest.raises(TraceError, match="answers a request that is not in the trace"):
            TracePlayer(frames, "agent")

    virtual_clock.run(play())


# As the client of a real agent.


async def test_a_recorded_talk_with_an_agent_is_had_again_with_another(tmp_path: Path) -> None:
    written: list[bytes] = []
    watch = Recording(written.append, Redaction()).watch("demo", {})
    then, now = tmp_path / "then", tmp_path / "now"
    for folder in (then, now):
        folder.mkdir()
    server = AgentServer(load_script(SCRIPT), SessionStore(then / "sessions"), pace="instant")
    editor = Editor()
    peer, _ = memory_pair(editor, server, PeerOptions(watch=watch))
    session = await editor.start(then)
    await editor.say(session, "make a plan")
    await editor.say(session, "two permissions")
    peer.close()
    await server.close()
    frames = parse_trace(b"".join(written))
    assert len(editor.asked) > 0
    for words in ("make a plan", "think about it"):
        agent = AgentServer(load_script(SCRIPT), SessionStore(now / words), pace="instant")
        changed = [_saying(frame, "make a plan", words) for frame in frames]
        client = TracePlayer(changed, "client", names={str(then): str(now)})
        peer, _ = memory_pair(client, agent, OPTIONS)
        found = await client.played()
        peer.close()
        await agent.close()
        assert (found is None) == (words == "make a plan"), found


def _saying(frame: Frame, words: str, others: str) -> Frame:
    if method_of(frame) != "session/prompt" or words not in encode_text(frame.message):
        return frame
    message = parse_trace(
        f'{{"t":0,"dir":"c2a","msg":{encode_text(frame.message).replace(words, others)}}}\n'.encode()
    )
    return Frame(frame.at, frame.direction, message[0].message)
