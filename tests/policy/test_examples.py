"""A rule's own examples, checked without a disk."""

from __future__ import annotations

import pytest

from dragoman.policy.examples import failed_examples
from dragoman.policy.rule import PolicyRule
from policy.judging import allow, ask, deny


def test_examples_that_hold_are_no_problem() -> None:
    rules = [
        allow(
            command=("git", "log"),
            args="any",
            without=("--output*",),
            examples=("git log --oneline", "git log | git log"),
            counterexamples=("git log --outp=x", "git log > x", "eval git log"),
        ),
        deny(kind=("edit", "delete"), paths=(".git/**", "**/.env"), examples=(".git/x", "a/.ENV"), counterexamples=("src/a",)),
        allow(kind="read", paths=("docs/**",), examples=("docs/a",), counterexamples=("docs/../a", "/etc/passwd")),
        allow(urls=("https://docs.example/*",), examples=("https://docs.example/a",), counterexamples=("https://evil.example/",)),
        allow(tools=("mcp__x__*",), agent="claude", examples=("mcp__x__y",), counterexamples=("mcp__z",)),
        allow(command=("make", "test"), tools=("Bash",), workspace="/srv/project", agent=("a", "b"), examples=("make test",)),
        deny(command=("cat",), args="any", sensitive=True, examples=("cat .env",), counterexamples=("cat a",)),
    ]  # fmt: skip
    for rule in rules:
        assert list(failed_examples(rule)) == []


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (allow(command=("git", "log"), examples=("git log", "git log -5")), ("examples", 1, "the rule does not match it. It does not allow the argument -5.")),
        (allow(command=("git",), args="any", counterexamples=("git push",)), ("counterexamples", 0, "the rule matches it.")),
        (
            allow(command=("git",), args="any", examples=("git log # all",)),
            ("examples", 0, "the rule does not match it. Not understood: a comment, which an interactive zsh runs."),
        ),
        (allow(command=("cat",), args="any", examples=("cat .env",)), ("examples", 0, "the rule does not match it. It is sensitive: it names .env.")),
        (ask(paths=("src/**",), examples=("lib/a",)), ("examples", 0, "the rule does not match it.")),
    ],
)  # fmt: skip
def test_an_example_that_fails_says_which_and_why(rule: PolicyRule, found: tuple[str, int, str]) -> None:
    assert list(failed_examples(rule)) == [found]
