"""JSON at the edges of what JSON is."""

import json

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from dragoman.lm import TextPart, ToolResultPart
from dragoman.lm.json import canonical, decode, encode, encode_text, pretty


def test_equal_values_have_one_canonical_text() -> None:
    assert canonical({"b": 1, "a": {"d": 2, "c": 3}}) == canonical({"a": {"c": 3, "d": 2}, "b": 1})
    assert canonical({"a": [1, 2]}) != canonical({"a": [2, 1]})


def test_pretty_json_is_for_reading() -> None:
    assert pretty({"b": [1], "a": {}}) == '{\n  "a": {},\n  "b": [\n    1\n  ]\n}'


def test_a_json_text_is_one_line_without_spaces() -> None:
    assert encode_text({"a": [1, "b\nc"]}) == '{"a":[1,"b\\nc"]}'


@pytest.mark.parametrize(
    "text", ["", "{", "nul", "[1,]", '{"a":1}x', "'a'", b"\xff", b'"\xff"', "1e999", "[" * 100_000, "\ud800"]
)
def test_what_is_no_json_is_one_kind_of_error(text: str | bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d"', "�"),
        (r'"\ude00"', "�"),
        (r'"a\uD83Db"', "a�b"),
        (r'"\ud83d\ud83d\ude00"', "�😀"),
        (r'"\ude00\ud83d"', "��"),
        (r'"\\ud83d \ud83d"', r"\ud83d �"),
        (r'{"\udc00": ["\udfff"]}', {"�": ["�"]}),
    ],
)
def test_half_an_emoji_does_not_spoil_the_rest(text: str, value: object) -> None:
    """A consumer that cuts a text by its UTF-16 units sends halves."""
    assert decode(text) == value
    assert decode(text.encode()) == value


def test_a_half_does_not_hide_another_fault() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(r'["\ud83d", nonsense]')


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_what_any_javascript_writes_can_be_read(text: str) -> None:
    assert decode(json.dumps(text)) == _as_sent(text)


@given(st.text(alphabet=st.characters(exclude_categories=())))
@example("half \ud83d")
def test_what_cannot_be_sent_is_replaced_and_keeps_nothing_back(text: str) -> None:
    whole = _as_sent(text)
    assert decode(encode({text: [text, 1]})) == {whole: [whole, 1]}


def test_a_name_that_is_not_utf8_can_be_sent_in_a_part() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    result = ToolResultPart("dg_1", (TextPart(name),))
    assert (
        encode(result)
        == '{"type":"tool_result","callId":"dg_1","content":[{"type":"text","value":"caf�"}]}'.encode()
    )
    assert canonical((name,)) == '["caf�"]'


def _as_sent(text: str) -> str:
    """Pairs of halves joined, as JSON's escapes join them; halves alone replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
