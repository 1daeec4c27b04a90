"""Cautions about rules that are valid, but probably not what their author wants; and rules in words."""

from typing import Literal

import pytest

from dragoman.policy.cautions import cautions
from dragoman.policy.rule import LocatedRule, PolicyRule
from dragoman.policy.summary import in_words


def _cautions(*rules: PolicyRule) -> list[tuple[int, str]]:
    located = [LocatedRule(rule, "file", number) for number, rule in enumerate(rules, start=1)]
    return [(each.line, text) for each, text in cautions(located, ("claude",))]


_LOG = PolicyRule(decision="allow", command=("git", "log"), args="any")


@pytest.mark.parametrize(
    "stricter",
    [
        PolicyRule(decision="deny"),
        PolicyRule(decision="ask", kind="execute"),
        PolicyRule(decision="deny", command=("git",), args="any"),
        PolicyRule(decision="deny", command=(("git", "hg"), ("log", "diff")), args="any"),
        PolicyRule(decision="deny", kind=("execute", "edit"), command=("git", "log"), args="any"),
    ],
)
def test_an_allow_rule_that_never_counts(stricter: PolicyRule) -> None:
    verb = "denies" if stricter.decision == "deny" else "asks about"
    assert _cautions(_LOG, stricter) == [(1, f"never counts: file:2 {verb} all that it allows")]


@pytest.mark.parametrize(
    "other",
    [
        PolicyRule(decision="allow"),
        PolicyRule(decision="deny", kind="edit"),
        PolicyRule(decision="deny", sensitive=True),
        PolicyRule(decision="deny", agent="claude"),
        PolicyRule(decision="deny", workspace="/a"),
        PolicyRule(decision="deny", paths=("**",)),
        PolicyRule(decision="deny", command=("git", "log", "-p"), args="any"),
        PolicyRule(decision="deny", command=("git", "log"), args="any", without=("-p",)),
        PolicyRule(decision="deny", command=("git", "log"), args="any", options=()),
        PolicyRule(decision="deny", command=("git", "log"), args="any", paths=("**",)),
    ],
)
def test_one_that_still_counts(other: PolicyRule) -> None:
    assert _cautions(_LOG, other) == []


@pytest.mark.parametrize(("decision", "verb"), [("deny", "denies"), ("ask", "asks about")])
def test_a_stricter_rule_for_exactly_one_command(decision: Literal["deny", "ask"], verb: str) -> None:
    rule = PolicyRule(decision=decision, command=("git", "push"))
    text = f'{verb} exactly this command. To include it with more arguments: args = "any"'
    assert _cautions(rule, _LOG) == [(1, text)]
    assert not _cautions(PolicyRule(decision=decision, command=("git", "push"), args="any"))


def test_paths_that_are_denied() -> None:
    edit = PolicyRule(decision="allow", kind="edit", paths=("src/**",))
    assert _cautions(edit, PolicyRule(decision="deny", kind=("edit", "delete"), paths=("a", "src/**")))
    assert not _cautions(edit, PolicyRule(decision="deny", paths=("src/a",)))


def test_an_agent_that_is_no_model() -> None:
    rule = PolicyRule(decision="ask", agent=("claude", "cluade"))
    assert _cautions(rule) == [(1, 'no model is called "cluade", so the rule never applies to it')]


@pytest.mark.parametrize("program", ["bash", "/usr/bin/python3", "find", "xargs", "sudo"])
def test_a_program_that_can_run_anything(program: str) -> None:
    [(_, text)] = _cautions(PolicyRule(decision="allow", command=((program, "ls"),), args="any"))
    assert text == f"with any arguments, {program} can run any program or code: the rule allows everything"
    assert not _cautions(PolicyRule(decision="allow", command=(program,)))
    assert not _cautions(PolicyRule(decision="allow", command=(program, "x"), args="any"))
    assert not _cautions(PolicyRule(decision="allow", command=(program,), args="any", options=("-name",)))
    assert not _cautions(PolicyRule(decision="deny", command=(program,), args="any"))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (PolicyRule(decision="deny"), "deny everything"),
        (
            PolicyRule(
                decision="allow", command=("git", ("log", "diff")), args="any", without=("-O*",), agent="a"
            ),
            "allow `git (log|diff)` with any arguments, without -O*, for a",
        ),
        (
            PolicyRule(decision="allow", command=("ls",), options=tuple(f"-{c}" for c in "abcdefgh")),
            "allow `ls`, no options but -a -b -c -d -e -f and 2 more",
        ),
        (
            PolicyRule(decision="allow", command=("cd",), args="any", options=(), paths=("**",)),
            "allow `cd` with any arguments, no options, only for paths **",
        ),
        (
            PolicyRule(decision="deny", kind=("edit", "delete"), paths=(".git/**",)),
            "deny edit and delete of .git/**",
        ),
        (
            PolicyRule(decision="allow", urls=("https://a/*",), sensitive=True, workspace="/w"),
            "allow any use of https://a/*, also if it is sensitive, in /w",
        ),
        (PolicyRule(decision="ask", tools=("mcp__*",)), "ask about the tools mcp__*"),
        (PolicyRule(decision="ask", kind="fetch"), "ask about fetch"),
    ],
)
def test_a_rule_in_words(rule: PolicyRule, words: str) -> None:
    assert in_words(rule) == words
