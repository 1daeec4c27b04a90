"""A conversation as the entries of a chat: from journals that were stored, and piece by piece."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from dragoman.frontends.console.conversation_chat import ChatFold
from dragoman.journal.agent_events import PermissionDecided, ReplyEnded, StepTaken, TextSaid
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import ActivityPart, JsonObject
from dragoman.store import Database
from journal.samples import agent_events
from lm.rendering import hostile_text
from stored_journals import CHAT, EDITOR, GRANT, NONCE, store


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, list[JournalEntry]]:
    store(tmp_path)
    with Database.open(tmp_path) as database:
        journals = SqliteJournals(database)
        return {id_: asyncio.run(journals.read(id_)) for id_ in (EDITOR, CHAT)}


def folded(entries: list[JournalEntry]) -> ChatFold:
    fold = ChatFold()
    for entry in entries:
        fold.apply(entry)
    return fold


def entries_of(*events: AnyEvent) -> list[JournalEntry]:
    return [JournalEntry(number, float(number), event) for number, event in enumerate(events, 1)]


def shown(fold: ChatFold) -> list[JsonObject]:
    return [entry.as_json() for entry in fold.changed(0)]


def test_an_agents_conversation(stored: dict[str, list[JournalEntry]]) -> None:
    entries = shown(folded(stored[EDITOR]))
    assert [(entry["role"], entry["text"]) for entry in entries] == [
        ("user", "Hello\n␛[2Jworld"),
        ("note", "Claude 1.0 started, with a new session."),
        ("thinking", "Hm."),
        ("agent", "Let me look."),
        ("step", "make private"),
        ("permission", "run: make private"),
        ("agent", "Done."),
        ("note", "The agent ended."),
    ]
    (permission,) = [entry for entry in entries if entry["role"] == "permission"]
    assert permission["outcome"] == {
        "state": "allowed",
        "by": "terminal",
        "words": "allowed by a person",
        "at": stored[EDITOR][11].at,
        "level": "once",
        "reason": None,
        "rule": None,
    }
    assert permission["sequence"] == 12


def test_a_chat_of_the_terminal(stored: dict[str, list[JournalEntry]]) -> None:
    entries = shown(folded(stored[CHAT]))
    assert [(entry["role"], entry["text"]) for entry in entries] == [
        ("user", "Hello\n␛[2Jworld"),
        ("agent", "Let me look."),
        ("step", "make private"),
        ("permission", "read_file: Reading a private file"),
        ("agent", "Done."),
    ]


def test_proofs_are_in_no_entry(stored: dict[str, list[JournalEntry]]) -> None:
    for entries in stored.values():
        text = str(shown(folded(entries)))
        assert NONCE not in text
        assert GRANT not in text


def test_text_goes_on_in_its_entry_until_something_else_comes() -> None:
    step = ActivityPart("t", "Run", "execute", "in_progress")
    done = ActivityPart("t", "Run", "execute", "completed", output="out", exit_status=0)
    entries = entries_of(
        TextSaid(1, 0, 2, "a "),
        TextSaid(1, 2, 1, "b"),
        StepTaken(1, step),
        TextSaid(1, 3, 1, "c"),
        # A step that is there already does not move.
        StepTaken(1, done),
        TextSaid(1, 4, 1, "d"),
        ReplyEnded(1, "complete"),
        TextSaid(2, 0, 1, "e"),
    )
    fold = folded(entries)
    assert [(entry["role"], entry["text"]) for entry in shown(fold)] == [
        ("agent", "a b"),
        ("step", "Run"),
        ("agent", "cd"),
        ("agent", "e"),
    ]
    (changed_step, text, last) = fold.changed(4)
    assert changed_step.more == {"status": "completed"}
    assert [each.sequence for each in (changed_step, text, last)] == [5, 6, 8]


@pytest.mark.parametrize(
    ("by", "state"), [("person", "denied"), ("timeout", "expired"), ("end", "ended"), ("rule", "denied")]
)
def test_how_a_permission_ended(by: str, state: str) -> None:
    (asked,) = [each for each in agent_events("x") if type(each).__name__ == "PermissionRequested"]
    decided = PermissionDecided(getattr(asked, "id"), False, by, "console: my phone", 1.0, "no")  # type: ignore[arg-type]  # noqa: B009, FBT003 - any
    (entry,) = shown(folded(entries_of(asked, decided)))
    outcome = entry["outcome"]
    assert isinstance(outcome, dict)
    assert (outcome["state"], outcome["reason"]) == (state, "no")
    assert outcome["by"] == ("my phone" if by == "person" else None)


@given(hostile_text, st.integers(0, 20))
def test_nothing_hides_and_a_page_that_comes_back_gets_what_it_lacks(word: str, seen: int) -> None:
    events = entries_of(*agent_events(f"x{word}"))
    fold = folded(events)
    before = {entry.key: entry.as_json() for entry in folded(events[:seen]).changed(0)}
    after = {**before, **{entry.key: entry.as_json() for entry in fold.changed(seen)}}
    assert after == {entry.key: entry.as_json() for entry in fold.changed(0)}

    def check(value: object) -> None:
        match value:
            case dict():
                for each in value.values():
                    check(each)
            case list():
                for each in value:
                    check(each)
            case str():
                acting = [each for each in value if not each.isprintable() and each not in "\n\t"]
                assert not [each for each in acting if ord(each) < 0xA0 or 0x2028 <= ord(each) <= 0x202E]
            case _:
                pass

    check([*after.values()])
