"""`dragoman policy`: rules that are listed, added, explained, tried out and suggested."""

import asyncio
import io
import json
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.cli import main
from dragoman.clock import SystemClock
from dragoman.demo.show import play_tour
from dragoman.frontends.terminal.screen import Screen
from dragoman.journal.agent_events import PermissionDecided
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import StampedEvent
from dragoman.journal.permission_event import permission_requested
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy.starter import starter_text
from dragoman.store import Database
from own_home import configure

_RULES = """\
[[policy]]
decision = "allow"
command = ["git", ["log", "status"]]
args = "any"

[[policy]]
decision = "deny"
command = ["git", "push"]
args = "any"
reason = "People push."

[[policy]]
decision = "ask"
kind = "edit"
paths = ["docs/**"]
"""
_Out = pytest.CaptureFixture[str]


def _own_file(home: Path) -> Path:
    return home / ".config" / "dragoman" / "dragoman.toml"


def _explained(capsys: _Out, *arguments: str) -> dict[str, object]:
    assert main(["policy", "explain", "--json", *arguments]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    assert found.keys() == {"decision", "rules", "reason"}
    return found


# check


def test_check_lists_each_rule_with_its_file_and_line(capsys: _Out) -> None:
    configure(_RULES)
    assert main(["policy", "check"]) == 0
    assert main(["policy"]) == 0
    lines = [
        "dragoman.toml:1: allow `git (log|status)` with any arguments",
        "dragoman.toml:6: deny `git push` with any arguments",
        "dragoman.toml:12: ask about edit of docs/**",
    ]
    assert capsys.readouterr().out.splitlines() == lines * 2


def test_check_warns(capsys: _Out) -> None:
    configure(
        _RULES + '[[policy]]\ndecision = "allow"\nagent = "nobody"\ncommand = ["python"]\nargs = "any"\n'
    )
    assert main(["policy", "check"]) == 0
    cautions = [line for line in capsys.readouterr().out.splitlines() if line.startswith("caution: ")]
    assert cautions == [
        'caution: dragoman.toml:16: no model is called "nobody", so the rule never applies to it',
        "caution: dragoman.toml:16: with any arguments, python can run any program or code: the rule allows everything",
    ]


def test_check_has_the_rules_of_a_found_file_that_tighten(home: Path, capsys: _Out) -> None:
    _own_file(home).parent.mkdir(parents=True)
    _own_file(home).write_text('[[policy]]\ndecision = "allow"\ncommand = ["ls"]\n')
    Path("dragoman.toml").write_text(_RULES)
    assert main(["policy", "check"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        f"{_own_file(home)}:1: allow `ls`",
        "dragoman.toml:6: deny `git push` with any arguments",
        "dragoman.toml:12: ask about edit of docs/**",
    ]
    assert "ignored" in shown.err


def test_check_without_rules_says_how_to_begin(capsys: _Out) -> None:
    assert main(["policy", "check"]) == 0
    assert capsys.readouterr().out == "There are no rules. `dragoman policy init` offers a first set.\n"


@pytest.mark.parametrize("command", [["check"], ["explain", "--command", "ls"], ["test"], ["suggest"]])
def test_a_rule_that_is_wrong_is_reported_with_its_line(command: list[str], capsys: _Out) -> None:
    configure(_RULES + '[[policy]]\ndecision = "allow"\ncommand = ["ls"]\nexamples = ["ls -l"]\n')
    assert main(["policy", *command]) == 2
    assert 'dragoman.toml:19: "ls -l" in "examples"' in capsys.readouterr().err


# explain


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--command", " "], "the action is empty"),
        (["--tool", ""], "the action is empty"),
        (["--url", "example.com"], "--url needs a whole address, with its scheme: https://example.com"),
    ],
)
def test_explain_needs_a_whole_action(arguments: list[str], words: str, capsys: _Out) -> None:
    assert main(["policy", "explain", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "decision", "lines"),
    [
        (["--command", "git log -3"], "allow", [1]),
        (["--command", "git status && git log"], "allow", [1]),
        (["--command", "git log; git push"], "deny", [6, 1]),
        (["--command", "git log; make"], "ask", [1]),
        (["--command", "make"], "ask", []),
        (["--command", "cat .env"], "ask", []),
        (["--kind", "edit", "--path", "docs/a.md"], "ask", [12]),
        (["--kind", "edit", "--path", "src/a.md"], "ask", []),
        (["--kind", "read", "--path", "docs/a.md"], "ask", []),
        (["--url", "https://docs.example/"], "ask", []),
        (["--tool", "deploy"], "ask", []),
    ],
)
def test_explain_as_json(arguments: list[str], decision: str, lines: list[int], capsys: _Out) -> None:
    configure(_RULES)
    found = _explained(capsys, *arguments)
    decisions = {1: "allow", 6: "deny", 12: "ask"}
    assert found["decision"] == decision
    assert found["rules"] == [
        {"file": "dragoman.toml", "line": line, "decision": decisions[line]} for line in lines
    ]


