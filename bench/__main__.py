"""Everything: a table, results as JSON, a plot, and the part of docs/performance.md that is made from them.

    python -m bench [--quick] [--only NAME …] [--figure NAME …]

Only a complete run writes anything down.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from bench import held, identify, latency, memory, output, round_trip, start, streaming
from bench.document import written
from bench.figures import Figure
from bench.load import Failed
from bench.machine import Surroundings, surroundings
from bench.plot import drawn
from bench.stage import Measure, Scale, on_stage, options, run
from bench.table import text_of

__all__: list[str] = []

_ROOT = Path(__file__).parent.parent
_RESULTS = _ROOT / "bench" / "results.json"
_PLOT = _ROOT / "docs" / "images" / "bench.svg"
_DOCUMENT = _ROOT / "docs" / "performance.md"
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


def main() -> None:
    parser = options()
    parser.add_argument(
        "--figure", action="append", choices=_FIGURES, default=[], help="leave all others out"
    )
    arguments = parser.parse_args()
    where = surroundings()
    print(f"{where.sentence}\n", flush=True)
    began = time.perf_counter()
    names = [name for name in _FIGURES if not arguments.figure or name in arguments.figure]
    figures = run(lambda: _measured(names, arguments.only, Scale(arguments.quick)))
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} seconds in all")
    if arguments.quick or arguments.only or arguments.figure:
        return
    results = msgspec.json.encode(_Results(where, seconds, figures))
    _RESULTS.write_bytes(msgspec.json.format(results, indent=1) + b"\n")
    _PLOT.write_text(drawn(figures, where))
    _DOCUMENT.write_text(written(_DOCUMENT.read_text(), figures, where))
    print("written: bench/results.json, docs/images/bench.svg, docs/performance.md")


if __name__ == "__main__":
    main()
