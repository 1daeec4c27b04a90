"""The answer on standard output, everything else on standard error."""

import io

from rich.console import Console

from dragoman.frontends.terminal.plain import PlainTranscript
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import TextPart, ToolCallPart, ToolResultPart
from dragoman.loop.events import (
    Ended,
    RunEvent,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolStarted,
    ToolUsed,
)
from virtual_clock import VirtualClock


def played(*events: RunEvent) -> tuple[str, str]:
    output, errors = io.StringIO(), io.StringIO()
    others = Transcript(Screen(Console(file=errors, width=80)), VirtualClock(), model=lambda: "Demo")
    transcript = PlainTranscript(output, others)
    for event in events:
        transcript.on_event(event)
    return output.getvalue(), errors.getvalue()


def test_the_text_is_as_it_was_said() -> None:
    output, errors = played(TextReported("# Ti"), TextReported("tle\n*x*"), Ended("completed"))
    assert output == "# Title\n*x*\n"
    assert errors == ""


def test_tools_thinking_and_errors_are_beside_it() -> None:
    output, errors = played(
        ThinkingReported("hm"),
        TextReported("Let me look."),
        ToolUsed(ToolCallPart("1", "read_file", {})),
        ToolStarted("1", "read_file", "Reading a.txt", "read-only"),
        ToolFinished(ToolResultPart("1", (TextPart("…"),), outcome="ok"), approved=True),
        TextReported("Found.\n"),
        Ended("failed", "Gone.", "Try again."),
    )
    assert output == "Let me look.\n\nFound.\n"
    assert errors == "✻ thought\n✓ Reading a.txt\n\n✗ Gone. Try again.\n"


def test_what_would_act_on_a_terminal_is_shown_here_too() -> None:
    output, _ = played(TextReported("a\x1b[2J\r"), TextReported("\nb"), Ended("completed"))
    assert output == "a␛[2J\nb\n"
