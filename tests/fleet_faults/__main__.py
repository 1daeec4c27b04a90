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
import time
from pathlib import Path

from fleet_faults.plan import CELLS, SHORT_SEEDS, FleetPlan, plan_of
from fleet_faults.report import FleetReport
from fleet_faults.run import run_plan

_ROOT = Path(__file__).parents[2]
# Those of them that take half a minute.
_SHORT_BRIDGE = ("turns", "calls", "permissions")


async def _all(
    plans: list[FleetPlan], folder: Path, jobs: int, seconds: float, *, keeps: bool
) -> FleetReport:
    report = FleetReport()
    waiting = list(reversed(plans))
    limit = time.monotonic() + seconds

    async def work() -> None:
        while waiting and time.monotonic() < limit:
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
    if waiting:
        print(f"There was no time for {len(waiting)} more.", flush=True)
    return report


def _bridge(*, is_short: bool) -> subprocess.Popen[bytes]:
    """The bridge's tests, with the bridge on a worker."""
    files = (
        [f"tests/bridge/test_bridge_{name}.py" for name in _SHORT_BRIDGE] if is_short else ["tests/bridge"]
    )
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *files],
        cwd=_ROOT,
        env={**os.environ, "DRAGOMAN_BRIDGE": "fleet"},
    )


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
    parser.add_argument(
        "--minutes", type=float, help="begin no run after this, and take as many seeds as there is time for"
    )
    parser.add_argument("--jobs", type=int, default=4, help="runs side by side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument(
        "--keep", type=Path, help="do not remove the folders of broken runs, and put them there"
    )
    parser.add_argument("--only-faults", action="store_true", help="leave the bridge's tests out")
    arguments = parser.parse_args()
    bridge = None if arguments.only_faults or arguments.seed else _bridge(is_short=not arguments.minutes)
    seeds = arguments.seed or list(range(10_000) if arguments.minutes else SHORT_SEEDS)
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True) as temporary:
        report = asyncio.run(
            _all(
                [plan_of(seed, arguments.fault) for seed in seeds],
                arguments.keep or Path(temporary),
                arguments.jobs,
                (arguments.minutes or 60) * 60,
                keeps=arguments.keep is not None,
            )
        )
    print(report.table())
    if arguments.json is not None:
        arguments.json.write_text(report.json())
    has_failed = bridge is not None and bridge.wait() != 0
    return 1 if report.broken or has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