def test_explain_gives_the_reason(capsys: _Out) -> None:
    configure(_RULES + "[tools]\neligible = { dragoman-agent-action-execute = false }\n")
    assert _explained(capsys, "--command", "git push")["reason"] == "People push."
    assert _explained(capsys, "--command", "cat .env")["reason"] == "it is sensitive: it names .env"
    ineligible = _explained(capsys, "--command", "git log")
    assert ineligible["decision"] == "ask"
    assert ineligible["reason"] == "[tools.eligible] says dragoman-agent-action-execute = false"


def test_explain_for_an_agent_and_a_workspace(tmp_path: Path, capsys: _Out) -> None:
    there = tmp_path / "there"
    there.mkdir()
    configure(
        f'[[policy]]\ndecision = "allow"\nagent = "demo"\nworkspace = "{there}"\ncommand = ["cat"]\nargs = "any"\n'
        'paths = ["**"]\n'
    )
    wanted = ["--command", "cat a.txt", "--agent", "demo", "--cwd", str(there)]
    assert _explained(capsys, *wanted)["decision"] == "allow"
    assert _explained(capsys, *wanted[:4])["decision"] == "ask"
    assert _explained(capsys, *wanted[:2], *wanted[4:])["decision"] == "ask"
    assert _explained(capsys, "--command", "cat ../a.txt", *wanted[2:])["decision"] == "ask"


def test_explain_says_how_a_decision_comes_about(capsys: _Out) -> None:
    configure(_RULES)
    assert main(["policy", "explain", "--command", "timeout 5 git log | while read x; do make; done"]) == 0
    unsure = "“while statement”; read, which changes the shell or runs its arguments"
    assert capsys.readouterr().out.splitlines() == [
        "ask: timeout 5 git log | while read x; do make; done",
        f"  because the rule at dragoman.toml:6 may be about it: not understood: {unsure}",
        "rules that match:",
        "  dragoman.toml:1: allow `git (log|status)` with any arguments",
        "simple commands:",
        "  timeout 5 git log  (runs the next one)",
        "  git log  (allow at dragoman.toml:1)",
        "  make  (no rule)",
        "  read x  (no rule)",
        f"not understood: {unsure}",
    ]


