"""JSON for the wire: halves of characters are never sent, and never a reason to lose a line."""

from __future__ import annotations

import json
from typing import Literal

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.jsonrpc.text import Decoder, encode, loads_tolerantly
from dragoman.lm.surrogates import mended

GRIN = "\U0001f600"
HIGH, LOW = "\ud83d", "\ude00"

# Not `st.text`, which leaves surrogates out whatever its alphabet.
any_text = st.lists(
    st.sampled_from([HIGH, LOW, GRIN, "a", "é", "\n", '"']) | st.integers(0, 0x10FFFF).map(chr)
).map("".join)


class Chunk(msgspec.Struct):
    text: str
    kind: Literal["a", "b"] = "a"
    raw: msgspec.Raw = msgspec.Raw(b"null")


class Left(msgspec.Struct, tag="left"):
    text: str


class Right(msgspec.Struct, tag="right"):
    text: str


@given(any_text)
def test_encoding_is_readable_by_a_strict_decoder(text: str) -> None:
    value = {"text": text, text: [text, Chunk(text)]}
    decoded = msgspec.json.decode(encode(value))
    assert decoded["text"] == mended(text)
    assert decoded[mended(text)][1]["text"] == mended(text)


@given(any_text)
def test_raw_json_with_halves_is_mended_on_the_way_out(text: str) -> None:
    raw = msgspec.Raw(json.dumps({"text": text}).encode())
    assert msgspec.json.decode(encode({"inner": raw})) == {"inner": {"text": mended(text)}}
    # Together with text that cannot be encoded either.
    value = {"inner": raw, "outer": (HIGH, 1)}
    assert msgspec.json.decode(encode(value)) == {"inner": {"text": mended(text)}, "outer": ["\ufffd", 1]}


def test_raw_json_with_line_breaks_becomes_one_line() -> None:
    pretty = json.dumps({"a": ["x\ny", {"b": 1}]}, indent=2).encode()
    data = encode({"inner": msgspec.Raw(pretty)})
    assert b"\n" not in data
    assert msgspec.json.decode(data) == {"inner": {"a": ["x\ny", {"b": 1}]}}


def test_escapes_of_whole_characters_are_left_alone() -> None:
    raw = b'"\\ud83d\\ude00 \\uD83D\\uDE00 \\\\ud83d"'
    assert encode(msgspec.Raw(raw)) == raw


def test_a_type_is_read_with_halves_in_its_text() -> None:
    decoder = Decoder(Chunk)
    assert decoder.decode(b'{"text":"a"}') == Chunk("a")
    assert decoder.decode(b'{"text":"a\\ud83d"}').text == f"a{HIGH}"
    assert decoder.decode(b'{"text":"\\ude00","kind":"b"}') == Chunk(LOW, "b")


def test_where_halves_cannot_be_kept_they_are_replaced() -> None:
    # In a field left as JSON, in an unknown name, in a tag.
    chunk = Decoder(Chunk).decode(b'{"text":"\\ud83d","raw":{"t":"\\ude00"}}')
    assert (chunk.text, bytes(chunk.raw)) == ("\ufffd", '{"t":"\ufffd"}'.encode())
    assert Decoder(Chunk).decode(b'{"text":"a","\\ud83d":1}') == Chunk("a")
    union: Decoder[Left | Right] = Decoder(Left | Right)  # type: ignore[arg-type] # a union is no class, and yet a type
    with pytest.raises(msgspec.ValidationError, match="Invalid value"):
        union.decode(b'{"type":"\\ud83d","text":"a"}')


@pytest.mark.parametrize("data", [b'{"text":1}', b'{"text":1,"x":"\\ud83d"}', b"[]", b'["\\ud83d"]'])
def test_another_shape_is_a_validation_error(data: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        Decoder(Chunk).decode(data)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"nope", b'{"text":"\xff\\ud83d"}', b"[" * 100_000, b"9" * 5000 + b"x"]
)
def test_no_json_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        loads_tolerantly(data)
    with pytest.raises(msgspec.DecodeError):
        Decoder(Chunk).decode(data)
