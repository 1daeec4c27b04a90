"""The format of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.traces.reading import TraceError, connections, is_reply, is_request, parse_trace, read_trace
from hypothesis import given, settings, strategies as st

from dragoman.traces.frames import Frame, encode_frame
from searching import examples
from traces.listening import DATA

# Halves of characters included: agents cut their text where they like.
_text = st.text(st.characters(codec=None), max_size=20)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
frames = st.builds(
    Frame,
    st.floats(0, 1e6),
    st.sampled_from(["c2a", "a2c"]),
    st.none() | st.dictionaries(_text, _json, max_size=4),
    _text,
    _text,
)


@settings(max_examples=examples(40))
@given(st.lists(frames, max_size=5))
def test_what_is_written_is_read_again(written: list[Frame]) -> None:
    data = b"".join(map(encode_frame, written))
    assert data.count(b"\n") == len(written)
    assert list(parse_trace(data)) == written


def test_the_plain_form_is_read_and_what_is_not_known_ignored() -> None:
    line = b'{"t": 0.5, "dir": "a2c", "msg": {"jsonrpc": "2.0", "id": 1, "result": null}, "new": 1}\n\n'
    (frame,) = parse_trace(line)
    assert frame == Frame(0.5, "a2c", {"jsonrpc": "2.0", "id": 1, "result": None})
    assert is_reply(frame)
    assert not is_request(frame)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"id": 1, "method": "m"}, (True, False)),
        ({"method": "m"}, (False, False)),
        ({"id": 1, "error": {}}, (False, True)),
        (None, (False, False)),
    ],
)
def test_what_kind_of_message_it_is(message: dict[str, object] | None, kind: tuple[bool, bool]) -> None:
    frame = Frame(0, "c2a", message)
    assert (is_request(frame), is_reply(frame)) == kind


def test_a_line_that_was_being_written_is_left_out() -> None:
    whole = encode_frame(Frame(0, "c2a", {"method": "m"}))
    for cut in range(len(whole)):
        assert len(parse_trace(whole + whole[:cut])) == 1


@pytest.mark.parametrize(
    "line", [b"no", b"[]", b'{"t": 0, "dir": "up"}', b'{"dir": "a2c"}', b'{"t": "\xff"}']
)
def test_a_line_that_is_no_frame_is_named(line: bytes) -> None:
    good = encode_frame(Frame(0, "c2a", {"method": "m"}))
    with pytest.raises(TraceError, match=r"^x\.jsonl:2: this is no frame: "):
        parse_trace(good + line + b"\n", "x.jsonl")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "none")


def test_the_connections_of_a_file_are_told_apart() -> None:
    each = [Frame(at, "c2a", {"method": "m"}, name) for at, name in enumerate(["b", "a", "b"])]
    assert connections(each) == {"b": (each[0], each[2]), "a": (each[1],)}


def test_the_traces_here_name_no_folder_of_a_machine_and_no_secret() -> None:
    for path in DATA.glob("*.jsonl"):
        text = path.read_text()
        for unwanted in ("/home/", "/root", "/tmp/", "/work", "/Users", "Bearer ", "sk-"):
            assert unwanted not in text, (path.name, unwanted)
