"""`make test-fleet`: fleets with faults, some side by side, what was broken, and a table of what was injected where."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from fleet_faults.plan import CELLS, SHORT_SEEDS, FleetPlan, plan_of, seeds_for
from fleet_faults.report import FleetReport
from fleet_faults.run import run_plan

_ROOT = Path(__file__).parents[2]
# Those of them that take half a minute.
_SHORT_BRIDGE = ("turns", "calls", "permissions")


async def _all(plans: list[FleetPlan], folder: Path, jobs: int, *, keeps: bool) -> FleetReport:
    report = FleetReport()
    waiting = list(reversed(plans))

    async def work() -> None:
        while waiting:
            plan = waiting.pop()
            place = folder / str(plan.seed)
            outcome = await run_plan(plan, place)
            report.add(outcome)
            verdict = "BROKEN" if outcome.broken else "ok    "
            print(f"{verdict} {outcome.seconds:4.0f} s  {plan}", flush=True)
            for line in outcome.broken:
                print(f"  {line}", flush=True)
            if keeps and outcome.broken:
                (place / "logs").write_text(outcome.logs)
            else:
                shutil.rmtree(place, ignore_errors=True)

    working = asyncio.gather(*(work() for _ in range(jobs)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    try:
        await working
    except asyncio.CancelledError:
        # The fleets have ended.
        sys.exit(128 + signal.SIGTERM)
    return report


def _pytest(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=_ROOT,
        env={**os.environ, **environment},
    )


def _beside(files: list[str], *, is_short: bool) -> list[subprocess.Popen[bytes]]:
    """Tests that wait as much as the faults do: these files, and the bridge's tests with the bridge on a worker."""
    short = [f"tests/bridge/test_bridge_{name}.py" for name in _SHORT_BRIDGE]
    bridge = _pytest("-n", "1", *(short if is_short else ["tests/bridge"]), DRAGOMAN_BRIDGE="fleet")
    return [bridge, _pytest("-n", "1", "-m", "long", *files)] if files else [bridge]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-fleet", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="only this one; may be given again")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        choices=[" ".join(cell) for cell in CELLS],
        help="this one in every run, instead of those that it is the turn of; may be given again",
    )
    parser.add_argument("--faults", type=int, help="take as many seeds as have so many faults")
    parser.add_argument("--jobs", type=int, default=5, help="runs side by side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument(
        "--keep", type=Path, help="do not remove the folders of broken runs, and put them there"
    )
    parser.add_argument("--only-faults", action="store_true", help="no other tests beside them")
    parser.add_argument(
        "--beside", action="append", default=[], metavar="FILE", help="tests to run at the same time"
    )
    arguments = parser.parse_args()
    beside = (
        []
        if arguments.only_faults or arguments.seed
        else _beside(arguments.beside, is_short=not arguments.faults)
    )
    seeds = arguments.seed or (seeds_for(arguments.faults) if arguments.faults else SHORT_SEEDS)
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True) as temporary:
            report = asyncio.run(
                _all(
                    [plan_of(seed, arguments.fault) for seed in seeds],
                    arguments.keep or Path(temporary),
                    arguments.jobs,
                    keeps=arguments.keep is not None,
                )
            )
        print(report.table())
        if arguments.json is not None:
            arguments.json.write_text(report.json())
        statuses = [process.wait() for process in beside]
    finally:
        for process in beside:
            process.terminate()
    return 1 if report.broken or any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
