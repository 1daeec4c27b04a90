"""Checks an answer against the form that it must have.

This may take long. `checking` runs here only what is `simple` and ends within a few steps, and all else in a process.
References are never fetched (`tools.validation`).
"""

from __future__ import annotations

from itertools import islice

import msgspec

from dragoman.forms.extraction import MOST_CHARACTERS, FoundValue, values_in
from dragoman.lm import AnswerForm, JsonObject
from dragoman.lm.json import canonical
from dragoman.tools.mismatch import cut
from dragoman.tools.schema import SchemaError, check_schema
from dragoman.tools.work import MAX_STEPS, TooMuchWork, limited_work

__all__ = ["CheckedAnswer", "check_answer", "check_quickly", "fault_of"]

# So many problems are named, to the agent and to the client.
_PROBLEMS = 8
_NO_VALUE = "the answer has no JSON value"
_SEVERAL = "the answer has more than one JSON value"
_TOO_LONG = f"the answer has more than {MOST_CHARACTERS:,} characters"
_NO_OBJECT = "the answer is JSON, but not an object"
_TOO_MUCH = "the answer takes too long to check"
# About a fiftieth of a second.
_QUICK_STEPS = 5_000


class CheckedAnswer(msgspec.Struct, frozen=True):
    """Where in the text the value is, or what is wrong."""

    start: int = 0
    end: int = 0
    problems: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        return not self.problems


def fault_of(form: AnswerForm) -> str | None:
    """What is wrong with the schema of a form; None if it can be used."""
    if form.schema is None:
        return None
    try:
        check_schema(form.schema)
    except SchemaError as error:
        return str(error)
    return None


def check_answer(form: AnswerForm, text: str) -> CheckedAnswer:
    """Find the one JSON value of an answer that its form accepts."""
    return _checked(form, text, MAX_STEPS) or CheckedAnswer(problems=(_TOO_MUCH,))


def check_quickly(form: AnswerForm, text: str) -> CheckedAnswer | None:
    """Do the same, or give up soon and return None."""
    return _checked(form, text, _QUICK_STEPS)


def _checked(form: AnswerForm, text: str, steps: int) -> CheckedAnswer | None:
    found = values_in(text)
    if not found:
        return CheckedAnswer(problems=(_TOO_LONG if len(text) > MOST_CHARACTERS else _NO_VALUE,))
    try:
        with limited_work(steps):
            checked = [(each, _problems(form.schema, each)) for each in found]
    except TooMuchWork:
        return None
    fitting = [each for each, problems in checked if not problems]
    if len({canonical(each.value) for each in fitting}) > 1:
        return CheckedAnswer(problems=(_SEVERAL,))
    if fitting:
        # The same value may be there twice.
        return CheckedAnswer(fitting[-1].start, fitting[-1].end)
    # The last value is the one that the words before it lead to.
    return CheckedAnswer(problems=checked[-1][1])


def _problems(schema: JsonObject | None, found: FoundValue) -> tuple[str, ...]:
    if schema is None:
        return () if isinstance(found.value, dict) else (_NO_OBJECT,)
    from dragoman.tools import validation  # noqa: PLC0415 - the library takes a tenth of a second to import

    try:
        lines = list(islice(validation.problems(schema, found.value), _PROBLEMS + 1))
    except TooMuchWork:
        raise
    except RecursionError:
        return (_TOO_MUCH,)
    except Exception as error:
        # A schema that no front end has checked can fail in any way inside the library.
        return (f"the answer cannot be checked, because its schema is broken: {cut(str(error))}",)
    if len(lines) > _PROBLEMS:
        lines[_PROBLEMS:] = ["… and more"]
    return tuple(line.replace("input: ", "answer: ", 1) for line in lines)
