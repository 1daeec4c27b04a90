"""Everything: a table, results as JSON, a plot, and the part of docs/performance.md that is made from them.

    python -m bench [--quick] [--local] [--only NAME …] [--figure NAME … [--keep]]

A complete run writes its results down. With `--keep`, those of single figures take the place of earlier ones. Where one of those that come with this repository cannot be measured, the exit
status is 1; one that has to be installed first may be missing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bench import (
    calls,
    fleet,
    fleet_scale,
    held,
    identify,
    journal,
    latency,
    memory,
    output,
    policy,
    round_trip,
    start,
    streaming,
)
from bench.contestants import ELSEWHERE, HERE
from bench.document import replaced, written
from bench.figures import Figure
from bench.load import Failed
from bench.machine import Surroundings, surroundings
from bench.plot import drawn
from bench.scale_page import calculated
from bench.stage import LEFT_OUT, Measure, Scale, on_stage, options, run
from bench.table import text_of

__all__ = ["lost_rows"]

_ROOT = Path(__file__).parent.parent
_RESULTS = _ROOT / "bench" / "results.json"
_PLOT = _ROOT / "docs" / "images" / "bench.svg"
_DOCUMENT = _ROOT / "docs" / "performance.md"
_SCALE = _ROOT / "docs" / "fleet-scale.md"
# Those that are easily disturbed first, while nothing else is loaded.
_FIGURES: dict[str, Measure] = {
    "start": start.measure,
    "identify": identify.measure,
    "streaming": streaming.measure,
    "latency": latency.measure,
    "held": held.measure,
    "round_trip": round_trip.measure,
    "output": output.measure,
    "memory": memory.measure,
    "calls": calls.measure,
    "journal": journal.measure,
    "policy": policy.measure,
    "fleet": fleet.measure,
    "fleet_scale": fleet_scale.measure,
}


class _Results(msgspec.Struct, frozen=True):
    surroundings: Surroundings
    seconds: float
    figures: tuple[Figure, ...]


async def _measured(names: list[str], only: list[str], scale: Scale) -> tuple[Figure, ...]:
    figures = []
    async with on_stage(only) as stage:
        for name in names:
            began = time.perf_counter()
            try:
                figure = await _FIGURES[name](stage, scale)
            except Failed as error:
                sys.exit(f"{name} could not be measured: {error}")
            print(text_of(figure))
            print(f"  ({time.perf_counter() - began:.0f} s)\n", flush=True)
            figures.append(figure)
    return tuple(figures)


def lost_rows(figures: Iterable[Figure]) -> list[str]:
    """Those that need nothing installed, and have no values all the same."""
    return [
        f"{figure.name}, {row.case}, {row.contestant}: {row.note or 'no values'}"
        for figure in figures
        for row in figure.rows
        if row.contestant not in ELSEWHERE
        and row.note != LEFT_OUT
        and (row.note or not any(row.samples.values()))
    ]


def main() -> None:
    parser = options()
    parser.add_argument(
        "--figure", action="append", choices=_FIGURES, default=[], help="leave all others out"
    )
    parser.add_argument(
        "--keep", action="store_true", help="with --figure: keep the results, beside those of others"
    )
    parser.add_argument("--local", action="store_true", help="leave those out that have to be installed")
    arguments = parser.parse_args()
    where = surroundings()
    print(f"{where.sentence}\n", flush=True)
    began = time.perf_counter()
    names = [name for name in _FIGURES if not arguments.figure or name in arguments.figure]
    only = [*arguments.only, *(HERE if arguments.local else ())]
    figures = run(lambda: _measured(names, only, Scale(arguments.quick)))
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} seconds in all")
    if lost := lost_rows(figures):
        sys.exit("\n".join(("These must be measured, and were not:", *lost)))
    if arguments.quick or only or (arguments.figure and not arguments.keep):
        return
    if arguments.figure:
        kept = msgspec.json.decode(_RESULTS.read_bytes(), type=_Results)
        found = {each.name: msgspec.structs.replace(each, measured=where.sentence) for each in figures}
        where, seconds = kept.surroundings, kept.seconds
        others = {each.name: each for each in kept.figures}
        figures = tuple({**others, **found}[name] for name in _FIGURES if name in others | found)
    results = msgspec.json.encode(_Results(where, seconds, figures))
    _RESULTS.write_bytes(msgspec.json.format(results, indent=1) + b"\n")
    _PLOT.write_text(drawn(figures, where))
    _DOCUMENT.write_text(written(_DOCUMENT.read_text(), figures, where))
    if {"fleet", "fleet_scale"} <= {each.name for each in figures}:
        _SCALE.write_text(replaced(_SCALE.read_text(), calculated(figures)))
    print("written: bench/results.json, docs/images/bench.svg, docs/performance.md, docs/fleet-scale.md")


if __name__ == "__main__":
    main()
