"""The check of an answer against its form, and of a form's schema."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from dragoman.forms import checking
from dragoman.forms.check import CheckedAnswer, check_answer, fault_of
from dragoman.forms.checking import checked, schema_fault
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


async def test_a_good_schema_has_no_fault() -> None:
    assert fault_of(AnswerForm(_NUMBER)) is None
    assert fault_of(AnswerForm()) is None
    assert await schema_fault(AnswerForm(_NUMBER)) is None
    assert await schema_fault(AnswerForm()) is None


@pytest.mark.parametrize("keyword", [{"pattern": "^b+$"}, {"uniqueItems": True}])
async def test_a_risky_schema_is_checked_in_a_process_with_the_same_result(keyword: JsonObject) -> None:
    form = _form(**keyword)
    for text in ('"bbb"', '"abc"', "[1, 1]", "[1, 2]", "none"):
        assert await checked(form, text) == check_answer(form, text)


async def test_a_regular_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CHECK_SECONDS", 2.0)
    found = await checked(_form(pattern="^(a+)+$"), json.dumps("a" * 80 + "!"))
    assert found == CheckedAnswer(problems=("the check of the answer takes longer than 2 seconds",))


async def test_a_check_that_fails_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_PROGRAM", "dragoman.forms.no_such_program")
    found = await checked(_form(pattern="a"), '"a"')
    assert found == CheckedAnswer(problems=("the check of the answer failed",))
