"""Holds the analysis of command lines, and what rules allow, against real shells for as long as it is let.

This target chooses its lines itself, by a grammar and by what it has learnt, so it needs no fuzzer that watches coverage.
"""

from __future__ import annotations

import re
import secrets
import time
from random import Random

from policy.against_shells import Comparison, Finding
from policy.line_examples import EXAMPLES
from policy.lines import LineMaker
from policy.rules_against_shells import RuleComparison, random_rules
from policy.shell_lab import ShellLab

__all__ = ["NAME", "is_clean"]

NAME = "shell_lines"
# A set of rules judges so many lines before the next one does. An allowed line is rare, and a set costs little.
_LINES_FOR_RULES = 20
_LINES_WITHOUT_RULES = 10
# More findings are mostly the same ones.
_MOST_FINDINGS = 20


def is_clean(seconds: float, seed: str | None = None) -> bool:
    """Search for some seconds. Prints what was found and how much was compared."""
    seed = seed or secrets.token_hex(4)
    began = time.monotonic()
    ends = began + seconds
    maker, random = LineMaker(seed), Random(seed)  # noqa: S311 - nothing secret
    with ShellLab.open() as lab:
        lines, rules = Comparison(lab), RuleComparison(lab)
        for example in random.sample(EXAMPLES, len(EXAMPLES)):
            if time.monotonic() < began + seconds / 3:
                _show(lines, seed, lines.line(lab.fill(re.sub(r"\{\}", "rm x", example))))
        while time.monotonic() < ends and len(lines.findings) + len(rules.findings) < _MOST_FINDINGS:
            for _ in range(_LINES_WITHOUT_RULES):
                _show(lines, seed, lines.generated(maker))
            chosen = random_rules(random)
            for _ in range(_LINES_FOR_RULES):
                for finding in rules.generated(maker, chosen)[:1]:
                    print(f"\nseed {seed}\n{finding}", flush=True)
    found = len(lines.findings) + len(rules.findings)
    print(
        f"{NAME:22} {lines.lines + rules.lines:>10,} executions {lines.understood / max(lines.lines, 1):>7.0%} understood, "
        f"{lines.calls + rules.calls:,} calls, {rules.allowed:,} lines allowed by rules, {found} findings",
        flush=True,
    )
    return not found


def _show(comparison: Comparison, seed: str, findings: list[Finding]) -> None:
    for finding in findings[:1]:
        print(f"\nseed {seed}\n{finding}\nshorter: {comparison.shrunk(finding)}", flush=True)
