"""Runs checks of answers and schemas beside the event loop.

A check runs in a thread, and its work is limited (`tools.validation`). That does not help against a regular expression
that takes for ever: nothing can end a thread. So a schema with regular expressions, or with `uniqueItems`, which compares
all items with each other, is checked in a process that is ended after `CHECK_SECONDS`. The answer then counts as wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from dragoman.forms.check import CheckedAnswer, check_answer, fault_of
from dragoman.lm import AnswerForm
from dragoman.lm.json import encode
from dragoman.tools.builtin.child import run_module

__all__ = ["CHECK_SECONDS", "checked", "schema_fault"]

# Most checks take milliseconds. The rest is for the start of a process on a busy machine.
CHECK_SECONDS = 10.0
_RISKY = frozenset({"pattern", "patternProperties", "uniqueItems"})
_PROGRAM = "dragoman.forms.program"


async def schema_fault(form: AnswerForm) -> str | None:
    """What is wrong with the schema of a form; None if it can be used."""
    return None if form.schema is None else await asyncio.to_thread(fault_of, form)


async def checked(form: AnswerForm, text: str) -> CheckedAnswer:
    """Check an answer. One whose check does not end in time is wrong."""
    if not any(keyword in _RISKY for keyword in _keys(form.schema)):
        return await asyncio.to_thread(check_answer, form, text)
    output = bytearray()
    code = await run_module(
        _PROGRAM,
        seconds=CHECK_SECONDS,
        receive=output.extend,
        given=encode({"form": form, "text": text}),
    )
    if code != 0:
        how = f"takes longer than {CHECK_SECONDS:g} seconds" if code is None else "failed"
        return CheckedAnswer(problems=(f"the check of the answer {how}",))
    return msgspec.json.decode(bytes(output), type=CheckedAnswer)


def _keys(schema: object) -> Iterator[str]:
    """All names in a schema, whatever they are names of. A name too many only costs time."""
    level = [schema]
    while level:
        value = level.pop()
        if isinstance(value, dict):
            yield from value
            level += value.values()
        elif isinstance(value, list):
            level += value
