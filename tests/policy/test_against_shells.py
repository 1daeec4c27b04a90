"""The analysis of command lines against real shells. `make fuzz ARGS="--only shell_lines"` goes on from here."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from dragoman.policy.command_line import CommandLine, read_line
from dragoman.policy.rule import PolicyRule
from policy.against_shells import Comparison, unaccounted
from policy.lines import LineMaker
from policy.rules_against_shells import RuleComparison, random_rules, unlawful
from policy.shell_lab import Call, ShellLab, shells

_LINES = 160
_SHELLS = shells()
# Findings are from several runs: each is a line that some version of the analysis misread.
_FOUND = (
    "rm 10>d", "ls -1>x", "time ! sh x", ">x", "ls | >x", "CDPATH=sub cd deep && ls", "ls | xargs xargs", "- busybox",
    "time A=1 find", "jobs -x rm x", "{}|- xargs", "printf %d 'path[$(rm x)]'", "exit 'path[$(rm x)]'",
    "printf '%s%n' x PATH; ls", ">! o", "PAGER= A=$(ls) cat", "timeout 1 >/dev/null rm x", "cd sub &> x && ls",
    "PATH=. :; rm x", "xargs -I x -n 2 rm {}", "xargs -I x -L1 rm y", "A=\\  rm ls", "cd sub && true & ls $(git)", "ls ''~", "time >s", "ls >&'$(rm x)'", "ls >&1\\\\", "bash rm -c 'ls'",
    "env timeout 5 nice -n 3 nohup stdbuf -oL xargs -n1 rm x", "bash -c \"bash -c 'cd sub; ls > x' | cat\"; ls *.txt ~/x",
)  # fmt: skip


@pytest.fixture(scope="module")
def lab() -> Iterator[ShellLab]:
    with ShellLab.open() as made:
        yield made


@pytest.mark.parametrize("shell", _SHELLS)
def test_the_laboratory_records_calls_and_writes(lab: ShellLab, shell: str) -> None:
    run = lab.run((*_SHELLS[shell], "A=1 ls 'a b' && cd sub && env B=2 ./rm * > x; bash < c.txt & wait"))
    assert run.is_complete
    assert run.written == {f"{lab.folder}/sub/x"}
    assert [call for call in run.calls if call.program not in ("env", "bash")] == [
        Call("ls", ("a b",), lab.folder, {"A": "1"}),
        Call("./rm", ("-f", "c.txt", "deep", "evil", "rm", "up"), f"{lab.folder}/sub", {"B": "2"}),
        Call("rm", ("from-file", "-f"), f"{lab.folder}/sub", {}),
    ]


def test_the_laboratory_ends_what_does_not_end() -> None:
    with ShellLab.open() as lab:
        lab.limit_seconds = 0.1
        run = lab.run((*_SHELLS["bash"], "timeout 60 bash -c 'while true; do :; done'"))
    assert not run.is_complete


@pytest.mark.parametrize(
    "line",
    [
        "/bin/ls",
        "ls > /etc/x",
        "cd ../../../..",
        "ls ~root",
        "env -i rm x",
        "command -p rm x",
        "a\0b",
        "cat a'/'b",
    ],
)
def test_the_laboratory_refuses_lines_that_could_leave_it(lab: ShellLab, line: str) -> None:
    assert not lab.is_safe(line)


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("rm x", "ls"), ("rm x", "rm"), ("rm x", "rm y"), ("rm *", "rm"), ("A=1 rm", "rm"), ("A=1 rm", "A=2 rm"), ("rm > x", "rm"),
        ("rm > x", "rm > y"), ("cd sub && rm", "rm"), ("PATH=. rm", "rm"), ("ls | xargs rm", "ls; xargs ls; rm"), ("./rm", "rm"),
    ],
)  # fmt: skip
def test_the_comparison_finds_what_an_analysis_does_not_see(lab: ShellLab, line: str, seen: str) -> None:
    run = lab.run((*_SHELLS["bash"], line))
    assert list(unaccounted(lab, read_line(seen, lab.folder), run))
    assert list(unaccounted(lab, CommandLine(()), run))
    assert not list(unaccounted(lab, read_line(line, lab.folder), run))


@pytest.mark.parametrize("line", _FOUND)
def test_d6_what_was_found_stays_found(lab: ShellLab, line: str) -> None:
    assert not Comparison(lab).line(line)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_d6_no_shell_does_more_than_the_analysis_sees(lab: ShellLab, seed: int) -> None:
    comparison, maker = Comparison(lab), LineMaker(seed)
    for _ in range(_LINES):
        assert not comparison.generated(maker)
    assert comparison.understood > _LINES * 0.3
    assert comparison.calls > comparison.understood


@pytest.mark.parametrize("lines", [200, pytest.param(600, marks=pytest.mark.long)])
def test_d6_no_shell_does_more_than_rules_allow(lab: ShellLab, lines: int) -> None:
    comparison, maker, random = RuleComparison(lab), LineMaker(0), Random(0)  # noqa: S311 - nothing secret
    while comparison.lines < lines:
        rules = random_rules(random)
        for _ in range(20):
            assert not comparison.generated(maker, rules)
    assert comparison.calls > lines / 20


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("git log", PolicyRule(decision="allow", command=("git", "status"))),
        ("git log x", PolicyRule(decision="allow", command=("git", "log"))),
        (
            "git log --out=x",
            PolicyRule(decision="allow", command=("git",), args="any", without=("--output*",)),
        ),
        ("ls -la", PolicyRule(decision="allow", command=("ls",), args="any", options=("-l",))),
        ("A=1 ls", PolicyRule(decision="allow", command=("ls",))),
        ("ls > x", PolicyRule(decision="allow", command=("ls",), redirects=("y",))),
        ("ls ..", PolicyRule(decision="allow", command=("ls",), args="any", paths=("**",))),
        ("cat a.txt; echo a | xargs ls", PolicyRule(decision="allow", command=("ls",), args="any")),
        ("ls x", PolicyRule(decision="deny", command=("ls",), args="any")),
    ],
)
def test_the_reference_finds_what_a_rule_does_not_allow(lab: ShellLab, line: str, rule: PolicyRule) -> None:
    assert list(unlawful(lab, [rule], lab.run((*_SHELLS["bash"], line))))
