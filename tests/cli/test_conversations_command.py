"""`dragoman conversations`: the list, what happened in one, all of it as JSON, and deleting it."""

import asyncio
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.conversation_text import ShownEntry, lines
from dragoman.journal.agent_events import ReplyEnded, TextSaid, ThinkingSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.response_events import (
    ItemRemoved,
    ItemsAdded,
    MetadataChanged,
    PartsReported,
    ResponseClosed,
    ResponseOpened,
)
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.sqlite.owners import own_name
from dragoman.journal.store import JournalInfo
from dragoman.lm import JsonObject, TextPart, ThinkingPart
from dragoman.store import Database, SqliteResponses, StoredResponse
from stored_journals import AGENT, CHAT, EDITOR, GRANT, NONCE, START, store


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(folder))
    monkeypatch.setenv("TZ", "UTC")
    return folder


@pytest.fixture
def state(empty: Path) -> Path:
    store(empty)
    return empty


@pytest.mark.usefixtures("state")
def test_the_list_has_chats_and_what_belongs_to_no_chat(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.split("  ")[0] == "ID"
    assert [row.split()[:3] for row in rows] == [
        [EDITOR, "stdio:editor", "claude"],
        [CHAT, "chat", "claude"],
    ]
    assert all("Hello\\nworld" in row for row in rows)


@pytest.mark.usefixtures("state")
def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1]) == {
        "id": CHAT,
        "kind": "chat",
        "client": "terminal",
        "chat": None,
        "model": "claude",
        "title": "Hello\nworld",
        "workspace": "/folder",
        "startedAt": "2026-01-02T03:04:05Z",
        "usedAt": "2026-01-02T03:04:11Z",
        "events": 7,
        "openIn": None,
    }


@pytest.mark.usefixtures("state")
def test_one_is_shown_event_by_event_and_nothing_in_it_acts_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["conversations", "show", EDITOR[:4]]) == 0
    head, day, *lines = capsys.readouterr().out.splitlines()
    assert head.split("  ")[:3] == [EDITOR, "conversation of stdio:editor", "claude"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    # Without the hour, which depends on where the test runs.
    assert [line[3:] if line[0].isdigit() else line for line in lines] == [
        "04:05         1  conversation with claude in /folder",
        "04:06         2  request 1: new conversation (nothing in it is known)",
        "                    user: Hello",
        "                      \\x1b[2Jworld",
        "04:07         3  agent Claude 1.0 started, process 42, with a new session session-1",
        "04:09         5  thinking: Hm.",
        "04:10         6  assistant: Let me look.",
        "04:11         7  step: make private (execute, pending)",
        "04:12         8  permission: Claude wants to run: make private",
        "04:13         9  reply 1 ended, complete",
        '                    call dragoman-agent-action-execute {"nonce":"…"}',
        "04:14        10  request 2: continues with results of calls, by the id of a call (1 of 1 calls answered)",
        "                    result of dg_1: take dragoman-grant-…",
        "04:16        12  allowed by a person, at the terminal, after 2.5 s",
        "04:17        13  assistant: Done.",
        "04:18        14  reply 2 ended, complete",
        "04:19        15  agent ended",
    ]


@pytest.mark.usefixtures("state")
def test_a_chat_has_what_its_agents_did_and_no_text_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "show", CHAT]) == 0
    shown = capsys.readouterr().out
    assert shown.count("Let me look.") == shown.count("Done.") == shown.count("user: Hello") == 1
    assert shown.count("step: make private") == 1
    for words in (
        "request 1: new conversation (nothing in it is known)",
        "permission: Claude wants to run: make private",
        "allowed by a person, at the terminal, after 2.5 s",
        "permission: read_file: Reading a private file",
        "allowed by a rule: read-only, at the terminal, after 0.0 s",
        "agent Claude 1.0 started",
        "agent ended",
    ):
        assert shown.count(words) == 1, words
    times = re.findall(r"^\d\d:\d\d:\d\d", shown, re.MULTILINE)
    assert times == sorted(times)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("arguments", [["show", CHAT], ["show", CHAT, "--json"], ["export", CHAT]])
def test_neither_nonces_nor_grants_are_printed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for each in (CHAT, EDITOR, AGENT):
        assert main(["conversations", *[each if word == CHAT else word for word in arguments]]) == 0
    printed = capsys.readouterr().out
    assert NONCE not in printed
    assert GRANT not in printed


