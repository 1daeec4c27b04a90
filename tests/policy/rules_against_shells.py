"""Compares what rules allow with what real shells then do.

The reference check below knows nothing of command lines. It reads the arguments that a program was really called with,
and takes the text of the rules literally. A line that the policy allows may call only what the reference allows, too.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random

import msgspec

from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from policy.against_shells import Finding
from policy.lines import LineMaker
from policy.shell_lab import WRAPPERS, Call, Run, ShellLab, shells, stub_names

__all__ = ["RuleComparison", "allows", "random_rules", "restricts"]

# What stubs print, and what stands on the standard input: in no line, so a shell or xargs has put it there.
_COMPUTED = re.compile(r"from-(?:output|input|file)")


@dataclass
class RuleComparison:
    """Judges generated lines by random rules, and runs those that are allowed."""

    lab: ShellLab
    lines: int = 0
    allowed: int = 0
    calls: int = 0
    findings: list[Finding] = field(default_factory=list)

    def generated(self, maker: LineMaker, rules: Sequence[PolicyRule]) -> list[Finding]:
        self.lines += 1
        line = maker.line()
        found = list(self._compare(self.lab.fill(line), rules))
        self.findings += found
        return found

    def _compare(self, line: str, rules: Sequence[PolicyRule]) -> Iterator[Finding]:
        places = Places((self.lab.folder,), self.lab.home, resolve=os.path.realpath)
        action = describe(agent="a", agent_name="A", places=places, kind="execute", input={"command": line})
        policy = Policy([LocatedRule(rule, "rules", number) for number, rule in enumerate(rules)])
        if policy.judge(action, places).decision != "allow" or not self.lab.is_safe(line):
            return
        self.allowed += 1
        for name, beginning in shells().items():
            run = self.lab.run((*beginning, line))
            self.calls += len(run.calls)
            for what in unlawful(self.lab, rules, run):
                yield Finding(self.lab.hide(line), name, what, "\n    ".join(_rules_about(what, rules)))


def _rules_about(what: str, rules: Sequence[PolicyRule]) -> Iterator[str]:
    """The rules that a finding can come from, without the conditions that they do not have."""
    for rule in rules:
        if rule.decision != "allow" or f"program='{(rule.command or ('',))[0]}'" in what:
            yield str({key: value for key, value in msgspec.structs.asdict(rule).items() if value})


def random_rules(random: Random) -> list[PolicyRule]:
    """Some rules that allow, and perhaps some that do not."""
    rules = [_allow_rule(random, program) for program in random.sample(_ALLOWED, 24)]
    rules += [_other_rule(random) for _ in range(random.choice((0, 1, 2, 3)))]
    random.shuffle(rules)
    return rules


_ALLOWED = (*stub_names(), "pwd", ":", "cd", "./evil", "sub/evil")


def _allow_rule(random: Random, program: str) -> PolicyRule:
    command: tuple[str | tuple[str, ...], ...] = (program,)
    if random.random() < 0.2:
        command = (program, random.choice(("x", ("status", "log", "diff"), "-n")))
    return PolicyRule(
        decision="allow",
        command=command,
        args=random.choice(("any", "any", "any", None)),
        without=random.choice((None, None, ("-c", "--output*"), ("x", "-rf"), ("*=*", "-delete", "--o*"))),
        options=random.choice((None, None, ("-n", "-l", "-a", "-1"), ("--oneline", "--output"), ())),
        variables=random.choice((None, ("A",), ("A", "B", "GIT_PAGER"))),
        redirects=random.choice((None, ("**",), ("sub/**", "x"), ("out.txt",))),
        expands=random.random() < 0.4,
        paths=random.choice((None, None, ("**",), ("sub/**",))),
        sensitive=random.random() < 0.6,
    )


def _other_rule(random: Random) -> PolicyRule:
    first = random.choice((*stub_names(), *WRAPPERS))
    command = (first, random.choice(("x", "log", "-c", "-n", "rm"))) if random.random() < 0.4 else (first,)
    return PolicyRule(
        decision=random.choice(("deny", "ask")),
        command=command,
        args=random.choice(("any", "any", None)),
        options=random.choice((None, None, ("-n",))),
    )


# --- The reference. --------------------------------------------------------------------------------------------------


def unlawful(lab: ShellLab, rules: Sequence[PolicyRule], run: Run) -> Iterator[str]:
    """Calls and writes that the rules, taken literally, do not allow."""
    for call in run.calls:
        if any(rule.decision != "allow" and restricts(rule, call) for rule in rules):
            yield lab.hide(f"called what a rule restricts: {call}")
        if call.program not in WRAPPERS and not any(allows(lab, rule, call) for rule in rules):
            yield lab.hide(f"called what no rule allows: {call}")
    globs = [glob for rule in rules for glob in rule.redirects or ()]
    for path in run.written:
        if not any(_is_in(lab, path, glob) for glob in globs):
            yield lab.hide(f"wrote what no rule names: {path}")


def restricts(rule: PolicyRule, call: Call) -> bool:
    """Whether a rule that denies or asks is certainly about a call."""
    rest = _behind_command(rule, (os.path.basename(call.program), *call.arguments))  # noqa: PTH119 - of a text
    return rest is not None and all(_may_stand(rule, argument) for argument in rest)


def allows(lab: ShellLab, rule: PolicyRule, call: Call) -> bool:
    program = call.program if call.program != f"{lab.folder}/evil" else "./evil"
    rest = _behind_command(rule, (program, *call.arguments))
    if rule.decision != "allow" or rest is None:
        return False
    options = rest[: rest.index("--")] if "--" in rest else rest
    return (
        all(_may_stand(rule, argument) for argument in options)
        and (rule.args == "any" or len(options) == len(rest) or rest == ("--",))
        and not any(_is_forbidden(argument, each) for argument in options for each in rule.without or ())
        and not any(
            fnmatchcase(each, entry) for each in rest for entry in rule.without or () if entry[0] != "-"
        )
        and (rule.expands or not any(map(_COMPUTED.search, rest)))
        and set(call.variables) <= {*(rule.variables or ())}
        and (rule.sensitive or _is_in(lab, call.folder, "**"))
        and (rule.paths is None or all(_has_path(lab, rule.paths, call, argument) for argument in rest))
    )


def _behind_command(rule: PolicyRule, argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """The arguments behind the rule's own words; None if it is another command."""
    wanted = [(each,) if isinstance(each, str) else each for each in rule.command or ()]
    begins = len(argv) >= len(wanted) and all(map(lambda text, names: text in names, argv, wanted))
    return argv[len(wanted) :] if begins else None


