"""The check of an answer against its form, and of a form's schema."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from dragoman.forms.check import check_answer, check_quickly, fault_of
from dragoman.forms.extraction import MOST_CHARACTERS
from dragoman.lm import AnswerForm, JsonObject

_NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _form(**schema: object) -> AnswerForm:
    return AnswerForm(schema)


@given(st.dictionaries(st.sampled_from(["n", "m"]), st.integers() | st.text(max_size=3) | st.none()))
def test_an_answer_is_accepted_exactly_if_its_schema_accepts_it(value: dict[str, object]) -> None:
    text = f"Here: {json.dumps(value)}."
    found = check_answer(AnswerForm(_NUMBER), text)
    assert found.is_accepted == isinstance(value.get("n"), int)
    if found.is_accepted:
        assert json.loads(text[found.start : found.end]) == value
    else:
        assert any("n" in problem for problem in found.problems)


def test_without_a_schema_any_object_is_accepted_and_nothing_else() -> None:
    assert check_answer(AnswerForm(), '{"a": 1}').is_accepted
    assert check_answer(AnswerForm(), "[1]").problems == ("the answer is JSON, but not an object",)


def test_of_several_values_the_only_one_that_fits_is_the_answer() -> None:
    text = 'From [1] follows {"n": 2}.'
    found = check_answer(AnswerForm(_NUMBER), text)
    assert text[found.start : found.end] == '{"n": 2}'
    both = check_answer(AnswerForm(_NUMBER), 'Either {"n": 1} or {"n": 2}.')
    assert both.problems == ("the answer has more than one JSON value",)


def test_an_example_in_a_code_block_is_not_taken_for_the_answer() -> None:
    text = 'For example:\n```json\n{"n": 1}\n```\nbut my answer is {"n": 2}'
    assert check_answer(AnswerForm(_NUMBER), text).problems == ("the answer has more than one JSON value",)
    unlike = check_answer(AnswerForm(_NUMBER), text.replace('"n": 1', '"m": 1'))
    assert unlike.is_accepted
    assert text[unlike.start : unlike.end] == '{"n": 2}'


def test_the_same_value_twice_is_one_answer() -> None:
    text = 'It is {"n": 2}:\n```json\n{\n "n": 2}\n```\n'
    found = check_answer(AnswerForm(_NUMBER), text)
    assert text[found.start : found.end] == '{\n "n": 2}'


def test_the_problems_of_the_last_value_are_named_and_not_too_many() -> None:
    found = check_answer(AnswerForm(_NUMBER), 'See {"n": "x"}')
    assert found.problems == ("n: expected integer, got string 'x'",)
    many = check_answer(_form(items={"type": "string"}), json.dumps(list(range(20))))
    assert len(many.problems) == 9
    assert many.problems[-1] == "… and more"
    whole = check_answer(_form(type="string"), "[]")
    assert whole.problems == ("answer: expected string, got array []",)


def test_an_answer_without_json_says_so() -> None:
    assert check_answer(AnswerForm(), "None.").problems == ("the answer has no JSON value",)
    long = check_answer(AnswerForm(), "x" * (MOST_CHARACTERS + 1))
    assert long.problems == ("the answer has more than 1,000,000 characters",)


def test_a_check_that_takes_too_much_work_is_given_up() -> None:
    wide: JsonObject = {"anyOf": [{"$ref": "#"}] * 2}
    schema: JsonObject = {
        "$defs": {"x": {"allOf": [{"items": {"$ref": "#/$defs/x"}}] * 6}},
        "$ref": "#/$defs/x",
    }
    deep = "[" * 12 + "]" * 12
    for form, text in ((AnswerForm(wide), "[]"), (AnswerForm(schema), deep)):
        assert check_answer(form, text).problems == ("the answer takes too long to check",)


def test_a_schema_that_was_never_checked_does_no_harm() -> None:
    (problem,) = check_answer(_form(type="objet"), "{}").problems
    assert "its schema is broken" in problem


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "objet"}, ".type: expected one of"),
        ({"properties": {"a": {"pattern": "("}}}, ".properties.a.pattern: '(' is not a 'regex'"),
        ({"$ref": "#/$defs/a"}, "refers to '#/$defs/a', which is not in this schema"),
        ({"$ref": "https://example.org/a"}, "references are not fetched"),
    ],
)
def test_a_schema_that_cannot_be_used_is_described(schema: JsonObject, fault: str) -> None:
    found = fault_of(AnswerForm(schema))
    assert found is not None
    assert fault in found


def test_a_good_schema_has_no_fault() -> None:
    assert fault_of(AnswerForm(_NUMBER)) is None
    assert fault_of(AnswerForm()) is None


def test_a_large_choice_counts_by_its_size() -> None:
    # 2,000 items, each compared with up to 4,900 objects.
    form = _form(items={"enum": [{"a": number} for number in range(4_900)]})
    found = check_answer(form, json.dumps([{"a": 4_899}] * 2_000))
    assert found.problems == ("the answer takes too long to check",)


@pytest.mark.parametrize("items", [[{"a": number} for number in range(1_500)], [*range(1_500), "a"]])
def test_comparing_all_items_with_each_other_counts_by_their_number(items: list[object]) -> None:
    form = _form(uniqueItems=True)
    assert check_answer(form, json.dumps(items)).problems == ("the answer takes too long to check",)
    assert check_answer(form, json.dumps(items[:100])).is_accepted
    for sortable in ([*range(5_000)], [str(number) for number in range(5_000)]):
        assert check_answer(form, json.dumps(sortable)).is_accepted
    assert check_answer(form, "{}").is_accepted


def test_the_search_for_a_similar_name_counts() -> None:
    form = _form(properties=dict.fromkeys((f"{number:090}" for number in range(200)), True))
    assert form.schema is not None
    form.schema["additionalProperties"] = False
    text = json.dumps(dict.fromkeys((f"{number:089}" for number in range(20)), 1))
    assert check_answer(form, text).problems == ("the answer takes too long to check",)


def test_a_quick_check_gives_up_where_the_whole_one_goes_on() -> None:
    text = json.dumps([1] * 6_000)
    form = _form(items={"type": "integer"})
    assert check_quickly(form, text) is None
    assert check_answer(form, text).is_accepted
    assert check_quickly(form, "[1]") == check_answer(form, "[1]")
