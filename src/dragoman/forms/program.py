"""Checks one answer, in a process of its own: `python -m dragoman.forms.program`, with `checking` at the other end."""

from __future__ import annotations

import sys

import msgspec

from dragoman.forms.check import check_answer
from dragoman.lm import AnswerForm
from dragoman.lm.json import encode

__all__ = ["main"]


class _Task(msgspec.Struct, frozen=True):
    form: AnswerForm
    text: str


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=_Task)
    sys.stdout.buffer.write(encode(check_answer(task.form, task.text)))


if __name__ == "__main__":
    main()
