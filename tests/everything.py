"""`make everything`: what takes too long for CI, one after the other, and one table at the end.

    python tests/everything.py [--quick] [TARGET …]

A target that fails does not keep the others from running; then the exit status is 1. With `--quick` every target runs
in a form that takes seconds, together with those that write files: CI does this, so that none of them breaks unseen. A
quick run that leaves a file of the repository changed has failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["QUICK", "WHOLE", "Ran", "main", "table"]

ROOT = Path(__file__).resolve().parents[1]
# Of the Makefile, with the variables that it is given.
Targets = Mapping[str, Mapping[str, str]]
WHOLE: Targets = {
    "test-faults": {},
    "test-fleet": {"ARGS": "--faults 500"},
    "soak": {},
    "fuzz": {},
    "mutants": {},
    "coverage": {},
    "bench": {},
}
# `{scratch}` is a folder that is there for this run only.
QUICK: Targets = {
    "bench": {"ARGS": "--quick --local"},
    "mutants": {"ARGS": "--quick"},
    "test-faults": {"ARGS": "--seed 5"},
    "test-fleet": {"ARGS": "--seed 0 --fault 'worker suspended'"},
    "soak": {"ARGS": "--quick"},
    "fuzz": {"ARGS": "--seconds 1 --only acp_messages --only shell_lines"},
    "coverage": {"ARGS": "tests/lm/test_stops.py --cov-fail-under=0"},
    "demo": {},
    "picture": {"PICTURE": "{scratch}/demo.svg"},
    "reference": {},
    "goldens": {},
    # Without what this machine has seen of agents.
    "agents-table": {"DRAGOMAN_TEST_CACHE": "{scratch}"},
    "clients-table": {},
}
# The mutants take an hour on two idle cores; a quick one takes a minute. One that hangs must not keep the others waiting.
_WHOLE_SECONDS, _QUICK_SECONDS = 4 * 3600.0, 600.0


@dataclass(frozen=True, slots=True)
class Ran:
    target: str
    failure: str | None
    seconds: float


def table(ran: Iterable[Ran]) -> str:
    lines = [f"{'target':<14}{'':<9}{'seconds':>8}"]
    for each in ran:
        outcome = "passed" if each.failure is None else "FAILED"
        lines.append(f"{each.target:<14}{outcome:<9}{each.seconds:>8.0f}  {each.failure or ''}".rstrip())
    return "\n".join(lines)


def _run(target: str, variables: Mapping[str, str], scratch: str, limit: float) -> Ran:
    given = {"ARGS": "", **{name: value.format(scratch=scratch) for name, value in variables.items()}}
    command = ("make", target, *(f"{name}={value}" for name, value in given.items()))
    print(f"==> {' '.join(command)}", flush=True)
    began = time.monotonic()
    # Not the variables of the `make` that started this program.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")
    }
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            status = process.wait(limit)
            failure = None if status == 0 else f"exit status {status}"
        except subprocess.TimeoutExpired:
            failure = f"it did not end in {limit:.0f} s"
        finally:
            # Whatever it started.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Ran(target, failure, time.monotonic() - began)


def _changes() -> str | None:
    """What differs from the last commit; nothing where this is no repository."""
    done = subprocess.run(("git", "diff", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _checked(target: str, variables: Mapping[str, str], scratch: str) -> Ran:
    before = _changes()
    ran = _run(target, variables, scratch, _QUICK_SECONDS)
    if ran.failure is None and _changes() != before:
        return Ran(target, "it has changed files of the repository: see git diff", ran.seconds)
    return ran


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make everything", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="only these")
    parser.add_argument("--quick", action="store_true", help="each in a form that takes seconds")
    asked = parser.parse_args(arguments)
    targets = QUICK if asked.quick else WHOLE
    if unknown := set(asked.targets) - set(targets):
        parser.error(f"no target here: {', '.join(sorted(unknown))}; choose from {', '.join(targets)}")
    ran = []
    with tempfile.TemporaryDirectory(prefix="dragoman-everything-") as scratch:
        for target in asked.targets or targets:
            if asked.quick:
                ran.append(_checked(target, targets[target], scratch))
            else:
                ran.append(_run(target, targets[target], scratch, _WHOLE_SECONDS))
    print(f"\n{table(ran)}")
    return 1 if any(each.failure for each in ran) else 0


if __name__ == "__main__":
    sys.exit(main())
