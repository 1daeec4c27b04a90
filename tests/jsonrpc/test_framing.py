"""Bytes in any pieces give the same lines, in bounded memory."""

from __future__ import annotations

from hypothesis import given, strategies as st

from dragoman.jsonrpc.framing import Line, LineSplitter, Oversized

CHUNK = 64 * 1024


def split(data: bytes, cuts: list[int], limit: int = 1000) -> list[Line]:
    splitter = LineSplitter(limit)
    lines: list[Line] = []
    start = 0
    for cut in [*sorted(at % (len(data) + 1) for at in cuts), len(data)]:
        lines += splitter.feed(data[start:cut])
        assert splitter.buffered <= limit
        start = cut
    return lines + splitter.end()


def test_lines_end_with_lf_or_crlf_and_empty_ones_are_nobodys() -> None:
    assert split(b"a\r\n\n\r\n  \nb\nc\r\r\n", []) == [b"a", b"b", b"c\r"]


def test_the_last_line_may_lack_its_line_break() -> None:
    assert split(b"a\nb", []) == [b"a", b"b"]
    assert split(b"a\n\r", []) == [b"a"]
    assert LineSplitter().end() == []


def test_a_character_and_a_crlf_may_be_split() -> None:
    data = "é\r\nü\r\n".encode()
    assert split(data, list(range(len(data)))) == ["é".encode(), "ü".encode()]


@given(
    st.lists(st.binary(min_size=0, max_size=30).map(lambda line: line.replace(b"\n", b""))),
    st.sampled_from([b"\n", b"\r\n"]),
    st.lists(st.integers(0)),
)
def test_any_split_gives_the_same_lines(lines: list[bytes], ending: bytes, cuts: list[int]) -> None:
    data = b"".join(line + ending for line in lines)
    assert split(data, cuts) == split(data, [])
    cleaned = [line.removesuffix(b"\r") if ending == b"\n" else line for line in lines]
    assert split(data, cuts) == [line for line in cleaned if line.strip()]


@given(st.lists(st.integers(0, 25), max_size=8), st.lists(st.integers(0)))
def test_too_long_lines_are_counted_and_the_others_served(sizes: list[int], cuts: list[int]) -> None:
    data = b"".join(b"x" * size + b"\n" for size in sizes)
    expected = [b"x" * size if size <= 10 else Oversized(size) for size in sizes if size]
    assert split(data, cuts, limit=10) == expected


def test_a_line_of_100_megabytes_is_never_held() -> None:
    splitter = LineSplitter(1024 * 1024)
    assert splitter.feed(b"before\n[") == [b"before"]
    for _ in range(1600):
        assert splitter.feed(b"1" * CHUNK) == []
        assert splitter.buffered <= 1024 * 1024
    assert splitter.buffered == 0
    assert splitter.feed(b"]\nafter\n") == [Oversized(1600 * CHUNK + 2), b"after"]


def test_a_stream_that_ends_within_a_long_line() -> None:
    splitter = LineSplitter(5)
    assert splitter.feed(b"1234567") == []
    assert splitter.end() == [Oversized(7)]
    assert splitter.end() == []
