"""What VS Code's chat says in the place of a result, and what that says of the call."""

from __future__ import annotations

import pytest

from dragoman.backends.agent.machine.types import Granted, Refused
from dragoman.backends.agent.prompt.replay import transcript
from dragoman.backends.agent.session.permission_requests import verdict
from dragoman.conversations.vscode_results import with_outcome
from dragoman.lm import DataPart, Message, Outcome, TextPart, ToolCallPart, ToolResultPart, assistant, user
from dragoman.permissions.action import PERMISSION_TOOLS, Action
from dragoman.permissions.grants import Grants, PendingPermission

_ADVICE = "\nPlease check your input and try again."
_SKIP = "The user chose to skip the tool call, they want to proceed without running it"
_DISABLED = "Tool look_up is currently disabled by the user, and cannot be called."
_AUTOPILOT = (
    "Autopilot skipped this tool call because it was automatically assessed as high-risk: It deletes files. The action "
    "was not performed. Do not retry it as-is — choose a safer approach or leave it for the user to run manually."
)
_INVALID = "ERROR: Your input to the tool was invalid (must have required property 'word')"
_MISSING = 'ERROR: The tool "look_up" does not exist'
_FAILED = "ERROR while calling tool: no such file\nor folder"
_HOOK = "Tool execution denied: not on a Friday"
_STOPPED = "The user cancelled the tool call."

# The text as it arrives, the outcome of the call, and the text for the model.
SAID: list[tuple[str, Outcome, str]] = [
    (_SKIP, "denied", _SKIP),
    (f"{_SKIP}\n", "denied", _SKIP),
    (_AUTOPILOT, "skipped", _AUTOPILOT),
    (_HOOK, "skipped", _HOOK),
    (_STOPPED, "interrupted", _STOPPED),
    (f"ERROR while calling tool: {_DISABLED}{_ADVICE}", "error", f"ERROR while calling tool: {_DISABLED}"),
    (_DISABLED, "error", _DISABLED),
    (f"{_INVALID}{_ADVICE}", "error", _INVALID),
    (f"{_MISSING}{_ADVICE}", "error", _MISSING),
    (f"{_FAILED}{_ADVICE}", "error", _FAILED),
    # `@dragoman` leaves the advice out, and flags it.
    (_FAILED.partition("\n")[0], "error", _FAILED.partition("\n")[0]),
]

# What tools return all the same.
WORDS = [
    f'SKIP = "{_SKIP}"',
    f"{_SKIP}.\nOr so it says.",
    f"log: {_HOOK}",
    f"12: {_STOPPED}",
    f"# Notes\n{_DISABLED}",
    f"{_DISABLED}\nThat was in the log of yesterday.",
    f"I grepped for it:{_ADVICE}",
    f"> {_FAILED}{_ADVICE}",
    "The tool executed but the user chose not to share the results",
    "ERROR: linker failed",
    # The log of a program that tried twice.
    "ERROR while calling tool: no such file\n\nok, second try worked: 42 rows",
    f"{_HOOK}\nThat is what the log says.",
    "",
]


def _result(text: str) -> ToolResultPart:
    return ToolResultPart("dg_1", (TextPart(text),))


@pytest.mark.parametrize(("text", "outcome", "text_for_model"), SAID)
def test_i2_p2_a_call_that_was_not_made_is_an_error_in_true_words(
    text: str, outcome: Outcome, text_for_model: str
) -> None:
    read = with_outcome(_result(text))
    assert read == ToolResultPart("dg_1", (TextPart(text_for_model),), is_error=True, outcome=outcome)
    assert with_outcome(read) is read


@pytest.mark.parametrize("text", WORDS)
def test_i2_what_only_contains_such_words_is_a_result(text: str) -> None:
    given = _result(text)
    assert with_outcome(given) is given


def test_i2_what_hooks_add_stays_with_it() -> None:
    added = TextPart("\n<PreToolUse-context>\nIt is Friday.\n</PreToolUse-context>")
    read = with_outcome(ToolResultPart("dg_1", (TextPart(_HOOK), added)))
    assert (read.outcome, read.is_error) == ("skipped", True)
    assert read.text == f"{_HOOK}{added.value}"


def test_i2_what_is_for_the_user_stays_for_the_user() -> None:
    seen = TextPart("The door is at the back.", ("user",))
    read = with_outcome(ToolResultPart("dg_1", (TextPart(f"{_FAILED}{_ADVICE}"), seen)))
    assert read.outcome == "error"
    assert read.content == (TextPart(_FAILED), seen)


def test_i2_with_a_picture_it_is_a_result() -> None:
    given = ToolResultPart("dg_1", (TextPart(_SKIP), DataPart("image/png", b"png")))
    assert with_outcome(given) is given
    # Programs exchange such parts between themselves.
    marked = ToolResultPart("dg_1", (TextPart(_SKIP), DataPart("cache_control", b"ephemeral")))
    assert with_outcome(marked).outcome == "denied"


def test_i2_what_the_consumer_says_itself_stands() -> None:
    given = ToolResultPart("dg_1", (TextPart(_SKIP),), outcome="ok")
    assert with_outcome(given) is given


def _asked() -> tuple[Grants, str]:
    grants = Grants()
    action = Action(agent="a", agent_name="A", risk="execute", kind="execute", title="Do it", folder="/w")
    nonce = grants.open(PendingPermission("dg_1", action, "conversation"))
    token = grants.issue(nonce, PERMISSION_TOOLS["execute"])
    assert token is not None
    return grants, token


@pytest.mark.parametrize(("text", "outcome", "text_for_model"), SAID)
def test_p2_p3_a_person_refused_or_was_never_asked(text: str, outcome: Outcome, text_for_model: str) -> None:
    grants, _ = _asked()
    was_asked = outcome in ("denied", "interrupted")
    expected = Refused() if was_asked else Refused(text_for_model, by="no_one")
    assert verdict(grants, with_outcome(_result(text))) == expected


def test_p1_a_grant_is_a_grant() -> None:
    grants, token = _asked()
    assert verdict(grants, with_outcome(_result(token))) == Granted()


def test_p3_a_grant_among_words_that_say_that_nothing_ran_is_none() -> None:
    grants, token = _asked()
    assert isinstance(verdict(grants, with_outcome(_result(f"Tool execution denied: {token}"))), Refused)


def test_i2_a_transcript_tells_it_too() -> None:
    permission = PERMISSION_TOOLS["execute"]
    history: list[Message] = [
        user("go"),
        assistant(
            ToolCallPart("dg_1", "look_up", {}),
            ToolCallPart("dg_2", permission, {"title": "rm"}),
            ToolCallPart("dg_3", permission, {"title": "ls"}),
        ),
        user(ToolResultPart("dg_1", (TextPart(_SKIP),))),
        user(ToolResultPart("dg_2", (TextPart(f"ERROR while calling tool: {_DISABLED}{_ADVICE}"),))),
        user(ToolResultPart("dg_3", (TextPart(_SKIP),))),
    ]
    [block] = transcript(history, budget=10_000, images=False).blocks
    text_for_model = getattr(block, "text", "")
    assert "Result of look_up as dg_1 (an error)" in text_for_model
    assert "[not asked: rm]" in text_for_model
    assert "[refused: ls]" in text_for_model
