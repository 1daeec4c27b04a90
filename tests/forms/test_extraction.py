"""The JSON value in an answer: found where it is alone, in a code block or between words, and never invented."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, strategies as st

from dragoman.forms.extraction import MOST_CHARACTERS, values_in

_SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
_CONTAINERS = _VALUES.filter(lambda value: isinstance(value, dict | list))
# Words without brackets and fences: what people write around a value.
_WORDS = st.text(string.ascii_letters + " .,:!?'\"\n", max_size=40)


def _texts(text: str) -> list[str]:
    return [text[found.start : found.end] for found in values_in(text)]


@given(_VALUES, st.sampled_from(["", " ", "\n\n", "\t"]), st.sampled_from([None, 2]))
def test_a_text_that_is_json_is_the_value(value: object, space: str, indent: int | None) -> None:
    encoded = json.dumps(value, indent=indent)
    (found,) = values_in(space + encoded + space)
    assert found.value == value
    assert _texts(space + encoded + space) == [encoded]


@given(_CONTAINERS, _WORDS, _WORDS)
def test_the_one_value_between_words_is_found_in_the_authors_own_characters(
    value: object, before: str, after: str
) -> None:
    encoded = json.dumps(value, ensure_ascii=False)
    text = f"x {before} {encoded} {after} x"
    (found,) = values_in(text)
    assert found.value == value
    assert text[found.start : found.end] == encoded


@given(_VALUES, _WORDS, _WORDS, st.sampled_from(["```", "```json", "~~~~ JSON"]))
def test_the_value_in_a_code_block_is_found(value: object, before: str, after: str, fence: str) -> None:
    end = fence.split("j", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    (found,) = values_in(f"See {before}\n{fence}\n{json.dumps(value, indent=1)}\n{end}\n{after}")
    assert found.value == value


@given(_CONTAINERS.filter(bool), st.data())
def test_a_value_that_was_cut_off_is_no_value(value: object, data: st.DataObject) -> None:
    encoded = json.dumps(value)
    cut = data.draw(st.integers(1, len(encoded) - 1))
    assert values_in(f"Here: {encoded[:cut]}") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No idea.",
        '{"a": {"b": 1}, oops}',
        '{"a": {"b": 1}',
        '{"a]}": [], "b',
        '{"a\\"]}": []',
        "[1, 2, {}, three]",
        '{"a": NaN}',
        "{'a': 1}",
        '{"a": 1,}',
        "```json\n{\n```",
        "{" * 200_000,
        "[" * 100 + "1" + "]" * 100 + " " + "[" * 200,
        '{"}' * 200,
        "{a} " * 100 + "{}",
    ],
)
def test_nothing_is_repaired_and_no_inner_value_is_taken(text: str) -> None:
    assert _texts(text) in ([], ["[" * 100 + "1" + "]" * 100])
    if "1]" not in text:
        assert values_in(text) == ()


def test_braces_of_prose_do_not_hide_the_value() -> None:
    assert _texts('Replace {name} in (x]: {"a": 1}') == ['{"a": 1}']


def test_several_values_are_all_found_up_to_a_limit() -> None:
    assert _texts('From [1] follows {"a": 1}.') == ["[1]", '{"a": 1}']
    assert len(values_in("so [1] " * 100)) == 64


def test_a_block_does_not_hide_the_values_in_the_words_around_it() -> None:
    text = 'For [1]:\n```json\n{"a": 1}\n```\nbut {"a": 2},\n```\n[3]\n```\nand [4].'
    assert _texts(text) == ["[1]", '{"a": 1}', '{"a": 2}', "[3]", "[4]"]
    assert _texts("Open [ of\n```\n{}\n```\nis ].") == ["{}"]


def test_beside_a_block_that_is_json_other_blocks_are_code() -> None:
    code = "```python\n{}[0]\n```\n"
    assert _texts(f'```\n{{"a": 1}}\n```\n{code}') == ['{"a": 1}']
    assert _texts(code) == ["{}", "[0]"]


def test_a_fence_is_closed_by_one_of_its_own_kind_and_length() -> None:
    assert _texts('````\n["```\\n"]\n````\n') == ['["```\\n"]']
    assert _texts("~~~\n[1]\n```\n~~~") == ["[1]"]
    assert _texts("```\n[1]\n``` not the end") == ["[1]"]


def test_a_value_that_is_nested_too_deeply_is_none() -> None:
    assert values_in("[" * 500 + "]" * 500) == ()
    assert values_in("so: " + "[" * 100_000 + "]" * 100_000) == ()


def test_a_text_that_is_too_long_is_not_searched() -> None:
    assert values_in("[1]" + " " * MOST_CHARACTERS) == ()
