"""Cautions about rules that are valid, but probably not what their author wants."""

from typing import Literal

import pytest

from dragoman.policy.cautions import cautions
from dragoman.policy.rule import LocatedRule, PolicyRule


def _cautions(*rules: PolicyRule) -> list[tuple[int, str]]:
    located = [LocatedRule(rule, "file", number) for number, rule in enumerate(rules, start=1)]
    return [(each.line, text) for each, text in cautions(located, ("claude",))]


@pytest.mark.parametrize(("decision", "verb"), [("deny", "denies"), ("ask", "asks about")])
def test_a_stricter_rule_for_exactly_one_command(decision: Literal["deny", "ask"], verb: str) -> None:
    rule = PolicyRule(decision=decision, command=("git", "push"))
    text = f'{verb} exactly this command. To include it with more arguments: args = "any"'
    assert _cautions(rule) == [(1, text)]
    assert not _cautions(PolicyRule(decision=decision, command=("git", "push"), args="any"))


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
