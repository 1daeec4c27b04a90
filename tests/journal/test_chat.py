"""The events of chats: without content, without secrets, folded, and found by the beginning of an id."""

import pytest

from dragoman.cleaning import Cleaning
from dragoman.journal.agent_events import PermissionDecided
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.chat_fold import ChatState, fold_chat
from dragoman.journal.content import without_content
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.finding import NotFound, find_by_id
from dragoman.journal.masking import masked
from dragoman.journal.store import JournalInfo
from dragoman.lm import DataPart, TextPart, ToolCallPart, ToolResultPart, assistant, user
from dragoman.logs import Redaction
from dragoman.permissions.record import By

_CALL = ToolCallPart("c1", "read_file", {"path": "secret.txt"})
_RESULT = ToolResultPart(
    "c1",
    (TextPart("secret"), DataPart.image(b"secret", "image/png")),
    is_error=True,
    name="read_file",
    input=_CALL.input,
    outcome="error",
)


def test_without_content_roles_names_and_outcomes_are_left() -> None:
    event = MessagesAdded((user("secret"), assistant("secret", _CALL), user(_RESULT)))
    assert without_content(event) == MessagesAdded(
        (
            user(),
            assistant(ToolCallPart("c1", "read_file", {})),
            user(ToolResultPart("c1", is_error=True, name="read_file", outcome="error")),
        ),
        has_content=False,
    )
    assert without_content(RunEnded("failed", "secret", "secret")) == RunEnded("failed")
    assert without_content(ModelChosen("demo")) == ModelChosen("demo")


@pytest.mark.parametrize(
    ("allowed", "by", "why", "left"),
    [
        (True, "person", "always", "always"),
        (True, "person", "because", None),
        (False, "person", "always", None),
        (True, "rule", "read-only", "read-only"),
        (True, "read-only", "read-only", "read-only"),
        (False, "unasked", "The input ended.", None),
    ],
)
def test_without_content_the_level_of_a_yes_is_left_and_a_persons_reason_is_not(
    by: By, why: str, left: str | None, *, allowed: bool
) -> None:
    decided = PermissionDecided("c1", is_allowed=allowed, by=by, where="terminal", seconds=1, why=why)
    kept = without_content(decided)
    assert isinstance(kept, PermissionDecided)
    assert kept.why == left


def test_the_error_of_a_run_has_no_secrets() -> None:
    redaction = Redaction()
    redaction.add(["hunter2-and-more"])
    cleaned = masked(RunEnded("failed", "key hunter2-and-more", None), Cleaning(redaction))
    assert isinstance(cleaned, RunEnded)
    assert cleaned.error is not None
    assert "hunter2" not in cleaned.error
    assert cleaned.hint is None


def test_a_chat_is_folded_to_its_messages_and_its_last_model() -> None:
    events: list[AnyEvent] = [
        JournalStarted("chat", "first"),
        MessagesAdded((user("one"), assistant("two"))),
        RunEnded("completed"),
        ModelChosen("second"),
        MessagesAdded((user("three"),)),
    ]
    assert fold_chat(events) == ChatState("second", (user("one"), assistant("two"), user("three")))
    assert not fold_chat([*events, MessagesAdded((user(),), has_content=False)]).is_whole


def _info(id_: str) -> JournalInfo:
    return JournalInfo(id_, "chat", "demo", "/", "", "", None, 0.0, 0.0, 1, "")


@pytest.mark.parametrize("wanted", ["abcdefgh", "abcd", "abcdefgh2345"])
def test_a_journal_is_found_by_the_beginning_of_its_id(wanted: str) -> None:
    journals = [_info("abcdefgh2345"), _info("bcdefghi2345")]
    assert find_by_id(journals, wanted).id == "abcdefgh2345"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("x\x1bnone", 'There is no chat "x\\\\x1bnone"'),
        ("bcd", "at least 4 characters"),
        ("abcd", "matches several: abcdefgh2345, abcdxxxx2345"),
    ],
)
def test_no_journal_or_several_are_not_found(wanted: str, said: str) -> None:
    journals = [_info("abcdefgh2345"), _info("bcdefghi2345"), _info("abcdxxxx2345")]
    with pytest.raises(NotFound, match=said):
        find_by_id(journals, wanted, "chat")


def test_a_whole_id_is_found_also_if_another_begins_with_it() -> None:
    assert find_by_id([_info("abcdef"), _info("abcde")], "abcde").id == "abcde"
