"""`dragoman approvals history`: who allowed what, when, where and why."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.decision_history import since
from dragoman.cli.errors import UsageError
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import StampedEvent
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.store import Database
from dragoman.store.journal_rows import SPACE
from stored_journals import AGENT, CHAT, EDITOR, START, store

_NOW = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(folder))
    return folder


def test_every_decision_has_its_row(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(state)
    assert main(["approvals", "history"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["WHEN", "CLIENT", "AGENT", "WHAT", "DECISION", "BY", "TOOK"]
    assert [row.split("  ")[1:] for row in rows]
    shown = [[each.strip() for each in row.split("  ") if each.strip()][1:] for row in rows]
    assert shown == [
        ["terminal", "claude", "read_file: Reading a private file", "allowed", "rule: read-only", "0.0 s"],
        ["terminal", "claude", "run: make private", "allowed", "person", "2.5 s"],
        ["terminal", "claude", "run: make private", "allowed", "person", "2.5 s"],
    ]


def test_as_json_it_has_the_complete_action(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(state)
    assert main(["approvals", "history", "--json"]) == 0
    first, *others = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first["action"]["input"] == {"path": "private.txt"}
    assert (first["conversation"], first["at"], first["by"], first["why"], first["allowed"]) == (
        CHAT,
        "2026-01-02T03:04:09Z",
        "rule",
        "read-only",
        True,
    )
    assert {each["conversation"] for each in others} == {AGENT, EDITOR}
    assert others[0]["action"]["command"] == "make private"
    assert others[0]["seconds"] == 2.5


def test_only_those_since_a_time_and_those_without_a_decision(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def add(database: Database) -> None:
        now = datetime.now(UTC).timestamp()
        events: list[StampedEvent] = [
            (now - 7200, JournalStarted("agent", "claude", connection="stdio:editor")),
            # Asked before the time that is asked for, and decided after it.
            (now - 7000, PermissionRequested("p1", "claude", "edit", "dragoman-agent-action-edit", "d1")),
            (now - 60, PermissionDecided("p1", is_allowed=False, by="timeout", where="vscode", seconds=6940)),
            (now - 30, PermissionRequested("p2", "claude", "edit", "dragoman-agent-action-edit", "d2")),
        ]
        await SqliteJournals(database).append("abcdefghijklmnop", 0, events, holds=False)

    store(state)
    with Database.open(state) as database:
        asyncio.run(add(database))
    assert main(["approvals", "history", "--since", "30m", "--json"]) == 0
    late, undecided = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (late["digest"], late["allowed"], late["by"], late["client"]) == ("d1", False, "timeout", "vscode")
    assert "(content not kept) d1" in late["what"]
    assert (undecided["digest"], undecided["allowed"], undecided["client"]) == ("d2", None, "vscode")
    start = datetime.fromtimestamp(START + 10, UTC).isoformat()
    assert main(["approvals", "history", "--since", start, "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["approvals", "history", "--since", "30m"]) == 0
    assert "undecided" in capsys.readouterr().out


def test_the_level_of_a_yes_is_known_also_without_content(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def add(database: Database) -> None:
        decided = PermissionDecided(
            "p", is_allowed=True, by="person", where="terminal", seconds=1, why="always"
        )
        events: list[StampedEvent] = [
            (START, JournalStarted("chat", "claude")),
            (START, PermissionRequested("p", "claude", "other", "write_file", "d")),
            (START, decided),
        ]
        await SqliteJournals(database).append("abcdefghijklmnop", 0, events, holds=False)
        await SqliteJournals(database).delete("abcdefghijklmnop")

    with Database.open(state) as database:
        asyncio.run(add(database))
    assert main(["approvals", "history", "--json"]) == 0
    [decision] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (decision["level"], "(content deleted)" in decision["what"]) == ("always", True)


def test_one_journal_that_cannot_be_read_does_not_hide_the_others(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(state)
    with Database.open(state) as database, database.writing():
        database.execute(
            "UPDATE journal_entries SET content = X'7b' WHERE key / ? = (SELECT number FROM journals WHERE id = ?)",
            SPACE,
            EDITOR,
        )
    assert main(["approvals", "history", "--json"]) == 0
    shown = [json.loads(line)["conversation"] for line in capsys.readouterr().out.splitlines()]
    assert shown == [CHAT, AGENT]


@pytest.mark.usefixtures("state")
def test_without_any_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "history"]) == 0
    assert capsys.readouterr().out == "No decision is recorded.\n"
    assert main(["approvals", "history", "--since", "7d"]) == 0
    assert capsys.readouterr().out == "No decision is recorded since then.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", _NOW - timedelta(minutes=30)),
        ("12h", _NOW - timedelta(hours=12)),
        ("7d", _NOW - timedelta(days=7)),
        ("2W", _NOW - timedelta(weeks=2)),
        ("2026-03-01", datetime(2026, 3, 1).astimezone()),
        ("2026-03-01T09:30+00:00", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
    ],
)
def test_times(text: str, expected: datetime) -> None:
    assert since(text, _NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "7", "d", "-7d", "2026-13-01", "", "999999w"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="Write 30m, 12h, 7d or 2w, or a date"):
        since(text, _NOW)


@pytest.mark.usefixtures("state")
def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "list", "--since", "7d"]) == 2
    assert "dragoman approvals history --since 7d" in capsys.readouterr().err
    assert main(["approvals", "history", "--since", "soon"]) == 2
    assert '"soon" is no time. Write 30m' in capsys.readouterr().err
    assert main(["approvals", "histroy"]) == 2
    assert 'Did you mean "history"?' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("in_the_agents", "shown"),
    [
        # It ended before it got the answer.
        ([("end", False, "the agent ended")], ["refused", "person: not now", "1.0 s"]),
        ([("person", False, "not now")], ["refused", "person: not now", "1.0 s"]),
        ([], ["refused", "person: not now", "1.0 s"]),
    ],
)
def test_what_a_person_decided_in_a_chat_counts(
    state: Path,
    capsys: pytest.CaptureFixture[str],
    in_the_agents: list[tuple[str, bool, str]],
    shown: list[str],
) -> None:
    """The agent's journal has it only when the agent got it, with the next prompt."""
    asked = PermissionRequested("dg_x_1_y", "claude", "execute", "dragoman-agent-action-execute", "digest")

    async def write() -> None:
        with Database.open(state) as database:
            journals = SqliteJournals(database)
            agent: list[StampedEvent] = [
                (10.0, JournalStarted("agent", "claude", parent="chat")),
                (11.0, asked),
            ]
            for by, allowed, why in in_the_agents:
                agent.append((20.0, PermissionDecided("dg_x_1_y", allowed, by, "terminal", 9.0, why)))  # type: ignore[arg-type]
            await journals.append("agent", 0, agent, holds=False)
            no = PermissionDecided(
                "dg_x_1_y", is_allowed=False, by="person", where="terminal", seconds=1.0, why="not now"
            )
            await journals.append(
                "chat", 0, [(9.0, JournalStarted("chat", "claude")), (12.0, no)], holds=False
            )

    asyncio.run(write())
    assert main(["approvals", "history"]) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert [each.strip() for each in row.split("  ") if each.strip()][-3:] == shown