def _may_stand(rule: PolicyRule, argument: str) -> bool:
    if rule.options is not None and argument[:1] == "-" and argument not in ("-", "--"):
        name = argument.partition("=")[0]
        return name in rule.options or all(f"-{letter}" in rule.options for letter in argument[1:])
    return rule.args == "any"


def _is_forbidden(argument: str, entry: str) -> bool:
    name = entry.rstrip("*") or "*"
    if fnmatchcase(argument, entry) or (name[0] == "-" and argument.partition("=")[0] == name):
        return True
    if name.startswith("--"):
        # An abbreviation.
        given = argument.partition("=")[0]
        return len(given) > 2 and name.startswith(given)
    is_cluster = argument[:1] == "-" and argument[1:2] != "-"
    return is_cluster and len(name) == 2 and name[0] == "-" and name[1] in argument


def _has_path(lab: ShellLab, globs: Sequence[str], call: Call, argument: str) -> bool:
    path = os.path.realpath(os.path.join(call.folder, argument))  # noqa: PTH118
    return argument[:1] == "-" or any(_is_in(lab, path, glob) for glob in globs)


def _is_in(lab: ShellLab, path: str, glob: str) -> bool:
    relative = os.path.relpath(path, lab.folder)
    if not glob.endswith("**"):
        return relative == glob
    folder = glob.removesuffix("**")
    return f"{relative}/".startswith(folder) and relative != ".." and not relative.startswith("../")
