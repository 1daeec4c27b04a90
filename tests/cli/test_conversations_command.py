"""`dragoman conversations`: the list, one of them, and deleting it."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt, NormalResult, chain
from dragoman.conversations.lease import own
from dragoman.conversations.records import ConversationRecord, Scope
from dragoman.conversations.saving import save_conversation
from dragoman.store import ConversationStore, Database, StoredConversation

_WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_ID = "abcdefghijklmnop"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with one conversation that can be read, and one that cannot."""
    folder = tmp_path / "state"
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(folder))
    items: tuple[NormalItem, ...] = (
        NormalPrompt("Hello\n\x1b[2Jworld"),
        NormalAnswer("Let me look.", (("dg_1", "read_file", '{"path":"a"}'),)),
        NormalResult("dg_1"),
    )
    record = ConversationRecord(_ID, Scope("agent", ("/folder",), "stdio:editor"), items, tuple(chain(items)))
    with Database.open(folder) as database:
        store = ConversationStore(database)
        content = save_conversation(record, "session", 1)
        store.save(StoredConversation(_ID, "agent", "Hello\nworld", "/folder", "", _WHEN, content))
        store.save(StoredConversation("broken", "agent", "?", "/folder", "", _WHEN, b"{}"))
    return folder


@pytest.mark.usefixtures("state")
def test_the_list_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.split("  ")[0] == "ID"
    assert [row.split()[0] for row in rows] == [_ID, "broken"]
    assert "Hello\\nworld" in rows[0]


@pytest.mark.usefixtures("state")
def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "list", "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first == {
        "id": _ID,
        "model": "agent",
        "title": "Hello\nworld",
        "workspace": "/folder",
        "usedAt": "2026-01-02T03:04:05Z",
    }


@pytest.mark.usefixtures("state")
def test_one_is_shown_line_by_line_and_nothing_in_it_acts_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["conversations", "show", _ID]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  user: Hello",
        "    \\x1b[2Jworld",
        "  assistant: Let me look.",
        '    [called read_file {"path":"a"}]',
        "  result: dg_1",
    ]


@pytest.mark.usefixtures("state")
def test_what_cannot_be_read_and_what_is_not_there_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "show", "broken", "none"]) == 1
    broken, none = capsys.readouterr().err.splitlines()
    assert broken.startswith("dragoman: Conversation broken cannot be read: ")
    assert none == 'dragoman: There is no conversation "none". `dragoman conversations` lists them.'


def test_one_is_deleted(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "delete", _ID, _ID]) == 1
    assert capsys.readouterr() == (
        f"Conversation {_ID} is deleted.\n",
        f'dragoman: There is no conversation "{_ID}". `dragoman conversations` lists them.\n',
    )
    with Database.open(state) as database:
        assert [each.id for each in ConversationStore(database).all()] == ["broken"]


@pytest.mark.parametrize(
    ("leased_until", "is_deleted"),
    [(time.monotonic() + 600, False), (time.monotonic() - 1, True)],
    ids=["held", "expired"],
)
def test_one_that_is_under_way_is_not_deleted(
    state: Path, capsys: pytest.CaptureFixture[str], leased_until: float, *, is_deleted: bool
) -> None:
    with Database.open(state) as database:
        store = ConversationStore(database)
        store.save(StoredConversation("busy", "agent", "", "/folder", own(), _WHEN, b"", leased_until))
        assert main(["conversations", "delete", "busy"]) == (0 if is_deleted else 1)
        assert (store.find("busy") is None) == is_deleted
    assert (f"is under way in process {os.getpid()}" in capsys.readouterr().err) != is_deleted


def test_without_any_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations"]) == 0
    assert capsys.readouterr().out.startswith("No conversation is stored.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shwo"], 'Did you mean "show"?'),
        (["show"], "which?"),
        (["delete"], "which?"),
        (["list", "abc"], 'Did you mean "show abc"?'),
    ],
)
def test_nonsense_is_refused_with_what_to_write(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conversations", *arguments]) == 2
    assert said in capsys.readouterr().err
