"""What holds for all rules and all command lines: strictness wins, and nothing depends on the order."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings, strategies as st

from dragoman.policy.command_line import read_line
from dragoman.policy.rule import PolicyRule
from permissions.actions import WORKSPACE
from policy.judging import PLACES, allow, command, policy, verdict
from policy.lines import LineMaker
from policy.rules_against_shells import random_rules
from policy.shell_lab import stub_names
from searching import examples

# `doubt` is as strict as `ask`: a person decides, and no setting does.
_LOOSENESS = {"deny": 0, "ask": 1, "doubt": 1, "none": 2, "allow": 3}

_SEEDS = st.integers(0, 2**32)


def _understood(seed: int) -> str:
    maker = LineMaker(seed)
    # Behind a `cd`, what follows is another command: so none here.
    return next(
        line
        for line in iter(maker.line, None)
        if line.strip() and "cd" not in line and not read_line(line, WORKSPACE).unsure
    )


_LINES = _SEEDS.map(lambda seed: LineMaker(seed).line())
_UNDERSTOOD = _SEEDS.map(_understood)
_RULES = _SEEDS.map(lambda seed: random_rules(Random(seed)))  # noqa: S311 - nothing secret
# Every program of the generator is allowed, so that much of what is understood is.
_GENEROUS = tuple(
    allow(command=(name,), args="any", variables=("A", "B"), redirects=("**",), expands=True, sensitive=True)
    for name in (*stub_names(), "./evil", "sub/evil", "pwd", ":", "cd")
)
_RESTRICTING = _RULES.map(lambda rules: [rule for rule in rules if rule.decision != "allow"]).filter(bool)


def _looseness(line: str, *rules: PolicyRule) -> int:
    return _LOOSENESS[verdict(line, *rules)]


@settings(max_examples=examples(400), deadline=None)
@given(_LINES, _RULES, _RESTRICTING)
def test_d6_adding_a_rule_that_denies_or_asks_never_allows_more(
    line: str, rules: list[PolicyRule], more: list[PolicyRule]
) -> None:
    for before in (tuple(rules), _GENEROUS):
        assert _looseness(line, *before, *more) <= _looseness(line, *before)


@settings(max_examples=examples(400), deadline=None)
@given(_LINES, _RESTRICTING, _RULES)
def test_d6_a_rule_that_allows_never_changes_what_another_denies_or_asks(
    line: str, rules: list[PolicyRule], more: list[PolicyRule]
) -> None:
    before = verdict(line, *rules)
    if before != "none":
        assert verdict(line, *rules, *_GENEROUS) == before
        assert _looseness(line, *rules, *more) <= _LOOSENESS[before]


@settings(max_examples=examples(400), deadline=None)
@given(_LINES, _RULES, st.randoms(use_true_random=False))
def test_d6_the_order_of_rules_never_matters(line: str, rules: list[PolicyRule], random: Random) -> None:
    shuffled = random.sample(rules, len(rules))
    asked = command(line)
    one, other = (policy(*each).judge(asked, PLACES) for each in (rules, shuffled))
    assert one.decision == other.decision
    assert (one.doubt is None) == (other.doubt is None)
    # The lines of the rules are their numbers, so only their kinds compare.
    assert sorted(rule.decision for rule in one.rules) == sorted(rule.decision for rule in other.rules)


@settings(max_examples=examples(400), deadline=None)
@given(_UNDERSTOOD, _UNDERSTOOD, st.sampled_from(("; ", " && ", " || ", " | ", "\n", " & ", " |& ")), _RULES)
def test_d6_a_compound_is_never_looser_than_its_parts(
    first: str, second: str, operator: str, rules: list[PolicyRule]
) -> None:
    for each in (tuple(rules), _GENEROUS):
        whole = _looseness(f"{first}{operator}{second}", *each)
        assert whole <= min(_looseness(first, *each), _looseness(second, *each))


@settings(max_examples=examples(400), deadline=None)
@given(_LINES)
def test_d6_what_is_not_understood_is_never_allowed(line: str) -> None:
    if read_line(line, WORKSPACE).unsure:
        assert verdict(line, *_GENEROUS) == "none"
