"""Events in, lines out."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import (
    ActivityPart,
    ContentPart,
    DataPart,
    Outcome,
    PlanEntry,
    PlanPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.parts import ActivityStatus, PlanStatus
from dragoman.loop.events import (
    ActivityReported,
    CallDecided,
    DataReported,
    Ended,
    EndReason,
    PlanReported,
    QuestionAsked,
    Retrying,
    RunEvent,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolUsed,
    TurnStarted,
    Withdrawn,
)
from dragoman.loop.round import DENIED_BY_RULE
from virtual_clock import VirtualClock


class _Stage:
    """A transcript, its clock, and all that it printed."""

    def __init__(self, *, is_live: bool = False, width: int = 60, alone: bool = False) -> None:
        self.clock = VirtualClock()
        self.output = io.StringIO()
        console = Console(file=self.output, width=width, height=20, force_terminal=is_live, color_system=None)
        self.transcript = Transcript(
            Screen(console), self.clock, model=lambda: "Demo", pictures="kitty", alone=alone
        )

    def play(self, *events: RunEvent) -> str:
        for event in events:
            self.transcript.on_event(event)
        return self.output.getvalue()

    def live(self) -> str:
        """The live lines as they are drawn now."""
        before = len(self.output.getvalue())
        self.transcript.tick()
        drawn = self.output.getvalue()[before:]
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", drawn)


def _call(call_id: str = "1", name: str = "read_file") -> ToolUsed:
    return ToolUsed(ToolCallPart(call_id, name, {}))


def _started(call_id: str = "1", message: str = "Reading a.txt", approved: str = "read-only") -> ToolStarted:
    return ToolStarted(call_id, "read_file", message, approved)


def _finished(
    call_id: str = "1",
    outcome: Outcome = "ok",
    text: str = "",
    seconds: float = 0.0,
    content: tuple[ContentPart, ...] = (),
) -> ToolFinished:
    result = ToolResultPart(call_id, content or (TextPart(text),), is_error=outcome != "ok", outcome=outcome)
    return ToolFinished(result, approved=True, seconds=seconds)


def test_an_answer_is_printed_once_in_the_text_column() -> None:
    printed = _Stage().play(
        TurnStarted(1),
        TextReported("# Ti"),
        TextReported("tle\n\nSome *te"),
        TextReported("xt*."),
        Ended("completed"),
    )
    assert printed == "  Title\n\n  Some text.\n"


def test_the_unfinished_block_is_live() -> None:
    stage = _Stage(is_live=True)
    stage.play(TextReported("finished\n\nunfin"))
    assert stage.live() == "\n  unfin"
    stage.play(TextReported("ished"))
    assert stage.live() == "\n  unfinished"


def test_waiting_names_who_is_waited_for() -> None:
    stage = _Stage(is_live=True)
    stage.play(TurnStarted(1))
    stage.clock.advance(1.5)
    assert stage.live() == "⠴ Demo · 1.5 s"
    stage.play(TextReported("a"))
    assert stage.live() == "  a"


def test_thinking_is_one_live_line_with_its_last_words_and_then_folded() -> None:
    stage = _Stage(is_live=True, width=40)
    stage.play(ThinkingReported("First one thing, "), ThinkingReported("then something else altogether"))
    stage.clock.advance(3)
    assert stage.live() == "✻ thinking · 3.0 s · …ng else altogether"
    stage.play(TextReported("Answer"), Ended("completed"))
    plain = _Stage()
    plain.play(ThinkingReported("hm"))
    plain.clock.advance(3)
    assert plain.play(TextReported("Answer"), Ended("completed")) == "✻ thought for 3.0 s\n\n  Answer\n"


def test_thinking_is_shown_in_full_when_asked_for() -> None:
    stage = _Stage()
    assert stage.transcript.toggle_thinking()
    assert stage.play(
        ThinkingReported("First.\n\nSec"), ThinkingReported("ond."), TextReported("So."), Ended("completed")
    ) == ("  First.\n\n  Second.\n\n✻ thought\n\n  So.\n")
    assert not stage.transcript.toggle_thinking()


def test_a_tool_has_one_line_with_time_and_progress_and_then_its_outcome() -> None:
    stage = _Stage(is_live=True)
    stage.play(_call(), _started(), ToolProgressed("1", "line 7"))
    stage.clock.advance(2)
    assert stage.live() == "⠋ Reading a.txt · 2.0 s · line 7"
    plain = _Stage()
    assert plain.play(_call(), _started(), _finished(seconds=2)) == "✓ Reading a.txt · 2.0 s\n"


def test_parallel_tools_have_a_line_each_and_finish_in_their_own_order() -> None:
    stage = _Stage(is_live=True)
    stage.play(_call("1"), _call("2"), _started("1"), _started("2", "Reading b.txt"))
    assert stage.live() == "⠋ Reading a.txt · 0.0 s\n⠋ Reading b.txt · 0.0 s"
    stage.play(_finished("2"))
    assert stage.live() == "⠋ Reading a.txt · 0.0 s"
    plain = _Stage()
    plain.play(_call("1"), _call("2"), _started("1"), _started("2", "Reading b.txt"))
    assert plain.play(_finished("2"), _finished("1")) == "✓ Reading b.txt\n✓ Reading a.txt\n"


@pytest.mark.parametrize(
    ("outcome", "text", "line"),
    [
        ("error", "No such file.", "✗ Reading a.txt · failed · No such file."),
        ("error", "No such file.\nAt all.", "✗ Reading a.txt · failed\n    No such file.\n    At all."),
        ("interrupted", "cut", "⊘ Reading a.txt · interrupted"),
    ],
)
def test_what_ran_and_did_not_end_well(outcome: Outcome, text: str, line: str) -> None:
    assert _Stage().play(_call(), _started(), _finished(outcome=outcome, text=text)) == f"{line}\n"


@pytest.mark.parametrize(
    ("outcome", "text", "line"),
    [
        ("denied", "Error: Tool execution was denied by user.", "⊘ Change a.txt · denied"),
        ("denied", "Tool use rejected with user message: not now", "⊘ Change a.txt · denied · not now"),
        ("timed_out", "…", "⊘ Change a.txt · no decision in time"),
    ],
)
def test_what_was_permission_requested_and_did_not_run(outcome: Outcome, text: str, line: str) -> None:
    events = (
        _call(),
        QuestionAsked("1", "write_file", "Change a.txt?"),
        _finished(outcome=outcome, text=text),
    )
    assert _Stage().play(*events) == f"{line}\n"


def test_what_was_skipped_is_named() -> None:
    assert (
        _Stage().play(_call(name="run_command"), _finished(outcome="skipped")) == "⊘ run_command · skipped\n"
    )


def test_why_nobody_was_asked_is_said_where_it_is_not_plain() -> None:
    line = _Stage().play(_call(), _started(approved="approved for this session"), _finished())
    assert line == "✓ Reading a.txt · approved for this session\n"


def test_why_nobody_was_asked_is_seen_however_long_the_command_is() -> None:
    started = _started(message="Running " + "x" * 100, approved="auto-approved")
    assert _Stage(width=40).play(_call(), started, _finished(seconds=3)) == (
        f"✓ Running {'x' * 13}… · auto-approved\n"
    )
    failed = _finished(outcome="error", text="No such file.")
    assert _Stage(width=40).play(_call(), started, failed) == (
        "✗ Running xxxx… · failed · auto-approved\n    No such file.\n"
    )


def test_text_before_and_after_a_tool_is_shown_in_order() -> None:
    printed = _Stage().play(
        TextReported("Let me look."),
        _call(),
        _started(),
        _finished(),
        TextReported("Found."),
        Ended("completed"),
    )
    assert printed == "  Let me look.\n\n✓ Reading a.txt\n\n  Found.\n"


def test_what_a_tool_says_to_the_person_is_shown_and_what_it_says_to_the_model_is_not() -> None:
    content = (
        TextPart("for the model", ("model",)),
        TextPart("for **you**", ("user",)),
        TextPart("for all"),
        DataPart("application/pdf", b"12345"),
        DataPart("image/png", b"secret", ("model",)),
    )
    printed = _Stage().play(_call(), _started(), _finished(content=content))
    assert printed == "✓ Reading a.txt\n\n  for you\n\n  ▣ application/pdf, 5 bytes\n"


def test_an_image_is_sent_to_a_terminal_that_can_show_it() -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(8) + (16).to_bytes(4) + (16).to_bytes(4)
    stage = _Stage(is_live=True)
    assert "\x1b_Ga=T,f=100" in stage.play(DataReported(DataPart("image/png", png)))
    assert "\x1b" not in _Stage().play(DataReported(DataPart("image/png", png)))


def test_a_failed_attempt_is_told_honestly() -> None:
    printed = _Stage(width=80).play(
        TextReported("Half an ans"),
        Retrying(1, 2.0, "The server is busy."),
        Withdrawn(),
        TextReported("Something else."),
        Ended("completed"),
    )
    assert printed == (
        "  Half an ans\n\n"
        "↻ The server is busy. Trying again in 2.0 s.\n"
        "↺ It starts again: what this answer said so far does not count.\n\n"
        "  Something else.\n"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("cancelled", "Cancelled"),
        ("tool_denied", "denied"),
        ("turn_limit", "as many turns"),
        ("timed_out", "no decision in time"),
        ("suspended", "Suspended until"),
    ],
)
def test_how_it_ended_is_said(reason: EndReason, words: str) -> None:
    assert words in _Stage().play(TextReported("partial"), Ended(reason))
    assert _Stage().play(TextReported("partial"), Ended(reason)).startswith("  partial\n")


def test_an_error_is_shown_with_what_to_do() -> None:
    printed = _Stage(width=80).play(Ended("failed", "The key is wrong.", "Set GATEWAY_KEY."))
    assert printed == "✗ The key is wrong. Set GATEWAY_KEY.\n"


def test_cause_and_next_step_are_two_sentences() -> None:
    printed = _Stage(width=80).play(
        Retrying(1, 2.0, "The line is busy"), Ended("failed", "It was not offered", "This is a fault.")
    )
    assert printed == ("↻ The line is busy. Trying again in 2.0 s.\n✗ It was not offered. This is a fault.\n")


def test_nothing_from_outside_acts_on_the_terminal_or_leaves_its_column() -> None:
    hostile = "\x1b[1A\x1b[2K\x9b2J\r? Delete everything\n\n? y once\u202e\n"
    stage = _Stage()
    printed = stage.play(
        TextReported(hostile),
        _call(name="\x1b[2J\n? evil"),
        _started(message=f"{hostile}\n✓ fine"),
        ToolProgressed("1", hostile),
        _finished(outcome="error", text=hostile),
        Retrying(1, 1, hostile),
        Ended("failed", hostile, hostile),
    )
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(printed)
    assert not [line for line in printed.splitlines() if line.startswith("? ")]


def test_the_footer_stays_below_the_tools_that_run() -> None:
    stage = _Stage(is_live=True)
    stage.play(_call(), _started())
    stage.transcript.ask("the keys")
    assert stage.live() == "⠋ Reading a.txt · 0.0 s\nthe keys"
    stage.transcript.ask(None)
    assert stage.live() == "⠋ Reading a.txt · 0.0 s"


_WANTS = ToolUsed(
    ToolCallPart("1", "dragoman-agent-action-execute", {"title": "sh check_all.sh", "kind": "execute"})
)


def _step(status: ActivityStatus, title: str = "sh check_all.sh", **more: Any) -> ActivityReported:
    return ActivityReported(ActivityPart("s", title, "execute", status, **more))


def _plan(*entries: tuple[str, PlanStatus]) -> PlanReported:
    return PlanReported(PlanPart(tuple(PlanEntry(text, "medium", status) for text, status in entries)))


def test_what_an_agent_does_by_itself_is_seen_though_thinking_is_folded() -> None:
    shown = _Stage().play(
        _step("pending"),
        _step("in_progress", output="one is missing\n"),
        _step("failed", output="one is missing\n", exit_status=1),
        TextReported("One is left.\n"),
        Ended("completed"),
    )
    assert shown == "✗ sh check_all.sh · exit 1 · one is missing\n\n  One is left.\n"


def test_a_step_that_runs_has_a_live_line_with_the_last_that_it_printed() -> None:
    stage = _Stage(is_live=True)
    stage.play(TurnStarted(1), _step("pending"))
    assert stage.live() == "⠋ sh check_all.sh"
    stage.play(_step("in_progress"))
    stage.clock.advance(2)
    stage.play(_step("in_progress", output="one\ntwo\x1b[2J\n\n"))
    assert stage.live() == "⠋ sh check_all.sh · 2.0 s · two␛[2J"
    assert "✓ sh check_all.sh · 2.0 s\n" in stage.play(_step("completed", output="one\ntwo\n"))
    # The agent goes on.
    assert stage.live() == "⠋ Demo · 0.0 s"


def test_the_time_that_a_step_waits_for_a_person_is_not_counted() -> None:
    stage = _Stage()
    stage.play(_step("pending"))
    stage.clock.advance(30)
    stage.play(_step("in_progress"))
    stage.clock.advance(1)
    assert stage.play(_step("completed")) == "✓ sh check_all.sh · 1.0 s\n"


def test_a_step_that_has_not_begun_is_not_drawn_beside_the_question_about_it() -> None:
    stage = _Stage(is_live=True)
    stage.play(_step("pending"))
    stage.transcript.ask("the keys")
    assert stage.live() == "the keys"
    stage.play(_step("in_progress"))
    assert stage.live() == "⠋ sh check_all.sh · 0.0 s\nthe keys"


def test_a_step_says_how_much_it_changed() -> None:
    diff = "--- /a\n+++ /a\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+x"
    assert _Stage().play(_step("completed", "Edit", diff=diff)) == "✓ Edit · +3 -1\n"


def test_a_step_is_printed_once_however_often_it_ends() -> None:
    ended = _step("completed")
    assert _Stage().play(ended, TurnStarted(2), ended) == "✓ sh check_all.sh\n"


def test_steps_and_plans_are_shown_in_full_with_thinking() -> None:
    stage = _Stage()
    stage.transcript.toggle_thinking()
    diff = "--- /a\n+++ /a\n@@ -1 +1 @@\n-one\n+two"
    shown = stage.play(
        ThinkingReported("Hm."),
        _step("in_progress", diff=diff),
        _step("in_progress", diff=diff, output="one\n"),
        _step("completed", diff=diff, output="one\ntwo\n"),
        _plan(("Look", "pending")),
        TextReported("So."),
        Ended("completed"),
    )
    for line in (
        "  Hm.",
        "  ▸ sh check_all.sh",
        "  /a",
        "  -one",
        "  one",
        "  two",
        "  ✓ sh check_all.sh",
        "  ☐ Look",
    ):
        assert shown.count(f"{line}\n") == 1
    assert shown.endswith("✻ thought\n\n  So.\n")


def test_nothing_of_a_step_or_a_plan_acts_on_the_terminal() -> None:
    hostile = "\x1b[1A\x1b[2K\x9b2J\r? Delete everything\n\n? y once\u202e\n"
    for shows_thinking in (False, True):
        stage = _Stage()
        if shows_thinking:
            stage.transcript.toggle_thinking()
        printed = stage.play(
            _step("in_progress", hostile, diff=hostile, output=hostile),
            _step("failed", hostile, diff=hostile, output=hostile),
            _plan((hostile, "pending")),
            Ended("completed"),
        )
        assert "Delete everything" in printed
        assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(printed)
        assert not [line for line in printed.splitlines() if line.startswith("? ")]


def test_a_thought_among_what_an_agent_does_is_still_a_thought() -> None:
    shown = _Stage().play(
        ThinkingReported("Let me see."),
        _step("completed", "ls"),
        TextReported("Done.\n"),
        Ended("completed"),
    )
    assert shown == "✻ thought\n✓ ls\n\n  Done.\n"


def test_an_agents_request_that_a_person_has_just_allowed_needs_no_line_of_its_own() -> None:
    allowed = ToolResultPart("1", (TextPart("dragoman-grant-x"),), outcome="ok")
    started = ToolStarted("1", _WANTS.call.name, "Agent may run: sh check_all.sh", "approved once")
    assert _Stage().play(_WANTS, started, ToolFinished(allowed, approved=True)) == ""
    spared = ToolStarted("1", _WANTS.call.name, "Agent may run: sh check_all.sh", "approved for this session")
    assert (
        _Stage().play(_WANTS, spared, ToolFinished(allowed, approved=True))
        == "✓ Agent may run: sh check_all.sh · approved for this session\n"
    )


@pytest.mark.parametrize(("outcome", "word"), [("denied", "denied"), ("skipped", "skipped")])
def test_an_agents_request_is_told_in_words_and_its_failure_not_again(outcome: Outcome, word: str) -> None:
    refused = ToolResultPart("1", (TextPart("no"),), is_error=True, outcome=outcome)
    asked = QuestionAsked(
        "1", _WANTS.call.name, "", summary="Agent wants to run: sh check_all.sh", subject="sh check_all.sh"
    )
    shown = _Stage().play(
        _WANTS,
        asked,
        ToolFinished(refused, approved=False),
        _step("failed", output="The user refused."),
        TextReported("As you wish.\n"),
        Ended("completed"),
    )
    assert shown == f"⊘ Agent wants to run: sh check_all.sh · {word}\n\n  As you wish.\n"


_ALLOWED = (
    TurnStarted(1),
    _WANTS,
    ToolStarted("1", _WANTS.call.name, "Agent may run: make\x1b[2J", "approved once"),
    ToolFinished(ToolResultPart("1", (TextPart("dragoman-grant-x"),), outcome="ok"), approved=True),
)


@pytest.mark.parametrize("reason", ["tool_denied", "timed_out", "turn_limit"])
def test_what_an_agent_may_and_has_not_done_is_told_when_a_run_ends_before_it_can(reason: EndReason) -> None:
    told = "Allowed, and not done yet: Agent may run: make␛[2J. With your next prompt the agent goes on and does it"
    assert told in " ".join(_Stage().play(*_ALLOWED, Ended(reason)).split())
    alone = " ".join(_Stage(alone=True).play(*_ALLOWED, Ended(reason)).split())
    assert alone.endswith("Allowed, and not done: Agent may run: make␛[2J.")
    assert "Say how to go on" not in alone


def test_what_an_agent_may_is_not_done_when_its_turn_is_stopped() -> None:
    shown = _Stage().play(*_ALLOWED, Ended("cancelled"))
    assert shown == "⊘ Cancelled.\n⊘ Allowed, and not done: Agent may run: make␛[2J.\n"


def test_what_an_agent_may_is_not_told_once_it_knows() -> None:
    assert "Allowed" not in _Stage().play(*_ALLOWED, TurnStarted(2), Ended("turn_limit"))
    assert "Allowed" not in _Stage().play(*_ALLOWED, TurnStarted(2), Ended("cancelled"))


def test_a_plan_is_seen_though_thinking_is_folded_and_each_step_as_it_stands() -> None:
    shown = _Stage().play(
        _plan(("Look", "in_progress"), ("Say 1. 2", "pending")),
        _plan(("Look", "completed"), ("Say 1. 2", "pending")),
        TextReported("So be it.\n"),
        _plan(("Look", "completed"), ("Say 1. 2", "completed")),
        Ended("completed"),
    )
    assert shown == "☑ Look\n☐ Say 1. 2\n\n  So be it.\n\n☑ Say 1. 2\n"


def test_what_has_changed_of_a_plan_is_live_until_it_is_printed() -> None:
    stage = _Stage(is_live=True)
    stage.play(_plan(("Look", "in_progress"), ("Say", "pending")))
    assert stage.live() == "◐ Look\n☐ Say\n⠋ Demo · 0.0 s"
    stage.play(_step("completed", "ls"))
    assert stage.live() == "⠋ Demo · 0.0 s"
    stage.play(_plan(("Look", "completed"), ("Say", "in_progress")))
    assert stage.live() == "☑ Look\n◐ Say\n⠋ Demo · 0.0 s"
    plain = _Stage()
    plain.play(_plan(("Look", "in_progress"), ("Say", "pending")), _step("completed", "ls"))
    assert plain.play(_plan(("Look", "completed"), ("Say", "pending")), Ended("completed")) == (
        "◐ Look\n☐ Say\n✓ ls\n☑ Look\n"
    )


@pytest.mark.parametrize("width", [60, 100])
def test_d6_the_rule_that_decided_is_seen_however_long_the_command_is(width: int) -> None:
    place = "~/.config/dragoman/dragoman.toml:12"
    command = "Running git log --oneline --graph --decorate | head -50 && make test && make lint"
    stage = _Stage(width=width)
    allowed = stage.play(
        _call(), _started(message=command, approved=f"allowed by the rule at {place}"), _finished()
    )
    assert allowed.rstrip().endswith("… · allowed by the rule at …/dragoman.toml:12")
    assert len(allowed.rstrip()) <= width


@pytest.mark.parametrize("width", [60, 100])
def test_d6_so_is_the_rule_that_allowed_an_agents_action(width: int) -> None:
    title = f"Agent may run: {'make ' * 30}· allowed by the rule at ~/.config/dragoman/dragoman.toml:12"
    line = _Stage(width=width).play(ActivityReported(ActivityPart("a", title, "other", "completed")))
    assert line.rstrip().endswith("… · allowed by the rule at …/dragoman.toml:12")


def test_d6_a_call_that_a_rule_denied_says_what_it_would_have_done_and_why() -> None:
    denied = CallDecided(_call().call, "Writing README.md", allowed=False, by="rule", why="w")
    text = DENIED_BY_RULE.format(why="The rule at ~/x/dragoman.toml:12 denies it: People write it.")
    line = _Stage(width=100).play(_call(), denied, _finished(outcome="denied", text=text))
    assert (
        line == "⊘ Writing README.md · denied · People write it. The rule at …/dragoman.toml:12 denies it.\n"
    )
