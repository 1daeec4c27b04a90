"""Each reader of what others wrote, for a moment. `make fuzz` goes on from here for as long as it is let."""

from collections.abc import Callable
from pathlib import Path

import pytest
from devtools.traces.reading import parse_trace
from hypothesis import HealthCheck, given, settings, strategies as st

from conversations.snapshot_0_1 import load_0_1
from dragoman.journal.events import decode_events
from dragoman.loop.state import load as load_run
from fuzz.check import Check
from fuzz.targets import TARGETS

_CORPUS = Path(__file__).with_name("corpus")
# Those that go through a socket or a disk.
_SLOW = {
    "tool_server_bodies": 10,
    "tool_server_requests": 10,
    "stored_conversations": 30,
    "stored_journals": 20,
    "stored_rows": 30,
    "streamed_markdown": 20,
}
_EXAMPLES = 40
# What readers trip over: nesting, numbers and characters that are none, ends of lines and of quotes.
_TOKENS = (
    b"[" * 3_000,
    b'{"a":' * 1_500,
    b"9" * 5_000,
    b"1e999",
    b"NaN",
    b"\xff",
    b"\xed\xa0\x80",
    b"\\ud83d",
    b"\x00",
    b"\r\n",
    b"\x1b]0;\x07",
    b'"',
    b"null",
)


def _seeds(name: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((_CORPUS / name).iterdir()))


@st.composite
def _changed(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A seed with a few changes, or anything at all."""
    data = bytearray(
        draw(st.sampled_from(seeds)) if draw(st.integers(0, 9)) else draw(st.binary(max_size=64))
    )
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 8))
        data[start:end] = draw(st.sampled_from(_TOKENS) | st.binary(max_size=8))
    return bytes(data)


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.name for path in _CORPUS.iterdir()} == set(TARGETS)
    assert all(_seeds(name) for name in TARGETS)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("stored_conversations", lambda data: load_0_1(data.partition(b"\n")[2])),
        ("stored_events", decode_events),
        ("saved_runs", load_run),
        ("traces", parse_trace),
    ],
)
def test_what_we_write_ourselves_is_searched_from_something_that_is_read(
    name: str, read: Callable[[bytes], object]
) -> None:
    """A form that has changed would be refused at its first byte, and nothing behind it ever looked at."""
    for seed in _seeds(name):
        assert read(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_in_the_corpus_is_read_by_rule(name: str) -> None:
    with TARGETS[name]() as check:
        for seed in _seeds(name):
            check(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_is_read_or_refused_by_rule(name: str) -> None:
    with TARGETS[name]() as check:
        _searched(check, _seeds(name), _SLOW.get(name, _EXAMPLES))


def _searched(check: Check, seeds: tuple[bytes, ...], examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_changed(seeds))
    def search(data: bytes) -> None:
        check(data)

    search()