@pytest.mark.usefixtures("state")
def test_one_as_it_was_after_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "show", EDITOR, "--at", "9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "reply 1 ended" in lines[-3]
    assert lines[-1] == f"{EDITOR}: 2 items, 1 reply (1 complete), 1 open call, session session-1"
    assert main(["conversations", "show", CHAT, "--at", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"{CHAT}: 2 messages, model claude",
        f"{AGENT}: 1 item, 1 reply (1 streaming), 0 open calls, session none",
    ]
    assert main(["conversations", "show", CHAT, "--at", "99"]) == 1
    assert "numbered from 1 to 7" in capsys.readouterr().err
    # The number as it is shown, of an event of the chat's agent.
    assert main(["conversations", "show", CHAT, "--at", "agen:3"]) == 0
    assert "agen:3  agent Claude 1.0 started" in capsys.readouterr().out.splitlines()[-3]


@pytest.mark.usefixtures("state")
def test_events_as_json_have_their_journal_number_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "show", CHAT, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(events) == 7 + 15
    assert events[0]["event"]["type"] == "journal_started"
    assert {event["journal"] for event in events} == {CHAT, AGENT}
    own = [event for event in events if event["journal"] == CHAT]
    assert [event["sequence"] for event in own] == list(range(1, 8))
    assert own[0]["at"] == "2026-01-02T03:04:05Z"


@pytest.mark.usefixtures("state")
def test_an_export_is_one_document_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations", "export", CHAT]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["id"], document["kind"], len(document["journal"])) == (CHAT, "chat", 22)
    text = json.dumps(document)
    for words in ("private.txt", "make private", "Let me look.", "nothing in it is known", "session-1"):
        assert words in text
    assert main(["conversations", "export", CHAT, EDITOR]) == 2


def test_j6_deleting_leaves_no_content_in_any_file_and_decisions_stay(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conversations", "delete", CHAT, EDITOR]) == 0
    assert f"Conversation {CHAT} is deleted." in capsys.readouterr().out
    data = b"".join(path.read_bytes() for path in state.glob("dragoman.db*"))
    for words in (b"Hello", b"private", b"Let me look", NONCE.encode(), GRANT.encode(), b"/folder"):
        assert words not in data
    assert main(["conversations"]) == 0
    assert capsys.readouterr().out == "No conversation is stored.\n"
    for id_ in (CHAT, AGENT, EDITOR):
        assert main(["conversations", "show", id_]) == 1
    capsys.readouterr()
    assert main(["approvals", "history", "--json"]) == 0
    decisions = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(decisions) == 3
    assert all("(content deleted)" in each["what"] and each["digest"] in each["what"] for each in decisions)


async def _add(state: Path, journal: str, *events: AnyEvent) -> None:
    with Database.open(state) as database:
        stamped = [(START + at, event) for at, event in enumerate(events)]
        await SqliteJournals(database).append(journal, 0, stamped, holds=False)


_RESPONSE = "resp_0123456789"
_ITEMS = "conv_0123456789"


async def _add_http(state: Path) -> None:
    """A background response, its row, the agent's conversation that it belongs to, and a conversation's items."""
    parts = [
        PartsReported((ThinkingPart("Hm"),)),
        PartsReported((ThinkingPart("."), TextPart("One "))),
        PartsReported((TextPart("two."),)),
    ]
    end = ResponseClosed("failed", 0, error={"message": "It broke."})
    opened = ResponseOpened("spec")
    await _add(
        state, _RESPONSE, JournalStarted("response", "claude", connection="http:"), opened, *parts, end
    )
    said: JsonObject = {
        "id": "i1",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Hello, items"}, {"type": "input_image"}],
    }
    call: JsonObject = {"type": "function_call", "name": "look", "arguments": '{"a": 1}', "call_id": "c1"}
    output: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    thought: JsonObject = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    other: JsonObject = {"type": "compaction"}
    events = (
        ItemsAdded((said, call, output, thought, other)),
        ItemRemoved("i9"),
        MetadataChanged({"a": "b"}),
    )
    await _add(state, _ITEMS, JournalStarted("items", "", connection="http:"), *events)
    await _add(state, "httpagenthttpage", JournalStarted("agent", "claude", connection="http:"))
    with Database.open(state) as database:
        now = datetime.now(UTC)
        row = StoredResponse(_RESPONSE, "http:", None, now, b"One two.", "httpagenthttpage")
        await SqliteResponses(database).save(row)


def _words(shown: str) -> list[str]:
    """The lines without times and numbers."""
    return [line[20:].rstrip() for line in shown.splitlines()[2:]]


def test_what_the_server_keeps_is_listed_with_all(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_add_http(state))
    assert main(["conversations", "list"]) == 0
    listed = capsys.readouterr().out
    assert _RESPONSE not in listed
    assert re.search("^httpagenthttpage  http  +claude", listed, re.MULTILINE)
    assert main(["conversations", "list", "--all"]) == 0
    everything = capsys.readouterr().out
    assert re.search(f"^{_RESPONSE} +background response +claude", everything, re.MULTILINE)
    assert re.search(f"^{_ITEMS} +items", everything, re.MULTILINE)
    assert f"{AGENT}  agent in the chat {CHAT}" in everything
    assert main(["conversations", "list", "--all", "--json"]) == 0
    clients = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["id"]: each["client"] for each in clients} == {
        CHAT: "terminal",
        AGENT: "terminal",
        EDITOR: "stdio:editor",
        _RESPONSE: "http",
        _ITEMS: "http",
        "httpagenthttpage": "http",
    }


def test_what_the_server_keeps_is_shown_in_words(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_add_http(state))
    assert main(["conversations", "show", "resp_"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{_RESPONSE}  background response of http  claude  ")
    assert _words(shown) == [
        "background response with claude",
        "the response has begun",
        "thinking: Hm.",
        "assistant: One two.",
        "the response has ended, failed: It broke.",
    ]
    assert main(["conversations", "show", "conv_"]) == 0
    assert _words(capsys.readouterr().out) == [
        "conversation made by /v1/conversations",
        "user: Hello, items(input_image)",
        'call look {"a": 1}',
        "result of c1: seen",
        "thinking: Hm.",
        'compaction: {"type":"compaction"}',
        "item i9 was deleted",
        'metadata: {"a":"b"}',
    ]
    for id_, at, summary in (
        (_RESPONSE, "5", "4 parts, under way"),
        (_RESPONSE, "6", "4 parts, failed"),
        (_ITEMS, "2", "5 items"),
    ):
        assert main(["conversations", "show", id_, "--at", at]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"{id_}: {summary}"


def test_deleting_a_response_deletes_what_http_clients_get_of_it(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_add_http(state))
    assert main(["conversations", "delete", _RESPONSE]) == 0
    assert f"Conversation {_RESPONSE} is deleted." in capsys.readouterr().out
    with Database.open(state) as database:
        assert asyncio.run(SqliteResponses(database).find(_RESPONSE, "http:")) is None
        # As with DELETE /v1/responses/{id}.
        assert asyncio.run(SqliteJournals(database).find("httpagenthttpage")) is None
    assert b"One two." not in b"".join(path.read_bytes() for path in state.glob("dragoman.db*"))


def test_text_in_pieces_is_one_and_a_reply_without_an_end_is_incomplete(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = (TextSaid(1, 0, 4, "One "), TextSaid(1, 4, 4, "two."), ReplyEnded(1, "complete"))
    more = (
        ThinkingSaid(2, 1, "H"),
        ThinkingSaid(2, 1, "m"),
        TextSaid(2, 0, 3, "Thr"),
        TextSaid(2, 3, 2, "ee"),
    )
    asyncio.run(_add(state, "piecespiecespiec", JournalStarted("agent", "claude"), *pieces, *more))
    assert main(["conversations", "show", "piec"]) == 0
    assert _words(capsys.readouterr().out)[1:] == [
        "assistant: One two.",
        "reply 1 ended, complete",
        "thinking (incomplete): Hm",
        "assistant (incomplete): Three",
    ]


def test_lines_are_not_wider_than_the_terminal() -> None:
    info = JournalInfo(EDITOR, "agent", "claude", "", "stdio:editor", "", None, START, START, 2, "")
    words = TextSaid(1, 0, 0, "Many words follow one another.\n" * 2)
    shown = list(lines([ShownEntry(EDITOR, JournalEntry(2, START, words))], info, 40))
    assert all(len(line) <= 40 for line in shown)
    assert [line.strip() for line in shown[-2:]] == ["Many words follow", "one another."]


def test_what_is_not_there_and_what_cannot_be_read_fail(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database.open(state) as database, database.writing():
        database.execute("UPDATE journal_entries SET content = X'7b'")
    assert main(["conversations", "show", CHAT, "none"]) == 1
    broken, none = capsys.readouterr().err.splitlines()
    assert broken.startswith(f"dragoman: Conversation {CHAT} cannot be read: ")
    assert none == 'dragoman: There is no conversation "none". `dragoman conversations` lists them.'


def test_the_beginning_of_an_id_must_be_long_enough_and_of_one(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def add(database: Database) -> None:
        started = JournalStarted("chat", "demo")
        await SqliteJournals(database).append("chatterbox234567", 0, [(START, started)], holds=False)

    with Database.open(state) as database:
        asyncio.run(add(database))
    assert main(["conversations", "show", "edi"]) == 1
    assert f'"edi" is too short for an id: give at least 4 characters. It begins {EDITOR}.' in (
        capsys.readouterr().err
    )
    assert main(["conversations", "show", "chat"]) == 1
    assert f'"chat" matches several: {CHAT}, chatterbox234567. Give more of it.' in capsys.readouterr().err
    assert main(["conversations", "show", "chatc"]) == 0


def test_one_that_is_under_way_is_not_deleted(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(empty, owner=own_name())
    assert main(["conversations", "delete", CHAT]) == 1
    assert f"is under way in process {os.getpid()}" in capsys.readouterr().err
    assert main(["conversations", "show", CHAT]) == 0


@pytest.mark.usefixtures("empty")
def test_without_any_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conversations"]) == 0
    assert capsys.readouterr().out == "No conversation is stored.\n"


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shwo"], 'Did you mean "show"?'),
        (["show"], "which?"),
        (["delete"], "which?"),
        (["list", "abc"], 'Did you mean "show abc"?'),
        (["list", "--at", "3"], "--at is for one conversation"),
        (["show", "abcd", "--at", "0"], "is no number of an event"),
        (["show", "abcd", "--all"], "--all is for the list"),
        (["tlaz"], 'Did you mean "show tlaz"?'),
        (["resp_0123", "abcd"], 'Did you mean "show resp_0123 abcd"?'),
    ],
)
def test_nonsense_is_refused_with_what_to_write(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conversations", *arguments]) == 2
    assert said in capsys.readouterr().err
