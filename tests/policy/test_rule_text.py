"""A rule as TOML text that is read back to an equal rule, and a rule in words."""

import tomllib

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.policy.rule import PolicyRule
from dragoman.policy.rule_text import in_words, rule_table
from dragoman.visible import hides

_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
_texts = st.lists(_text, min_size=1, max_size=4).map(tuple)
_kind = st.sampled_from(["read", "edit", "delete", "execute", "fetch", "tool", "other"])
_rules = st.builds(
    PolicyRule,
    decision=st.sampled_from(["allow", "ask", "deny"]),
    kind=st.none() | _kind | st.lists(_kind, min_size=1, max_size=3).map(tuple),
    agent=st.none() | _text | _texts,
    workspace=st.none() | _text | _texts,
    command=st.none() | st.lists(_text | _texts, min_size=1, max_size=4).map(tuple),
    args=st.sampled_from([None, "any"]),
    without=st.none() | _texts,
    options=st.none() | st.lists(_text, max_size=3).map(tuple),
    variables=st.none() | _texts,
    redirects=st.none() | _texts,
    expands=st.booleans(),
    paths=st.none() | _texts,
    urls=st.none() | _texts,
    tools=st.none() | _texts,
    sensitive=st.booleans(),
    reason=st.none() | _text,
    examples=st.lists(_text, max_size=3).map(tuple),
    counterexamples=st.lists(_text, max_size=3).map(tuple),
)


def _read(text: str) -> PolicyRule:
    [table] = tomllib.loads(text)["policy"]
    return msgspec.convert(table, PolicyRule)


@given(_rules)
def test_what_is_written_is_read_back_as_an_equal_rule(rule: PolicyRule) -> None:
    assert _read(rule_table(rule)) == rule


@given(_rules)
def test_nothing_in_a_rule_is_out_of_sight(rule: PolicyRule) -> None:
    """People read the text before it is written, also where nothing shows what hides: in a dialog of an editor."""
    assert not any(map(hides, rule_table(rule).replace("\n", "")))


def test_only_what_is_set_is_written() -> None:
    rule = PolicyRule(
        decision="allow",
        kind="execute",
        command=("git", ("log", "diff")),
        options=(),
        examples=('git log --grep="a b"', "git log \\"),
    )
    assert (
        rule_table(rule)
        == """\
[[policy]]
decision = "allow"
kind = "execute"
command = ["git", ["log", "diff"]]
options = []
examples = ['git log --grep="a b"', 'git log \\']
"""
    )


def test_a_long_list_has_as_many_elements_in_a_line_as_fit() -> None:
    rule = PolicyRule(decision="deny", paths=tuple(f"a/long/path/number/{n}/**" for n in range(6)))
    text = rule_table(rule)
    assert _read(text) == rule
    assert text.splitlines()[2:] == [
        "paths = [",
        '    "a/long/path/number/0/**", "a/long/path/number/1/**", "a/long/path/number/2/**",',
        '    "a/long/path/number/3/**", "a/long/path/number/4/**", "a/long/path/number/5/**",',
        "]",
    ]


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
