"""How long a part takes from the agent's write to the consumer's read, at the pace of a fast model.

    python -m bench.latency [--quick]

One stream, and twenty at once, at 50 parts a second each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from bench.agents import PART
from bench.contestants import ALONE, FLOOR, HTTP, NOTHING, OURS, STDIO, Running
from bench.figures import Column, Figure, Goal, Row, percentile
from bench.processes import tree_cpu_seconds
from bench.stage import Scale, Stage, alone

__all__ = ["RATE", "Paced", "measure", "paced"]

RATE = 50
_STREAMS = (1, 20)
# Beginnings at once: agents are processes.
_AT_ONCE = 8
_COLUMNS = (
    Column("p50", "p50 ms", 2),
    Column("p99", "p99 ms", 2),
    Column("cpu", "CPU µs/part", 0),
)


class Paced(NamedTuple):
    # Of all streams together, without the first third of each.
    lags: list[float]
    # CPU seconds for a second of them.
    cpu: float
    # Parts a second of the slowest stream: an agent that has to wait falls behind its pace.
    slowest: float


async def measure(stage: Stage, scale: Scale) -> Figure:
    contestants = (ALONE, *STDIO, *HTTP)
    ready = await stage.all(*contestants)
    samples: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    seconds = scale(2, 1)
    for _ in range(scale(3, 1)):
        for streams in _STREAMS:
            for one in ready:
                measured = (
                    None if stage.note(one) else await stage.tried(one, paced(stage, one, streams, seconds))
                )
                if measured is None:
                    continue
                heard, cpu, _ = measured
                kept = samples.setdefault((one.name, one.way, streams), {})
                kept.setdefault("p50", []).append(percentile(heard, 0.5) * 1e3)
                kept.setdefault("p99", []).append(percentile(heard, 0.99) * 1e3)
                kept.setdefault("cpu", []).append(cpu / (streams * RATE) * 1e6)
    rows = [
        Row(
            _case(each.way, streams),
            each.name,
            {name: tuple(of) for name, of in samples.get((each.name, each.way, streams), {}).items()},
            stage.note(each),
        )
        for streams in _STREAMS
        for each in contestants
    ]
    figure = Figure("latency", f"Latency of a part, at {RATE} parts a second", _COLUMNS, tuple(rows))
    goals = tuple(
        Goal(f"{case}: p50, of the floor's", figure.ratio("p50", case, OURS, FLOOR), 2.0)
        for way in ("stdio", "http")
        for case in (_case(way, streams) for streams in _STREAMS)
    )
    return Figure(figure.name, figure.title, figure.columns, figure.rows, goals)


def _case(way: str, streams: int) -> str:
    return f"{way}, {streams} stream{'s' if streams > 1 else ''}"


async def paced(
    stage: Stage, one: Running, streams: int, seconds: int, on_begun: Callable[[], object] = lambda: None
) -> Paced:
    """Ask for streams at a pace.

    Every conversation has begun before it is counted: starting agents is not what is measured. `on_begun` is called then.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def begun() -> list[tuple[str, str]]:
        hello = f"{stage.new_words()} !say 1"
        if one.name != NOTHING:
            async with limit:
                await one.consumer.ask([("user", hello)])
        return [("user", hello), ("assistant", PART), ("user", f"!pace {RATE} {RATE * seconds}")]

    histories = await asyncio.gather(*(begun() for _ in range(streams)))
    on_begun()
    before = tree_cpu_seconds(one.pid)
    heard = await asyncio.gather(*(one.consumer.ask(history) for history in histories))
    cpu = (tree_cpu_seconds(one.pid) - before) / seconds
    return Paced(
        [lag for each in heard for lag in each.lags[len(each.lags) // 3 :]],
        cpu,
        min((each.parts - 1) / (each.ended - each.first) for each in heard),
    )


if __name__ == "__main__":
    alone(measure)
