"""How deep a JSON text is nested, found without decoding it."""

import json
import sys

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.lm.json import decode, encode
from dragoman.lm.nesting import MOST_LEVELS, NestedTooDeeply, check_levels, envelope_of, is_deeper, place_of

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[]{},:\n'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\[{}]'), inner, max_size=3)
    ),
    max_leaves=20,
)


def _levels(value: object) -> int:
    match value:
        case list():
            return 1 + max(map(_levels, value), default=0)
        case dict():
            return 1 + max(map(_levels, value.values()), default=0)
        case _:
            return 0


@given(_JSON, st.integers(0, 8))
def test_levels_are_counted_as_the_value_has_them(value: object, most: int) -> None:
    for written in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert is_deeper(written.encode(), most) == (_levels(value) > most)


@given(_JSON)
def test_the_envelope_has_null_for_what_is_inside(value: object) -> None:
    shallow = {"id": 7, "deep": value, "last": "x"}
    expected = {"id": 7, "deep": None if isinstance(value, dict | list) else value, "last": "x"}
    assert decode(envelope_of(encode(shallow))) == expected


@pytest.mark.parametrize("depth", [MOST_LEVELS + 1, 100_000])
def test_the_place_of_what_is_too_deep_is_named(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    body = b'{"model":"m, [","input":[{"a":{"b":1}},{"role":"user","con\\"tent":' + deep + b"}]}"
    assert place_of(body) == 'input[1].con\\"tent'
    assert place_of(b'{"input":' + deep) == "input[0][0]"
    assert place_of(b'}"no json",' + deep) == "[0][0][0]"
    assert place_of(b'{"a":[1]}') == ""


@pytest.mark.parametrize("depth", [MOST_LEVELS + 1, 500, 3_000, 100_000])
def test_what_is_too_deep_is_refused_with_the_limit(depth: int) -> None:
    text = '{"a":' * depth + "1" + "}" * depth
    for given_as in (text, text.encode()):
        with pytest.raises(NestedTooDeeply, match=f"more than {MOST_LEVELS} levels"):
            decode(given_as)
    with pytest.raises(msgspec.DecodeError):
        decode("[" * depth)


def test_what_is_as_deep_as_may_be_is_read() -> None:
    text = b"[" * MOST_LEVELS + b"]" * MOST_LEVELS
    assert encode(decode(text)) == text
    check_levels(b"[]" * 10_000)


def test_an_envelope_that_is_cut_off_is_no_json() -> None:
    assert envelope_of(b'{"id":1,"params":[[' + b"[" * MOST_LEVELS) == b'{"id":1,"params":null'
    assert envelope_of(b'{"id":1}') == b'{"id":1}'


def test_counting_calls_no_function_for_a_level() -> None:
    """So that the limit holds however much of the stack is in use."""
    calls = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    def profiled(depth: int) -> int:
        nonlocal calls
        text = b"[" * depth + b"]" * depth
        calls = 0
        sys.setprofile(count)
        try:
            is_deeper(text)
        finally:
            sys.setprofile(None)
        return calls

    assert profiled(10_000) == profiled(100_000)
