"""Answers from a program, on standard input."""

import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.frontends.terminal.lines import Answers, InputLines, JsonLines
from dragoman.lm import CancellationToken
from dragoman.loop.events import Ended, TextReported
from dragoman.tools.decision import Approve, CannotAsk, Decision, Deny, ToolQuestion
from dragoman.tools.tool import Confirmation

_QUESTION = ToolQuestion("c1", "write_file", "Write file", {}, Confirmation("Write it?"))
_DEADLINE = 20


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.FileIO]]:
    reading, writing = os.pipe()
    with io.FileIO(writing, "w") as file:
        yield reading, file
    os.close(reading)


async def answered(fd: int) -> tuple[Decision, str]:
    problems = io.StringIO()
    decision = await asyncio.wait_for(
        Answers(InputLines(fd), problems).confirm(_QUESTION, CancellationToken()), _DEADLINE
    )
    return decision, problems.getvalue()


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ('{"callId": "c1", "decision": "allow"}', Approve()),
        ('{"callId": "c1", "decision": "allow", "level": "session"}', Approve("session")),
        ('{"callId": "c1", "decision": "deny"}', Deny()),
        ('{"callId": "c1", "decision": "deny", "reason": "no"}', Deny("no")),
        ('{"callId": "c1", "decision": "deny", "reason": "", "more": 1}', Deny()),
    ],
)
async def test_a_line_decides(pipe: tuple[int, io.FileIO], line: str, decision: Decision) -> None:
    reading, writing = pipe
    writing.write(f"{line}\n".encode())
    assert await answered(reading) == (decision, "")


async def test_the_end_of_input_is_nobodys_denial_and_says_what_would_have_allowed(
    pipe: tuple[int, io.FileIO],
) -> None:
    reading, writing = pipe
    writing.close()
    problems = io.StringIO()
    with pytest.raises(CannotAsk, match="ended before"):
        await asyncio.wait_for(
            Answers(InputLines(reading), problems).confirm(_QUESTION, CancellationToken()), _DEADLINE
        )
    assert '{"callId": "c1", "decision": "allow"}' in problems.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        *("yes", "{}", "[]", '{"callId": "\udcff"}', '{"x": ' + "[" * 3_000),
        *('{"callId": "c1", "decision": "maybe"}', '{"callId": "other", "decision": "allow"}'),
    ],
    ids=lambda line: line[:40].encode("ascii", "replace").decode(),
)
async def test_what_is_no_answer_to_this_question_is_passed_over(
    pipe: tuple[int, io.FileIO], line: str
) -> None:
    reading, writing = pipe
    writing.write(f'{line}\n\n{{"callId": "c1", "decision": "deny"}}\n'.encode("utf-8", "surrogateescape"))
    decision, problems = await answered(reading)
    assert decision == Deny()
    assert problems.startswith("dragoman: ")


async def test_an_answer_may_come_in_pieces_and_with_the_next(pipe: tuple[int, io.FileIO]) -> None:
    reading, writing = pipe
    lines = InputLines(reading)
    waiting = asyncio.ensure_future(lines.next())
    for piece in (b'{"a"', b": 1}\n{", b"}\n"):
        writing.write(piece)
        await asyncio.sleep(0)
    assert await asyncio.wait_for(waiting, _DEADLINE) == b'{"a": 1}'
    assert await asyncio.wait_for(lines.next(), _DEADLINE) == b"{}"


async def test_a_line_without_an_end_is_not_kept_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "endless"
    path.write_bytes(bytes(1_000_000))
    with path.open("rb") as file:
        lines = InputLines(file.fileno())
        line = await asyncio.wait_for(lines.next(), _DEADLINE)
        assert line is not None
        assert len(line) <= 100_000
        assert await asyncio.wait_for(lines.next(), _DEADLINE) is None


async def test_answers_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text('{"callId": "c1", "decision": "allow"}')
    with path.open("rb") as file:
        assert await answered(file.fileno()) == (Approve(), "")


def test_each_event_is_one_line() -> None:
    output = io.StringIO()
    lines = JsonLines(output)
    lines.on_event(TextReported("two\nlines"))
    lines.on_event(Ended("completed"))
    assert (
        output.getvalue() == '{"event":"text","text":"two\\nlines"}\n{"event":"ended","reason":"completed"}\n'
    )
