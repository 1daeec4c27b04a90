"""Rules that are offered for an action, and from repeated decisions."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.decisions import RecordedDecision
from dragoman.permissions.action import Action
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.describe import describe
from dragoman.permissions.record import By
from dragoman.permissions.sensitive import Places
from dragoman.policy.offer import RuleOffer
from dragoman.policy.outcome import RuleOutcome, outcome
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from dragoman.policy.suggest import Suggestion, rule_offers, suggestions


def _action(workspace: Path, agent: str = "claude", title: str = "Do it", **fields: Any) -> Action:
    places = Places.around((workspace,))
    return describe(agent=agent, agent_name=agent, places=places, title=title, **fields)


def _run(workspace: Path, line: str, agent: str = "claude") -> Action:
    return _action(workspace, agent, kind="execute", input={"command": line})


def _offers(action: Action, workspace: Path) -> tuple[RuleOffer, ...]:
    return rule_offers(action, Places.around((workspace,)), ())


def _words(action: Action, workspace: Path) -> list[str]:
    return [each.words for each in _offers(action, workspace)]


def _decision(offer: RuleOffer, action: Action, workspace: Path) -> str | None:
    """What the offer's rules say, once they are written to a file and read again."""
    rules = msgspec.convert(tomllib.loads(offer.toml)["policy"], list[PolicyRule])
    policy = Policy([LocatedRule(rule, "file", number) for number, rule in enumerate(rules)])
    return policy.judge(action, Places.around((workspace,))).decision


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "git log --oneline",
            [
                "always allow exactly `git log --oneline` here",
                "always allow `git log` with harmless arguments here",
            ],
        ),
        # What it runs is named, and not the wrapper.
        (
            "timeout 9 bash -c 'git log'",
            ["always allow exactly `git log` here", "always allow `git log` with harmless arguments here"],
        ),
        (
            "cd src && git status -s",
            [
                "always allow exactly `cd src` and `git status -s` here",
                "always allow `cd` with harmless arguments and `git status` with harmless arguments here",
            ],
        ),
        (
            "cat a.txt",
            ["always allow exactly `cat a.txt` here", "always allow `cat` with harmless arguments here"],
        ),
        # Files outside the workspace are not what it is for.
        ("cat /usr/share/x", ["always allow exactly `cat /usr/share/x` here"]),
        # What these do with other arguments is not known.
        ("make test", ["always allow exactly `make test` here"]),
        ("python tool.py 'a b'", ["always allow exactly `python tool.py 'a b'` here"]),
        ("npm ls", ["always allow exactly `npm ls` here"]),
        # Not with a name: that makes a branch.
        (
            "git branch -v",
            [
                "always allow exactly `git branch -v` here",
                "always allow `git branch` with harmless options here",
            ],
        ),
        ("git stash list", ["always allow exactly `git stash list` here"]),
        (
            "echo done",
            ["always allow exactly `echo done` here", "always allow `echo` with any arguments here"],
        ),
        (
            "git log -1 && make test && make test",
            [
                "always allow exactly `git log -1` and `make test` here",
                "always allow `git log` with harmless arguments and exactly `make test` here",
            ],
        ),
        ("grep -rn x .", ["always allow exactly `grep -rn x .` here"]),
        ("git push origin main", ["always allow exactly `git push origin main` here"]),
        ("git log --output=x", ["always allow exactly `git log --output=x` here"]),
        ("npm install left-pad", ["always allow exactly `npm install left-pad` here"]),
        ("find . -delete", ["always allow exactly `find . -delete` here"]),
        ("echo ''", []),
        # Not understood, or more than words.
        ("for x in a; do ls; done", []),
        ("echo $(date)", []),
        ("echo x > y", []),
        ("LD_PRELOAD=x ls", []),
        ("ls *.txt", []),
        # Sensitive.
        ("cat .env", []),
    ],
)
def test_commands(tmp_path: Path, line: str, words: list[str]) -> None:
    action = _run(tmp_path, line)
    assert _words(action, tmp_path) == words
    for offer in _offers(action, tmp_path):
        assert _decision(offer, action, tmp_path) == "allow"


