"""Checks an answer against the form that it must have.

This may take long: `checking` runs it beside the event loop. References are never fetched (`tools.validation`).
"""

from __future__ import annotations

from itertools import islice

import msgspec

from dragoman.forms.extraction import MOST_CHARACTERS, FoundValue, values_in
from dragoman.lm import AnswerForm, JsonObject
from dragoman.tools.mismatch import cut
from dragoman.tools.schema import SchemaError, check_schema

__all__ = ["CheckedAnswer", "check_answer", "fault_of"]

# So many problems are named, to the agent and to the client.
_PROBLEMS = 8
_NO_VALUE = "the answer has no JSON value"
_SEVERAL = "the answer has more than one JSON value"
_TOO_LONG = f"the answer has more than {MOST_CHARACTERS:,} characters"
_NO_OBJECT = "the answer is JSON, but not an object"
_TOO_MUCH = "the answer takes too long to check"


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
    found = values_in(text)
    if not found:
        return CheckedAnswer(problems=(_TOO_LONG if len(text) > MOST_CHARACTERS else _NO_VALUE,))
    checked = [(each, _problems(form.schema, each)) for each in found]
    fitting = [each for each, problems in checked if not problems]
    if len(fitting) == 1:
        return CheckedAnswer(fitting[0].start, fitting[0].end)
    if fitting:
        return CheckedAnswer(problems=(_SEVERAL,))
    # The last value is the one that the words before it lead to.
    return CheckedAnswer(problems=checked[-1][1])


def _problems(schema: JsonObject | None, found: FoundValue) -> tuple[str, ...]:
    if schema is None:
        return () if isinstance(found.value, dict) else (_NO_OBJECT,)
    from dragoman.tools import validation  # noqa: PLC0415 - the library takes a tenth of a second to import

    try:
        with validation.limited_work():
            lines = list(islice(validation.problems(schema, found.value), _PROBLEMS + 1))
    except (validation.TooMuchWork, RecursionError):
        return (_TOO_MUCH,)
    except Exception as error:
        # A schema that no front end has checked can fail in any way inside the library.
        return (f"the answer cannot be checked, because its schema is broken: {cut(str(error))}",)
    if len(lines) > _PROBLEMS:
        lines[_PROBLEMS:] = ["… and more"]
    return tuple(line.replace("input: ", "answer: ", 1) for line in lines)