def test_explain_without_rules(capsys: _Out) -> None:
    assert main(["policy", "explain", "--command", "ls"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ask: ls",
        "  because no rule matches",
        "  There are no rules. `dragoman policy init` offers a first set.",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "policy explain: what? Give one of: --command CMD;"),
        (["explain", "--command", "a", "--url", "b"], "policy explain: one action."),
        (["explain", "--path", "a"], "--path needs --kind read|edit|delete|other."),
        (["explain", "--kind", "execute", "--path", "a"], '--kind "execute" does not fit.'),
        (["explain", "--kind", "edit", "--command", "a"], '--kind "edit" does not fit.'),
        (["explain", "--kind", "edit"], "what?"),
        (["explain", "--command", "a", "--cwd", "nowhere"], "nowhere is no folder."),
        (["check", "--json"], "policy check: --json is for explain and test."),
        (["test", "--command", "a"], "policy test: --command is for explain."),
        (["suggest", "--yes"], "policy suggest: --yes is for init."),
        (["explian"], 'Did you mean "explain"?'),
        (["test", "--since", "soon"], '"soon" is no time.'),
        (["test", "--policy", "nowhere.toml"], "nowhere.toml: the configuration cannot be read"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: _Out) -> None:
    assert main(["policy", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


# init


def test_init_shows_the_rules_and_writes_them_after_a_yes(
    home: Path, typed: Callable[[str], io.StringIO], capsys: _Out
) -> None:
    Path("Makefile").write_text("test:\n\ttrue\n")
    screen = typed("y\ny\n")
    assert main(["policy", "init"]) == 0
    file = _own_file(home)
    assert f"Add these rules to {file}?" in " ".join(screen.getvalue().split())
    assert starter_text() in capsys.readouterr().out
    written = tomllib.loads(file.read_text())["policy"]
    assert written[:-1] == tomllib.loads(starter_text())["policy"]
    assert written[-1] == {"decision": "allow", "workspace": str(Path.cwd()), "command": ["make", "test"]}
    # Never twice.
    before = file.read_text()
    screen = typed("")
    assert main(["policy", "init"]) == 0
    assert screen.getvalue() == ""
    assert file.read_text() == before
    capsys.readouterr()
    assert _explained(capsys, "--command", "git log -3 && make test")["decision"] == "allow"


def test_init_after_a_no_writes_nothing(home: Path, typed: Callable[[str], io.StringIO]) -> None:
    screen = typed("n\n")
    assert main(["policy", "init"]) == 1
    assert screen.getvalue().endswith("Nothing was written.\n")
    assert not _own_file(home).exists()


def test_init_without_a_terminal_needs_yes_and_never_adds_the_test_command(home: Path, capsys: _Out) -> None:
    Path("Cargo.toml").touch()
    assert main(["policy", "init"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["policy", "init", "--yes"]) == 0
    assert 'command = ["cargo", "test"]' in capsys.readouterr().out
    assert tomllib.loads(_own_file(home).read_text()) == tomllib.loads(starter_text())


def test_init_keeps_what_is_in_the_file_and_adds_what_is_missing(home: Path) -> None:
    first, *_ = starter_text().split("\n\n")
    _own_file(home).parent.mkdir(parents=True)
    _own_file(home).write_text(f"# Mine.\n{first}\n")
    assert main(["policy", "init", "--yes"]) == 0
    text = _own_file(home).read_text()
    assert text.startswith(f"# Mine.\n{first}\n")
    assert tomllib.loads(text) == tomllib.loads(starter_text())


def test_init_can_only_print(home: Path, capsys: _Out) -> None:
    Path("go.mod").touch()
    assert main(["policy", "init", "--print"]) == 0
    printed = tomllib.loads(capsys.readouterr().out)["policy"]
    assert printed[-1]["command"] == ["go", "test", "./..."]
    assert not _own_file(home).exists()


# test and suggest


def _record(state: Path, *decided: tuple[str, bool, str], keeps: bool = True) -> None:
    """Commands that an agent asked for in this folder, with what was decided and by whom."""

    async def write(database: Database) -> None:
        journals = SqliteJournals(database)
        now = datetime.now(UTC).timestamp()
        here = Path.cwd()
        journal = f"agentagentagen{'keep' if keeps else 'gone'}"
        events: list[StampedEvent] = [(now, JournalStarted("agent", "claude", (str(here),)))]
        for number, (line, is_allowed, by) in enumerate(decided):
            action = describe(
                agent="claude",
                agent_name="Claude",
                places=Places.around((here,)),
                kind="execute",
                title=line,
                input={"command": line},
            )
            events.append((now, permission_requested(f"p{number}", action)))
            events.append((now, PermissionDecided(f"p{number}", is_allowed, by, "terminal", 1.0)))  # type: ignore[arg-type]
        await journals.append(journal, 0, events, holds=False)
        if not keeps:
            await journals.delete(journal)

    with Database.open(state) as database:
        asyncio.run(write(database))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(folder))
    return folder


def test_the_dry_run_begins_with_what_would_be_decided_against_a_person(state: Path, capsys: _Out) -> None:
    _record(
        state,
        ("git log -1", False, "person"),
        ("git push", True, "person"),
        ("git log -2", True, "person"),
        ("make", True, "approval"),
        ("make", False, "timeout"),
    )
    _record(state, ("git log", True, "person"), keeps=False)
    configure(_RULES)
    assert main(["policy", "test"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "A person said no, and the rules would allow it: 1"
    assert lines[2].endswith("claude run: git log -1 dragoman.toml:1")
    assert lines[3] == "A person said yes, and the rules would deny it: 1"
    assert lines[5].endswith("claude run: git push dragoman.toml:6")
    assert lines[6:] == [
        "DECIDED BY ALLOW ASK DENY",
        # Without a rule that says otherwise, the approval still counts.
        "approval 1 0 0",
        "person: no 1 0 0",
        "person: yes 1 0 1",
        "timeout 0 1 0",
        "all 3 1 1",
        "The rules would have answered 3 of 3 questions to a person.",
        "1 more have no content: it was deleted, or is not kept.",
    ]


def test_in_the_dry_run_an_approval_counts_only_where_no_rule_asks(state: Path, capsys: _Out) -> None:
    _record(state, ("make", True, "approval"), ("make test", True, "setting"), ("make", True, "rule"))
    configure('[[policy]]\ndecision = "ask"\ncommand = ["make"]\n')
    assert main(["policy", "test", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == [
        {"then": "approval", "now": "ask", "count": 1},
        {"then": "rule", "now": "ask", "count": 1},
        {"then": "setting", "now": "allow", "count": 1},
    ]


def test_the_dry_run_with_the_rules_of_another_file(state: Path, capsys: _Out) -> None:
    _record(state, ("git log -1", False, "person"), ("make", True, "person"))
    configure(_RULES)
    Path("draft.toml").write_text('[[policy]]\ndecision = "deny"\ncommand = ["make"]\n')
    assert main(["policy", "test", "--policy", "draft.toml", "--since", "1h", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["noThatWouldBeAllowed"] == []
    [denied] = found["yesThatWouldBeDenied"]
    assert (denied["agent"], denied["what"]) == ("claude", "run: make")
    assert denied["rules"] == [{"file": "draft.toml", "line": 1, "decision": "deny"}]
    assert found["decisions"] == [
        {"then": "person: no", "now": "ask", "count": 1},
        {"then": "person: yes", "now": "deny", "count": 1},
    ]
    assert (found["questionsSaved"], found["withoutContent"]) == (1, 0)


def test_the_dry_run_without_decisions(state: Path, capsys: _Out) -> None:
    del state
    assert main(["policy", "test"]) == 0
    assert capsys.readouterr().out.startswith(
        "No decision can be judged: none is recorded with its content.\n"
    )


def test_suggestions_are_written_after_a_yes_to_each(
    state: Path, home: Path, typed: Callable[[str], io.StringIO], capsys: _Out
) -> None:
    yes = [(f"git log -{n}", True, "person") for n in range(4)] + [("make test", True, "person")] * 3
    _record(state, *yes)
    screen = typed("n\ny\n")
    assert main(["policy", "suggest"]) == 0
    shown = capsys.readouterr().out
    first = shown.index("# 4 questions saved: always allow `git log` with harmless arguments here")
    second = shown.index("# 3 questions saved: always allow exactly `make test` here")
    assert first < second
    assert screen.getvalue().count("[y/N]") == 2
    [rule] = tomllib.loads(_own_file(home).read_text())["policy"]
    assert rule["command"] == ["make", "test"]
    assert main(["policy", "explain", "--command", "make test", "--agent", "claude", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"] == "allow"


def test_suggestions_without_a_terminal_are_only_shown(state: Path, home: Path, capsys: _Out) -> None:
    _record(state, *[("make test", True, "person")] * 3)
    assert main(["policy", "suggest", "--since", "1h"]) == 0
    assert "Nothing was written: there is no terminal to ask at." in capsys.readouterr().out
    assert not _own_file(home).exists()


def test_nothing_to_suggest(state: Path, capsys: _Out) -> None:
    _record(state, ("make test", True, "person"), ("make test", True, "person"))
    assert main(["policy", "suggest"]) == 0
    assert capsys.readouterr().out.startswith("There is nothing to suggest")


def test_the_dry_run_over_the_journal_of_the_tour(state: Path, capsys: _Out) -> None:
    screen = Screen(Console(file=io.StringIO()))
    assert asyncio.run(play_tour(screen, SystemClock(), pace="instant", state_dir=state)) == 0
    assert main(["policy", "init", "--yes"]) == 0
    capsys.readouterr()
    assert main(["policy", "test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["noThatWouldBeAllowed"] == found["yesThatWouldBeDenied"] == []
    assert found["withoutContent"] == 0
    assert {each["then"] for each in found["decisions"]} >= {"person: yes", "person: no", "approval"}