def test_files(tmp_path: Path) -> None:
    file = str(tmp_path / "src" / "main.py")
    edit = _action(tmp_path, kind="edit", input={"path": file, "text": "x"})
    read = _action(tmp_path, kind="read", input={"path": str(tmp_path / "README.md")})
    delete = _action(tmp_path, kind="delete", input={"path": file})
    assert _words(edit, tmp_path) == [
        "always allow changing `src/main.py` here",
        "always allow changing files in `src`",
    ]
    assert _words(read, tmp_path) == [
        "always allow reading `README.md` here",
        "always allow reading files in this workspace",
    ]
    assert _words(delete, tmp_path) == ["always allow deleting and moving `src/main.py` here"]
    for action in (edit, read, delete):
        for offer in _offers(action, tmp_path):
            assert _decision(offer, action, tmp_path) == "allow"
    [exactly, in_folder] = _offers(edit, tmp_path)
    beside = _action(tmp_path, kind="edit", input={"path": str(tmp_path / "src" / "b.py"), "text": "x"})
    elsewhere = _action(tmp_path, kind="edit", input={"path": str(tmp_path / "b.py"), "text": "x"})
    assert [_decision(exactly, each, tmp_path) for each in (beside, elsewhere, delete)] == [None, None, None]
    assert [_decision(in_folder, each, tmp_path) for each in (beside, elsewhere, delete)] == [
        "allow",
        None,
        None,
    ]


def test_addresses_and_tools(tmp_path: Path) -> None:
    fetch = _action(tmp_path, kind="fetch", input={"url": "https://docs.example/a/b?q=1"})
    tool = _action(tmp_path, kind="other", tool="mcp__tickets__open", input={"id": 4})
    assert _words(fetch, tmp_path) == [
        "always allow fetching `https://docs.example/a/b` here",
        "always allow fetching any page of `https://docs.example` here",
    ]
    assert _words(tool, tmp_path) == ["always allow the tool `mcp__tickets__open` with any input here"]
    for action in (fetch, tool):
        for offer in _offers(action, tmp_path):
            assert _decision(offer, action, tmp_path) == "allow"


def test_nothing_is_offered_for_what_is_known_by_its_title_only(tmp_path: Path) -> None:
    assert not _offers(_action(tmp_path, kind="other", tool="deploy"), tmp_path)
    assert not _offers(_action(tmp_path, kind="execute"), tmp_path)


def test_a_name_that_would_be_a_pattern_is_not_offered(tmp_path: Path) -> None:
    assert not _offers(_action(tmp_path, kind="other", tool="*", input={"a": 1}), tmp_path)
    star = str(tmp_path / "*")
    assert not _offers(_action(tmp_path, kind="edit", input={"path": star, "text": "x"}), tmp_path)


@pytest.mark.parametrize(
    ("asked", "others"),
    [
        (
            "git log",
            [
                "git log --output=x",
                "git log --outp=x",
                "git log --ext-diff",
                "git log --format=%GG",
                "git -c core.pager=x log",
                "git push",
                # The starter rule is about these, too. The person was not asked about them.
                "git show",
                "git diff",
            ],
        ),
        ("git diff", ["git diff --no-index /dev/null /etc/hostname", "git diff --ext-diff"]),
        ("git blame a", ["git blame --contents=/etc/hostname a", "git blame /etc/hostname"]),
        ("git branch -v", ["git branch new", "git branch -D main"]),
        (
            "rg x",
            [
                "rg --pre=./x x",
                "rg --pre ./x x",
                "rg -z x",
                "rg x /etc",
                "rg x ~",
                "rg --hidden x",
                "rg -uu x",
            ],
        ),
        ("cat a", ["cat /etc/passwd", "cat ../a", "cat a > b", "cat a | sh", "cat a; rm a", "head a"]),
        ("grep x a", ["grep -rn x .", "grep x /etc/passwd", "grep --recursive x ."]),
        ("pip list", ["pip install x", "pip list --python=./x", "pip list --log=x"]),
        ("npm view left-pad", ["npm view left-pad --registry=https://evil.example"]),
        ("npm ls", ["npm ls --prefix /etc"]),
        ("git add a", ["git add b", "git add -e a"]),
    ],
)
def test_no_offer_allows_what_the_starter_set_would_not(
    tmp_path: Path, asked: str, others: list[str]
) -> None:
    # Without a repository, `git diff` compares any files.
    (tmp_path / ".git").mkdir()
    offered = _offers(_run(tmp_path, asked), tmp_path)
    assert offered
    for offer in offered:
        for line in others:
            assert _decision(offer, _run(tmp_path, line), tmp_path) is None, (offer.words, line)


