"""What a decision by rules costs, and what loading the rules costs.

    python -m bench.policy [--quick]

The starter set, with one *deny* and one *ask* rule beside it, judges commands that agents often run. The time is CPU
time of this process. Describing the action, which happens without rules too, is beside it: both are slow on a slow
machine.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from collections.abc import Callable

import msgspec

from bench.contestants import OURS
from bench.figures import Column, Figure, Goal, Row
from bench.stage import Scale, Stage, alone
from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from dragoman.policy.starter import starter_text

__all__ = ["measure"]

_MOST_MICROSECONDS = 300
_COMMANDS = (
    "git status",
    "git log --oneline -5 -- src",
    "cd src && git diff --stat",
    "grep -rn TODO src | head -20",
    "timeout 60 git log -p -3 2>&1 | tail -40",
    "npm run build > /dev/null",
)
# Lines that are slow to take apart: tree-sitter looks for their sense in vain.
_AWKWARD = tuple(
    (text * 5_000)[:5_000]
    for text in ("a|", "(", "$(", "`", "{ ", "<<E ", "a=", "if a; then ", "[[ ", "x {a,")
)
_MOST_MILLISECONDS = 500
_BESIDE = (
    PolicyRule(decision="deny", command=("rm",), args="any"),
    PolicyRule(decision="ask", paths=("secrets/**",)),
)
_COLUMNS = (
    Column("decision", "a decision, µs of CPU", 0),
    Column("description", "describing it, µs", 0),
)
_IMPORT = (
    "import time; import dragoman.permissions.describe; began = time.process_time(); "
    "import dragoman.policy.command_line; print((time.process_time() - began) * 1000)"
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    places = Places.around([stage.folder])
    starter = msgspec.convert(tomllib.loads(starter_text())["policy"], tuple[PolicyRule, ...])
    rules = [LocatedRule(rule, "dragoman.toml", 1) for rule in (*starter, *_BESIDE)]
    policy = Policy(rules)
    rows = tuple(_row(line, policy, places, scale) for line in _COMMANDS)
    decisions = [value for row in rows for value in (row.median("decision") or 0,)]
    goals = (
        Goal("a decision takes", max(decisions), _MOST_MICROSECONDS, unit="µs"),
        Goal(
            "an awkward line of 5,000 characters takes",
            _slowest(policy, places),
            _MOST_MILLISECONDS,
            unit="ms",
        ),
        Goal("loading the analysis of commands takes", _loading(scale), None, unit="ms"),
    )
    return Figure("policy", f"A decision by {len(rules)} rules", _COLUMNS, rows, goals)


def _row(line: str, policy: Policy, places: Places, scale: Scale) -> Row:
    def described() -> object:
        return describe(agent="a", agent_name="A", places=places, kind="execute", input={"command": line})

    action = describe(agent="a", agent_name="A", places=places, kind="execute", input={"command": line})
    policy.judge(action, places)
    samples: dict[str, list[float]] = {"decision": [], "description": []}
    for _ in range(scale(7, 2)):
        samples["decision"].append(_microseconds(lambda: policy.judge(action, places), scale))
        samples["description"].append(_microseconds(described, scale))
    return Row(line, OURS, {name: tuple(values) for name, values in samples.items()})


def _microseconds(work: Callable[[], object], scale: Scale) -> float:
    count = scale(500, 20)
    began = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - began) / count * 1_000_000


def _slowest(policy: Policy, places: Places) -> float:
    """The slowest of the awkward lines, in milliseconds of CPU."""
    took = []
    for line in _AWKWARD:
        action = describe(agent="a", agent_name="A", places=places, kind="execute", input={"command": line})
        began = time.process_time()
        policy.judge(action, places)
        took.append((time.process_time() - began) * 1_000)
    return max(took)


def _loading(scale: Scale) -> float:
    """The least of some tries, in milliseconds."""
    tries = [
        subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)  # noqa: S603 - ours
        for _ in range(scale(5, 1))
    ]
    return min(float(each.stdout) for each in tries)


if __name__ == "__main__":
    alone(measure)
