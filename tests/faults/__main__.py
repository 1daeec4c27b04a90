"""`make test-faults`: many runs side by side, what was broken, and a table of what was injected where."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

from faults.holding import Holding, measured
from faults.plan import FIRST_OF_TWO, FRONTS, PLACES, TRANSPORTS, Plan, plan_of, smaller
from faults.report import Report
from faults.run import Outcome, run_plan


async def shrunk(plan: Plan, folder: Path, holding: Holding | None = None) -> Plan:
    """The smallest plan found that still breaks something."""
    tried = 0
    is_smaller = True
    while is_smaller and tried < 12:
        is_smaller = False
        for each in smaller(plan):
            tried += 1
            outcome = await run_plan(each, folder / f"smaller-{tried}", holding)
            if outcome.broken:
                plan, is_smaller = each, True
                break
    return plan


async def _all(
    seeds: list[int], folder: Path, jobs: int, seconds: float, *, shrinks: bool, keeps: bool
) -> Report:
    report = Report()
    waiting = list(reversed(seeds))
    holdings = {
        (front, transport): await measured(folder / f"nothing-{front}-{transport}", front, transport)
        for front in FRONTS
        for transport in TRANSPORTS
    }
    limit = time.monotonic() + seconds

    async def work() -> None:
        while waiting and time.monotonic() < limit:
            plan = plan_of(waiting.pop())
            place = folder / str(plan.seed)
            holding = holdings[plan.front, plan.transport]
            outcome = await run_plan(plan, place, holding)
            report.add(outcome)
            _show(outcome, report)
            if outcome.broken and shrinks:
                smallest = await shrunk(plan, folder / f"{plan.seed}-smaller", holding)
                print(f"  the smallest that breaks: {smallest}", flush=True)
            if not (keeps and outcome.broken):
                shutil.rmtree(place, ignore_errors=True)

    await asyncio.gather(*(work() for _ in range(jobs)))
    if waiting:
        print(f"There was no time for {len(waiting)} more.", flush=True)
    return report


def _show(outcome: Outcome, report: Report) -> None:
    if outcome.broken:
        print(f"BROKEN {outcome.plan}", flush=True)
        for line in outcome.broken:
            print(f"  {line}", flush=True)
    elif sys.stderr.isatty():
        print(f"\r{report.runs} runs", end="", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-faults", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="only this one; may be given again")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--runs", type=int, default=2 * len(PLACES), help="how many seeds (%(default)s)")
    parser.add_argument(
        "--twos",
        type=int,
        default=60,
        help=f"and how many from {FIRST_OF_TWO} on, with two faults (%(default)s)",
    )
    parser.add_argument("--fault", help="only plans with this fault")
    parser.add_argument("--state", help="only plans in this state")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no run after this (%(default)s)")
    parser.add_argument("--jobs", type=int, default=4, help="runs side by side (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument("--no-shrinking", action="store_true", help="do not look for a smaller plan")
    parser.add_argument(
        "--keep", type=Path, help="do not remove the folders of broken runs, and put them there"
    )
    parser.add_argument("--show", action="store_true", help="print the plans, and run nothing")
    arguments = parser.parse_args()
    seeds = arguments.seed or [
        *range(arguments.first, arguments.first + arguments.runs),
        *range(FIRST_OF_TWO + arguments.first, FIRST_OF_TWO + arguments.first + arguments.twos),
    ]
    plans = [plan_of(seed) for seed in seeds]
    plans = [
        plan
        for plan in plans
        if arguments.fault in (None, *plan.faults) and arguments.state in (None, plan.state)
    ]
    if arguments.show:
        print(*plans, sep="\n")
        return 0
    # Of the editors in this process: what the bridges say is in their own files.
    logging.getLogger("dragoman").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as temporary:
        folder = arguments.keep or Path(temporary)
        report = asyncio.run(
            _all(
                [plan.seed for plan in plans],
                folder,
                arguments.jobs,
                arguments.minutes * 60,
                shrinks=not arguments.no_shrinking,
                keeps=arguments.keep is not None,
            )
        )
    print(report.table())
    if arguments.json is not None:
        arguments.json.write_text(report.json())
    return 1 if report.broken or report.hollow else 0


if __name__ == "__main__":
    sys.exit(main())
