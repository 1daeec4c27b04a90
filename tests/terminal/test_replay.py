"""What was said in a stored chat is drawn again, as it was drawn when it was said."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from dragoman.clock import SystemClock
from dragoman.frontends.terminal.replay import replay
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.stored_chats import StoredChat
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.journal.agent_events import (
    PermissionDecided,
    PermissionRequested,
    RequestReceived,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.chat_fold import fold_chat
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.permission_event import permission_requested
from dragoman.lm import (
    ActivityPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    user,
)
from dragoman.lm.parts import ActivityStatus, Outcome
from dragoman.permissions.action import PERMISSION_TOOLS, Action

_RUN = PERMISSION_TOOLS["execute"]


def _drawn(*events: AnyEvent, agent: Sequence[AnyEvent] = ()) -> str:
    """The chat has an event each second; its agent has the others half a second after the last of the chat."""
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80))
    entries = [JournalEntry(at, float(at), event) for at, event in enumerate(events, 1)]
    of_agent = [JournalEntry(at, len(events) + 0.5, event) for at, event in enumerate(agent, 1)]
    chat = StoredChat(entries, fold_chat(events), {"agentagentagenta": of_agent})
    replay("chatchatchatchat", chat, screen, Transcript(screen, SystemClock(), model=lambda: "Tape"))
    text, mark, _ = output.getvalue().rpartition("● continued from ")
    assert mark
    return text


def _asked(call_id: str) -> PermissionRequested:
    action = Action(
        agent="demo",
        agent_name="demo",
        risk="other",
        kind="tool",
        title="Writing a.txt",
        tool="write_file",
        folder="/",
    )
    return PermissionRequested(call_id, "demo", "other", "write_file", "d", action=action)


def _result(outcome: Outcome, name: str = "write_file") -> MessagesAdded:
    return MessagesAdded((user(ToolResultPart("c1", (TextPart("x"),), name=name, outcome=outcome)),))


_PROMPT = MessagesAdded((user("Hello\nthere"),))
_CALL = MessagesAdded((assistant("I write.", ToolCallPart("c1", "write_file", {})),))
_DONE = RunEnded("completed")


def test_prompts_answers_and_steps() -> None:
    answer = assistant(
        ThinkingPart("Hm."), "Some **bold** text.", ActivityPart("s", "make", "execute", "completed")
    )
    assert _drawn(JournalStarted("chat", "demo"), _PROMPT, MessagesAdded((answer,)), _DONE) == (
        "❯ Hello\n… there\n\n✻ thought\n\n  Some bold text.\n\n✓ make\n\n"
    )


def test_a_persons_yes_and_what_came_of_it() -> None:
    decided = PermissionDecided(
        "c1", is_allowed=True, by="person", where="terminal", seconds=1, why="session"
    )
    drawn = _drawn(_PROMPT, _CALL, _asked("c1"), decided, _result("ok"), _DONE)
    assert "  I write.\n\n→ allowed for that session\n✓ Writing a.txt\n" in drawn


def test_what_an_approval_allowed_says_so() -> None:
    decided = PermissionDecided(
        "c1", is_allowed=True, by="approval", where="terminal", seconds=0, why="always approved"
    )
    drawn = _drawn(_PROMPT, _CALL, _asked("c1"), decided, _result("error"), _DONE)
    assert "✗ Writing a.txt · failed · always approved" in drawn


def test_a_no_ends_the_run() -> None:
    decided = PermissionDecided("c1", is_allowed=False, by="person", where="terminal", seconds=1)
    drawn = _drawn(_PROMPT, _CALL, _asked("c1"), decided, _result("denied"), RunEnded("tool_denied"))
    assert "⊘ Writing a.txt · denied\n\n⊘ Stopped, because a tool was denied." in drawn


_COMMAND = Action(
    agent="claude",
    agent_name="Claude",
    risk="execute",
    kind="execute",
    title="Make it",
    command="make",
    folder="/",
)
_ASKED = permission_requested("c1", _COMMAND)
_YES = PermissionDecided("c1", is_allowed=True, by="person", where="terminal", seconds=1)
_AGENT_CALL = MessagesAdded((assistant(ToolCallPart("c1", _RUN, {})),))


def test_what_an_agent_asked_for_is_named() -> None:
    answer = MessagesAdded((assistant("Done."),))
    allowed = _drawn(_PROMPT, _AGENT_CALL, _result("ok", _RUN), answer, agent=[_ASKED, _YES])
    assert "→ allowed to run: make\n\n  Done." in allowed
    assert "known" not in allowed
    denied = _drawn(
        _PROMPT, _AGENT_CALL, _result("denied", _RUN), RunEnded("tool_denied"), agent=[_ASKED, _YES]
    )
    assert "⊘ Claude wants to run: make · denied" in denied


def test_the_step_of_what_was_refused_is_not_drawn_as_it_was_not_then() -> None:
    failed = assistant(ActivityPart("s1", "Make it", "execute", "failed"), "I leave it.")
    no = PermissionDecided("c1", is_allowed=False, by="person", where="terminal", seconds=1)
    drawn = _drawn(
        _PROMPT, _AGENT_CALL, _result("denied", _RUN), MessagesAdded((failed,)), _DONE, agent=[_ASKED, no]
    )
    assert "⊘ Claude wants to run: make · denied\n\n  I leave it.\n" in drawn


@pytest.mark.parametrize(
    ("status", "end", "sentence"),
    [
        (None, None, "Whether it was done is not known."),
        ("pending", None, "Whether it was done is not known."),
        ("in_progress", None, "It was running when the chat ended; it may have taken effect."),
        ("completed", None, "It was over when the chat ended."),
        ("in_progress", "cancelled", "It was running when the answer ended; it may have taken effect."),
    ],
)
def test_of_what_was_allowed_last_it_says_what_is_known(
    status: ActivityStatus | None, end: str | None, sentence: str
) -> None:
    step = [StepTaken(2, ActivityPart("s1", "make", "execute", status))] if status else []
    ended = [RunEnded(end)] if end else []
    drawn = _drawn(_PROMPT, _AGENT_CALL, _result("ok", _RUN), *ended, agent=[_ASKED, _YES, *step])
    assert f"→ allowed to run: make\n\n⊘ Allowed to run: make. {sentence}\n" in drawn.replace("\n  ", " ")
    assert "not done yet" not in drawn


def test_what_an_agent_had_said_when_the_chat_was_killed_is_shown() -> None:
    reply: list[AnyEvent] = [
        RequestReceived(1, 1, "fresh", "none", "", "d"),
        ThinkingSaid(1, 3, "Hm."),
        TextSaid(1, 0, 9, "The first"),
        StepTaken(1, ActivityPart("s", "look", "read", "completed")),
        TextSaid(1, 9, 6, "and the"),
    ]
    cut = "⊘ The chat ended here, before the answer was complete.\n\n"
    shown = f"✻ thought\n\n  The first\n\n✓ look\n\n  and the\n\n{cut}"
    assert _drawn(_PROMPT, agent=reply).endswith(shown)
    # What the chat has itself is not shown twice.
    whole = _drawn(_PROMPT, MessagesAdded((assistant("The first and the last."),)), _DONE, agent=reply)
    assert "and the\n" not in whole


def test_failures_and_other_models_are_shown() -> None:
    failed = RunEnded("failed", "The model failed.", "Try again.")
    drawn = _drawn(_PROMPT, failed, ModelChosen("other"), MessagesAdded((user("Again"),)), _DONE)
    assert "✗ The model failed. Try again.\n\n● Going on with other.\n\n❯ Again\n" in drawn


def test_an_answer_that_was_cut_off_says_so() -> None:
    assert _drawn(_PROMPT).endswith("⊘ The chat ended here, before the answer was complete.\n\n")
    two = _drawn(_PROMPT, MessagesAdded((user("Again"), assistant("Yes."))), _DONE)
    assert two.count("The chat ended here") == 1


def test_of_a_long_chat_the_last_prompts_are_shown() -> None:
    events = [
        event
        for number in range(25)
        for event in (MessagesAdded((user(f"Prompt {number}"), assistant("Yes."))), _DONE)
    ]
    drawn = _drawn(*events)
    hint = "○ 5 earlier prompts: dragoman conversations show chatchatchatchat shows them."
    assert drawn.startswith(f"{hint}\n\n❯ Prompt 5\n")
    assert drawn.count("❯") == 20


def test_nothing_that_was_said_acts_on_the_terminal() -> None:
    assert "\x1b" not in _drawn(MessagesAdded((user("a\x1b[2J"), assistant("b\x1b[2J"))), _DONE)
