"""`dragoman approvals`: the list, and taking things back."""

import io
import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.store import ApprovalStore, Database
from terminal_screen import Terminal

_WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder in which three things are approved."""
    folder = tmp_path / "state"
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(folder))
    with Database.open(folder) as database:
        store = ApprovalStore(database)
        store.add("run_command", "in '/home/me/project': make test", "/home/me/project", _WHEN)
        store.add("fetch_url", "https://docs.example/" + "x" * 100, None, _WHEN)
        store.add("write_file", "a\x1b[2J\nb.txt", None, _WHEN)
    return folder


def _kept(folder: Path) -> list[str]:
    with Database.open(folder) as database:
        return [approval.tool for approval in ApprovalStore(database).list()]


@pytest.mark.usefixtures("state")
def test_the_list_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals"]) == 0
    when = _WHEN.astimezone().strftime("%Y-%m-%d %H:%M")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["ID", "WHAT", "AGENT", "FOLDER", "LEVEL", "WHEN"]
    columns = [shown[0].index(name) for name in ("ID", "WHAT", "AGENT", "FOLDER", "LEVEL", "WHEN")]
    cells = [[line[at:].split("  ")[0].strip() for at in columns] for line in shown[1:]]
    assert cells == [
        [
            "1",
            "this command in this folder: make test",
            "any model",
            "/home/me/project",
            "workspace",
            when,
        ],
        ["2", "this address: https://docs.example/" + "x" * 36 + "…", "any model", "any", "always", when],
        # On one line, and with nothing that the terminal would obey.
        ["3", "any change to a\\x1b[2J\\nb.txt", "any model", "any", "always", when],
    ]
    assert "run_command" not in "".join(shown)


@pytest.mark.usefixtures("state")
def test_internals_are_listed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "-v"]) == 0
    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[-2:] == ["TOOL", "KEY"]
    assert first.split(maxsplit=1)[1].endswith("run_command  in '/home/me/project': make test")


@pytest.mark.usefixtures("state")
def test_the_list_as_json_has_everything_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "list", "--json"]) == 0
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "id": "1",
        "level": "workspace",
        "tool": "run_command",
        "key": "in '/home/me/project': make test",
        "covers": "this command in this folder: make test",
        "agent": "any model",
        "folder": "/home/me/project",
        "workspace": "/home/me/project",
        "grantedAt": "2026-01-02T03:04:05Z",
    }
    assert second["key"] == "https://docs.example/" + "x" * 100
    assert (third["key"], third["workspace"]) == ("a\x1b[2J\nb.txt", None)


def test_an_empty_list_says_so_and_makes_the_state_folder_private(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["approvals"]) == 0
    assert capsys.readouterr().out == "Nothing is approved beyond the session it was approved in.\n"
    folder = home / ".local/state/dragoman"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "dragoman.db").stat().st_mode) == 0o600


def test_some_are_taken_back(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "revoke", "1", "3"]) == 0
    assert capsys.readouterr().out == "Approval 1 is taken back.\nApproval 3 is taken back.\n"
    assert _kept(state) == ["fetch_url"]


def test_what_does_not_exist_cannot_be_taken_back_but_the_rest_is(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["approvals", "revoke", "77", "2", "s1"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "Approval 2 is taken back.\n"
    assert shown.err.splitlines() == [
        'dragoman: There is no approval "77". `dragoman approvals` lists them.',
        'dragoman: There is no approval "s1". `dragoman approvals` lists them.',
    ]
    assert _kept(state) == ["run_command", "write_file"]


def test_everything_is_taken_back_without_a_question_for_scripts(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["approvals", "reset", "--yes"]) == 0
    assert capsys.readouterr().out == (
        "All approvals are taken back: 3 that were stored, and those of running sessions.\n"
    )
    assert _kept(state) == []


def test_without_a_terminal_and_without_yes_nothing_is_taken_back(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["approvals", "reset"]) == 2
    assert capsys.readouterr().err == (
        "dragoman: There is no terminal to ask at. Say --yes if this is what you want.\n"
    )
    assert len(_kept(state)) == 3


@pytest.mark.parametrize(("answer", "status", "left"), [("y", 0, 0), ("n", 1, 3), ("", 1, 3)])
def test_at_a_terminal_resetting_asks_first(state: Path, answer: str, status: int, left: int) -> None:
    arguments = ("-m", "dragoman", "approvals", "reset", "--state-dir", str(state))
    with Terminal(*arguments, cwd=state.parent) as terminal:
        terminal.wait_for(r"Take back 3 stored approvals and those of all running sessions\? \[y/N\]")
        terminal.enter(answer)
        assert terminal.wait_end() == status
        assert ("Nothing is taken back." in terminal.text) == (left == 3)
    assert len(_kept(state)) == left


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("approvals revok 1", 'approvals: there is no "revok". Did you mean "revoke"?'),
        (
            "approvals frobnicate",
            'approvals: there is no "frobnicate". There are list, history, reset, revoke.',
        ),
        ("approvals revoke", "approvals revoke: which? Give the ids that `dragoman approvals` shows."),
        ("approvals --yes", "--yes is for reset: dragoman approvals reset --yes"),
        ("approvals reset 1 2", 'approvals reset: takes no ids. Did you mean "revoke 1 2"?'),
    ],
)
def test_nonsense_changes_nothing(
    line: str, problem: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err == f"dragoman: {problem}\n"
    assert len(_kept(state)) == 3


def test_a_state_folder_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["approvals", "--state-dir", str(tmp_path / "file")]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"dragoman: {tmp_path}/file/dragoman.db: The state folder cannot be used")
    assert "Choose another with --state-dir." in shown
