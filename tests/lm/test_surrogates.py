"""Halves of characters: joined or replaced."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from dragoman.lm.surrogates import SurrogateJoiner, mended, mended_json, mended_value

GRIN = "\U0001f600"
HIGH, LOW = "\ud83d", "\ude00"

# Not `st.text`, which leaves surrogates out whatever its alphabet.
any_text = st.lists(
    st.sampled_from([HIGH, LOW, GRIN, "a", "é", "\n", '"']) | st.integers(0, 0x10FFFF).map(chr)
).map("".join)


def utf16_units(text: str) -> list[str]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        (f"é{GRIN}", f"é{GRIN}"),
        (HIGH + LOW, GRIN),
        (f"a{HIGH}b", "a\ufffdb"),
        (f"a{LOW}b", "a\ufffdb"),
        (LOW + HIGH, "\ufffd\ufffd"),
        (HIGH + HIGH + LOW, f"\ufffd{GRIN}"),
    ],
)
def test_mended(text: str, expected: str) -> None:
    assert mended(text) == expected


def test_halves_in_two_chunks_are_joined() -> None:
    joiner = SurrogateJoiner()
    assert joiner.feed(f"smile {HIGH}") == "smile "
    assert joiner.feed("") == ""
    assert joiner.feed(f"{LOW}!") == f"{GRIN}!"
    assert joiner.end() == ""


def test_an_orphan_becomes_a_replacement_character_in_its_place() -> None:
    joiner = SurrogateJoiner()
    assert joiner.feed(f"a{HIGH}") + joiner.feed("b") + joiner.feed(f"{LOW}c") == "a\ufffdb\ufffdc"
    assert joiner.feed(HIGH) == ""
    assert joiner.end() == "\ufffd"
    assert joiner.end() == ""


@given(st.text(), st.data())
def test_text_split_anywhere_in_utf16_is_put_together_again(text: str, data: st.DataObject) -> None:
    units = utf16_units(text)
    joiner = SurrogateJoiner()
    joined = ""
    while units:
        size = data.draw(st.integers(1, len(units)))
        joined += joiner.feed("".join(units[:size]))
        units = units[size:]
    assert joined + joiner.end() == text


@given(st.lists(any_text))
def test_joining_loses_nothing_and_gives_whole_characters(chunks: list[str]) -> None:
    joiner = SurrogateJoiner()
    joined = "".join(map(joiner.feed, chunks)) + joiner.end()
    joined.encode()
    assert joined == mended("".join(chunks))


def test_all_strings_of_a_value_are_mended() -> None:
    value = {HIGH: [(f"a{LOW}", HIGH + LOW), 1, None], "b": True}
    assert mended_value(value) == {"\ufffd": [["a\ufffd", GRIN], 1, None], "b": True}


@given(any_text)
def test_a_json_text_is_mended_as_its_value_is(text: str) -> None:
    written = json.dumps({text: [text]}).encode()
    assert json.loads(mended_json(written)) == {mended(text): [mended(text)]}


def test_a_json_text_without_halves_is_left_alone() -> None:
    whole = rb'["\ud83d\ude00 \uD83D\uDE00 \\ud83d", "a"]'
    assert mended_json(whole) == whole
