"""Checks at once and in a process: the same results, an end in any case, and no key before another."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.forms import checking
from dragoman.forms.check import CheckedAnswer, check_answer, fault_of
from dragoman.forms.checking import checked, schema_fault
from dragoman.lm import AnswerForm, JsonObject
from forms.running import checks_run

_NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
# The library compares all pairs of objects: it takes minutes.
_ENDLESS = AnswerForm(
    {"$schema": "http://json-schema.org/draft-04/schema#", "enum": [{"a": n} for n in range(4_900)]}
)


def _form(**schema: object) -> AnswerForm:
    return AnswerForm(schema)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_PROGRAM", "dragoman.forms.no_such_program")


@pytest.mark.usefixtures("no_process")
async def test_a_simple_check_needs_no_process() -> None:
    assert (await checked(AnswerForm(_NUMBER), '{"n": 1}')).is_accepted
    assert (await checked(AnswerForm(), "{}")).is_accepted
    assert await schema_fault(AnswerForm(_NUMBER)) is None
    assert await schema_fault(AnswerForm()) is None
    assert "expected one of" in str(await schema_fault(_form(type="objet")))


@pytest.mark.usefixtures("no_process")
async def test_a_check_that_fails_says_so() -> None:
    found = await checked(_form(pattern="a"), '"a"')
    assert found == CheckedAnswer(problems=("the check of the answer failed",))
    assert await schema_fault(_form(pattern="a")) == "its check failed"


@pytest.mark.parametrize(
    "keyword",
    [
        {"pattern": "^b+$"},
        pytest.param({"uniqueItems": True}, marks=pytest.mark.long),
        pytest.param({"enum": ["bbb", [1, 2]]}, marks=pytest.mark.long),
    ],
)
async def test_a_check_in_a_process_has_the_same_result(keyword: JsonObject) -> None:
    form = _form(**keyword)
    for text in ('"bbb"', '"abc"', "[1, 1]", "[1, 2]", "none"):
        assert await checked(form, text) == check_answer(form, text)
    assert await schema_fault(form) is None
    broken = _form(pattern="(", enum=[{}])
    assert await schema_fault(broken) == fault_of(broken)


async def test_a_long_answer_and_one_of_many_steps_are_checked_in_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The steps end the check, also on a machine that is slow.
    monkeypatch.setattr(checking, "CHECK_SECONDS", 300.0)
    long = json.dumps([1] * 10_000)
    assert await checked(_form(items={"type": "integer"}), long) == CheckedAnswer(0, len(long))
    fanning = _form(
        **{"$defs": {"x": {"allOf": [{"items": {"$ref": "#/$defs/x"}}] * 6}}, "$ref": "#/$defs/x"}
    )
    found = await checked(fanning, "[" * 12 + "]" * 12)
    assert found.problems == ("the answer takes too long to check",)


async def test_a_check_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CHECK_SECONDS", 0.8)
    found = await checked(_form(pattern="^(a+)+$"), json.dumps("a" * 80 + "!"))
    assert found == CheckedAnswer(problems=("the check of the answer takes longer than 0.8 seconds",))
    assert await schema_fault(_ENDLESS) == "its check takes longer than 0.8 seconds"
    await checks_run(0)


async def test_one_key_does_not_hold_up_another_and_its_checks_end_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "CHECK_SECONDS", 100_000.0)
    endless = [asyncio.create_task(schema_fault(_ENDLESS, "a")) for _ in range(20)]
    await checks_run(2)
    assert (await checked(_form(pattern="a"), '"a"', "b")).is_accepted
    assert not any(task.done() for task in endless)
    for task in endless:
        task.cancel()
    await asyncio.wait(endless)
    await checks_run(0)
