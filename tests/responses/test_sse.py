"""Server-sent events, from bytes that are cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from dragoman.backends.responses.sse import EventTooLarge, ServerEvent, SseReader


def _read(*chunks: bytes, limit: int = 1_000) -> list[ServerEvent]:
    reader = SseReader(limit)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    last = reader.end()
    return [*events, last] if last is not None else events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [ServerEvent(b"a")]),
        (b"event: n\ndata: a\n\n", [ServerEvent(b"a", "n")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [ServerEvent(b"a"), ServerEvent(b"b"), ServerEvent(b"c")]),
        (b"data: a\ndata: b\n\n", [ServerEvent(b"a\nb")]),
        (b": ping\n\n:\n\ndata: a\n\n", [ServerEvent(b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent(b"a")]),
        (b"data:a\n\ndata:  a\n\n", [ServerEvent(b"a"), ServerEvent(b" a")]),
        (b"data\ndata: a\n\n", [ServerEvent(b"\na")]),
        (
            b"id: 1\nretry: 5\nnonsense\ndata: a\n\ndata: b\n\n",
            [ServerEvent(b"a", id="1"), ServerEvent(b"b")],
        ),
        (b"event: n\n\ndata: a\n\n", [ServerEvent(b"a")]),
        # Without the empty line at the end.
        (b"data: a\n\ndata: [DONE]", [ServerEvent(b"a"), ServerEvent(b"[DONE]")]),
        (b"data: a\n", [ServerEvent(b"a")]),
        (b"", []),
        (b"\n\n\r\n", []),
        ("data: grüße 🐫\n\n".encode(), [ServerEvent("grüße 🐫".encode())]),
    ],
)
def test_r5_streams_as_the_standard_has_them(stream: bytes, events: list[ServerEvent]) -> None:
    assert _read(stream) == events
    assert _read(*(bytes([byte]) for byte in stream)) == events


_LINES = st.sampled_from(
    ["data: x", "data:y", "data", "event: n", ": comment", "", "", "data: ü🐫", "\ufeffdata: z", "id: 7"]
)
_ENDS = st.sampled_from(["\n", "\r", "\r\n"])


@given(st.lists(st.tuples(_LINES, _ENDS), max_size=12), st.lists(st.integers(0, 200), max_size=8))
def test_r5_a_stream_reads_the_same_wherever_it_is_cut(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert b"".join(pieces) == stream
    assert _read(*pieces) == _read(stream)


def test_an_event_without_an_end_is_not_kept_for_ever() -> None:
    reader = SseReader(limit=100)
    assert list(reader.feed(b"data: " + b"a" * 80 + b"\n\n")) == [ServerEvent(b"a" * 80)]
    for _ in range(9):
        assert list(reader.feed(b"data: aaaaa\n")) == []
    with pytest.raises(EventTooLarge):
        list(reader.feed(b"data: aaaaa\n"))


def test_many_small_events_are_not_one_large_one() -> None:
    assert len(_read(b"data: aaaaaaaaaa\n\n" * 100, limit=20)) == 100
