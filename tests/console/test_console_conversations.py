"""The list of conversations and the chats of the terminal, from a state folder; and what another process has."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from console.asking import ADMIN, session_of
from dragoman.frontends.console.append_notices import AppendNotices
from dragoman.frontends.console.conversation_list import PAGE_SIZE, ConversationFilter, Conversations
from dragoman.frontends.console.sessions import ConsoleScope
from dragoman.frontends.console.wire import ConsoleError
from dragoman.journal.agent_events import TextSaid
from dragoman.journal.event import JournalStarted
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.permissions.inbox import Inbox
from dragoman.store import Database
from http_server.kit import Json, soon
from stored_journals import CHAT, EDITOR, store

_HOLDER = Path(__file__).with_name("holder.py")
ALL = ConversationFilter()


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[SqliteJournals]:
    with Database.open(tmp_path) as database:
        yield SqliteJournals(database)


@pytest.fixture
def conversations(journals: SqliteJournals) -> Conversations:
    return Conversations(journals, lambda: (), Inbox(), {"http:a": "alice"})


async def _append(journals: SqliteJournals, id_: str, at: float, connection: str = "http:a") -> None:
    started = JournalStarted("agent", "claude", ("/folder",), connection, title=f"about\n\x1b{id_}")
    await journals.append(id_, 0, [(at, started), (at, TextSaid(1, 0, 1, "x"))], holds=False)


async def _ids(
    conversations: Conversations, wanted: ConversationFilter, scope: ConsoleScope = ADMIN
) -> list[str]:
    page: Json = await conversations.page(session_of(scope), wanted)
    return [each["id"] for each in page["conversations"]]


async def test_the_latest_used_come_first_page_by_page(
    journals: SqliteJournals, conversations: Conversations
) -> None:
    # Two of one moment, where the first page ends.
    moments = [*range(PAGE_SIZE + 20), 20.0]
    for number, at in enumerate(moments):
        await _append(journals, f"c{number}", 1000.0 + at)
    found: list[str] = []
    before: float | None = None
    sizes = []
    while True:
        page: Json = await conversations.page(session_of(), ConversationFilter(before=before))
        found += [each["id"] for each in page["conversations"]]
        sizes.append(len(page["conversations"]))
        before = page["next"]
        if before is None:
            break
    assert sizes == [PAGE_SIZE + 1, 20]
    assert sorted(found) == sorted(f"c{number}" for number in range(len(moments)))
    assert found[0] == f"c{PAGE_SIZE + 19}"


async def test_a_conversation_in_the_list(journals: SqliteJournals, conversations: Conversations) -> None:
    await _append(journals, "c1", 5.0)
    await _append(journals, "c2", 6.0, "http:b")
    page: Json = await conversations.page(session_of(), ConversationFilter(client="http"))
    assert page["conversations"][1] == {
        "id": "c1",
        "model": "claude",
        "title": "about ␛c1",
        "client": "http",
        "key": "alice",
        "folder": "/folder",
        "started_at": 5.0,
        "used_at": 5.0,
        "sequence": 2,
        "state": "stored",
        "owner": None,
        "node": None,
        "questions": 0,
    }
    assert await _ids(conversations, ALL, ConsoleScope("alice", "http:a")) == ["c1"]
    assert await _ids(conversations, ConversationFilter(model="other")) == []
    assert await _ids(conversations, ConversationFilter(state="idle")) == []
    assert await _ids(conversations, ConversationFilter(client="terminal")) == []


async def test_a_chat_of_the_terminal_has_the_permissions_of_its_agents(
    tmp_path: Path, conversations: Conversations
) -> None:
    await asyncio.to_thread(store, tmp_path)
    # The agent's conversation in it is not listed by itself.
    assert sorted(await _ids(conversations, ALL)) == sorted([CHAT, EDITOR])
    shown: Json = await conversations.entries(session_of(), CHAT, 0)
    permissions = [entry for entry in shown["entries"] if entry["role"] == "permission"]
    assert {entry["text"] for entry in permissions} == {
        "read_file: Reading a private file",
        "run: make private",
    }
    assert all(entry["outcome"]["state"] == "allowed" for entry in permissions)
    assert len({entry["key"] for entry in shown["entries"]}) == len(shown["entries"])
    await conversations.delete(session_of(), CHAT)
    assert await _ids(conversations, ALL) == [EDITOR]


async def test_many_entries_come_in_several_answers(
    journals: SqliteJournals, conversations: Conversations
) -> None:
    await _append(journals, "c1", 5.0)
    sequence = 2
    for number in range(2, 1_300):
        sequence = await journals.append(
            "c1", sequence, [(5.0, TextSaid(number, 0, 1, str(number)))], holds=False
        )
    known: dict[str, Json] = {}
    after, answers = 0, 0
    while True:
        shown: Json = await conversations.entries(session_of(), "c1", after)
        known |= {entry["key"]: entry for entry in shown["entries"]}
        after, answers = shown["sequence"], answers + 1
        if not shown["more"]:
            break
    assert answers == 3
    assert [entry["text"] for entry in known.values()][-2:] == ["1298", "1299"]
    assert len(known) == 1_299


@pytest.fixture
async def held(tmp_path: Path, journals: SqliteJournals) -> AsyncIterator[int]:
    """The pid of another process that has conversations."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_HOLDER),
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await soon(process.stdout.readline()) == b"ready\n"
    yield process.pid
    process.kill()
    await soon(process.wait())


async def test_what_another_process_has_is_shown_and_left_alone(
    held: int, conversations: Conversations
) -> None:
    shown: Json = await conversations.entries(session_of(), "editoreditoredit", 0)
    about = shown["conversation"]
    assert (about["state"], about["owner"], about["client"]) == ("elsewhere", str(held), "vscode")
    for change in (conversations.stop, conversations.park, conversations.delete):
        with pytest.raises(ConsoleError) as refused:
            await change(session_of(), "editoreditoredit")
        assert (refused.value.status, refused.value.code) == (409, "elsewhere")
        assert str(held) in refused.value.message
    assert "editoreditoredit" in await _ids(conversations, ConversationFilter(state="elsewhere"))


async def test_of_many_appends_a_page_learns_the_first_at_once_and_then_the_last() -> None:
    published: list[tuple[str, int]] = []
    passed = asyncio.Event()

    def publish(journal: str, sequence: int, _connection: str) -> None:
        published.append((journal, sequence))
        if sequence == 9:
            passed.set()

    notices = AppendNotices(publish, seconds=0.02)
    for sequence in range(10):
        notices.note("c1", sequence, "http:")
    notices.note("c2", 1, "http:")
    assert published == [("c1", 0), ("c2", 1)]
    await soon(passed.wait())
    assert published == [("c1", 0), ("c2", 1), ("c1", 9)]
    notices.close()
