"""Runs as JSON lines, for programs.

Standard output has one JSON object a line, each an event (`loop.events`), from `turn_started` to `ended`, and nothing
else. A question is the event `asked`, with the call's id. It is answered by a line on standard input:

    {"callId": "…", "decision": "allow"}
    {"callId": "…", "decision": "allow", "level": "session"}
    {"callId": "…", "decision": "deny", "reason": "…"}

`level` is once (the default), session, workspace or always. A line that is no such answer, or one for another call, is
reported on standard error and passed over. After the end of input there are no more answers: what would need one is
not done, and the result of the call says why.
"""

from __future__ import annotations

import asyncio
import os
from typing import Literal, TextIO

import msgspec

from dragoman.lm import CancellationToken
from dragoman.loop.events import RunEvent, to_json
from dragoman.tools.decision import ApprovalLevel, Approve, CannotAsk, Decision, Deny, ToolQuestion

__all__ = ["Answers", "InputLines", "JsonLines"]

# An answer is short; what is longer is something else, sent here by mistake.
_LONGEST_LINE = 64 * 1024
_READ = 8 * 1024


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    call_id: str
    decision: Literal["allow", "deny"]
    level: ApprovalLevel = "once"
    reason: str | None = None


class JsonLines:
    """Prints events as JSON lines."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def on_event(self, event: RunEvent) -> None:
        self._output.write(f"{to_json(event)}\n")
        self._output.flush()


class Answers:
    """Reads decisions as JSON lines."""

    def __init__(self, lines: InputLines, problems: TextIO) -> None:
        self._lines = lines
        self._problems = problems

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        del token
        while (line := await self._lines.next()) is not None:
            if not line.strip():
                continue
            try:
                answer = msgspec.json.decode(line, type=_Answer)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                self._complain(f"this line is no answer ({error}); write {_example(question)}")
                continue
            if answer.call_id != question.call_id:
                self._complain(
                    f"nothing is asked about the call {answer.call_id!r}, but about {question.call_id!r}"
                )
                continue
            return Approve(answer.level) if answer.decision == "allow" else Deny(answer.reason or None)
        self._complain(
            f"the input ended before there was an answer; {_example(question)} would have allowed it"
        )
        raise CannotAsk("The input ended before there was an answer.")

    def _complain(self, text: str) -> None:
        print(f"dragoman: {text}", file=self._problems, flush=True)


def _example(question: ToolQuestion) -> str:
    return f'{{"callId": "{question.call_id}", "decision": "allow"}}'


class InputLines:
    """The lines of a file descriptor, read without a thread: one that waits for input could not be ended."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""
        self._is_at_end = False

    async def next(self) -> bytes | None:
        """The next line; None at the end, and after a line that is too long to be one."""
        while b"\n" not in self._buffer and not self._is_at_end:
            await self._readable()
            piece = os.read(self._fd, _READ)
            self._buffer += piece
            self._is_at_end = not piece or len(self._buffer) > _LONGEST_LINE
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line if newline or line else None

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._fd, ready.set)
        except PermissionError:
            # A regular file: always ready, and not to be waited for.
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