def test_it_holds_for_this_agent_and_this_workspace(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    for offer in _offers(_run(here, "git log"), here):
        assert _decision(offer, _run(here, "git log"), here) == "allow"
        assert _decision(offer, _run(here, "git log", agent="codex"), here) is None
        assert _decision(offer, _run(there, "git log"), there) is None


# From many decisions.


def _decided(action: Action, *, is_allowed: bool, by: By = "person") -> RecordedDecision:
    asked = PermissionRequested("p", action.agent, action.risk, "tool", "digest", action=action)
    decided = PermissionDecided("p", is_allowed=is_allowed, by=by, where="terminal", seconds=1)
    return RecordedDecision("journal", 0, asked, decided, None)


def _suggested(decisions: list[RecordedDecision], policy: Policy | None = None) -> tuple[Suggestion, ...]:
    def judge(action: Action, workspace: str) -> RuleOutcome:
        rules = policy or Policy([])
        return outcome(rules.judge(action, Places.around((workspace,))), action, AutoApproval())

    return suggestions(decisions, judge, () if policy is None else policy.rules, ())


def _yes(workspace: Path, *lines: str) -> list[RecordedDecision]:
    return [_decided(_run(workspace, line), is_allowed=True) for line in lines]


def test_what_people_allow_again_and_again_is_suggested_the_most_useful_first(tmp_path: Path) -> None:
    decisions = _yes(
        tmp_path, *["make test"] * 3, "git log -1", "git log -2", "git log -3", "git log -3", "ls"
    )
    assert [(each.saved, each.offer.words) for each in _suggested(decisions)] == [
        (4, "always allow `git log` with harmless arguments here"),
        (3, "always allow exactly `make test` here"),
    ]


def test_the_narrower_rule_is_suggested_if_it_saves_as_many(tmp_path: Path) -> None:
    [suggestion] = _suggested(_yes(tmp_path, *["git log -1"] * 3))
    assert suggestion.offer.words == "always allow exactly `git log -1` here"


def test_two_are_too_few(tmp_path: Path) -> None:
    assert not _suggested(_yes(tmp_path, "make test", "make test"))


def test_nothing_is_suggested_that_would_have_allowed_what_a_person_refused(tmp_path: Path) -> None:
    refused = _decided(_run(tmp_path, "git log -p"), is_allowed=False)
    assert not _suggested([*_yes(tmp_path, "git log -1", "git log -2", "git log -3"), refused])
    # What refused without a person says nothing.
    late = _decided(_run(tmp_path, "git log -p"), is_allowed=False, by="timeout")
    assert _suggested([*_yes(tmp_path, "git log -1", "git log -2", "git log -3"), late])


def test_what_a_rule_decides_already_is_not_suggested(tmp_path: Path) -> None:
    rule = PolicyRule(decision="allow", command=("make", "test"))
    policy = Policy([LocatedRule(rule, "file", 1)])
    assert not _suggested(_yes(tmp_path, *["make test"] * 3), policy)


def test_nothing_is_suggested_that_a_stricter_rule_would_still_ask_about(tmp_path: Path) -> None:
    asks = Policy([LocatedRule(PolicyRule(decision="ask", command=("make",), args="any"), "file", 1)])
    assert not _suggested(_yes(tmp_path, *["make test"] * 3), asks)
