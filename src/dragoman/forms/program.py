"""Does one check, in a process of its own: `python -m dragoman.forms.program`, with `checking` at the other end."""

from __future__ import annotations

import os
import sys

import msgspec

from dragoman.forms.check import check_answer, fault_of
from dragoman.lm import AnswerForm
from dragoman.lm.json import encode

__all__ = ["Task", "main"]

# Agents and the server itself come first.
_NICENESS = 10


class Task(msgspec.Struct, frozen=True):
    form: AnswerForm
    # The answer. None: the schema of the form is checked.
    text: str | None = None


def main() -> None:
    os.nice(_NICENESS)
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    result = fault_of(task.form) if task.text is None else check_answer(task.form, task.text)
    sys.stdout.buffer.write(encode(result))


if __name__ == "__main__":
    main()
