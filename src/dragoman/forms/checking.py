"""Runs checks of answers and schemas, so that no client can hold up another one.

Simple schemas (`simple`), which are those of most clients, are checked at once: it takes milliseconds. Any other check runs in
a process. Nothing can end a thread, but a process is ended after `CHECK_SECONDS`, and when the caller is cancelled. Few
such processes run at once, and fewer for one key.
"""

from __future__ import annotations

import msgspec

from dragoman.forms.check import CheckedAnswer, check_quickly, fault_of
from dragoman.forms.program import Task
from dragoman.forms.simple import is_simple
from dragoman.forms.turns import FairTurns
from dragoman.lm import AnswerForm
from dragoman.lm.json import encode
from dragoman.tools.builtin.child import run_module

__all__ = ["CHECK_SECONDS", "TURNS", "checked", "schema_fault"]

# Most checks take a quarter of a second, for the start of the process. The rest is for large ones and a busy machine.
CHECK_SECONDS = 10.0
# Of all servers in this process, because they share its machine.
TURNS = FairTurns(at_once=4, per_key=2)
# A longer answer takes some milliseconds to find the value in.
_QUICK_CHARACTERS = 20_000
_PROGRAM = "dragoman.forms.program"


async def schema_fault(form: AnswerForm, key: str = "", *, most_waiting: int | None = None) -> str | None:
    """What is wrong with the schema of a form; None if it can be used. `key` is the client's.

    Raise `TooManyWait` if so many checks of this key wait already.
    """
    if form.schema is None or is_simple(form.schema):
        return fault_of(form)
    output, how = await _run(Task(form), key, most_waiting)
    return f"its check {how}" if output is None else msgspec.json.decode(output, type=str | None)


async def checked(form: AnswerForm, text: str, key: str = "") -> CheckedAnswer:
    """Check an answer. One whose check does not end in time is wrong. `key` is the client's."""
    if len(text) <= _QUICK_CHARACTERS and is_simple(form.schema):
        found = check_quickly(form, text)
        if found is not None:
            return found
    output, how = await _run(Task(form, text), key)
    if output is None:
        return CheckedAnswer(problems=(f"the check of the answer {how}",))
    return msgspec.json.decode(output, type=CheckedAnswer)


async def _run(task: Task, key: str, most_waiting: int | None = None) -> tuple[bytes | None, str]:
    """The result of a check in a process; or None, and why."""
    output = bytearray()
    async with TURNS.turn(key, most_waiting):
        code = await run_module(_PROGRAM, seconds=CHECK_SECONDS, receive=output.extend, given=encode(task))
    if code is None:
        return None, f"takes longer than {CHECK_SECONDS:g} seconds"
    return (bytes(output), "") if code == 0 else (None, "failed")
