"""How many streams of 50 parts a second are held without falling behind.

    python -m bench.held [--quick]

Streams are added until the 95th percentile of the latency is above a tenth of a second: by then parts pile up somewhere.
"""

from __future__ import annotations

from bench.contestants import ACP2API, FLOOR, HTTP, OURS, STDIO, Running
from bench.figures import Column, Figure, Goal, Row, percentile
from bench.latency import RATE, paced
from bench.stage import Scale, Stage, alone

__all__ = ["measure"]

_BEHIND_SECONDS = 0.1
_COLUMNS = (
    Column("held", "streams held", 0),
    Column("cores", "cores used", 2),
    Column("p95", "p95 ms", 1),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    steps = (5, 10) if scale.quick else (20, 60, 200)
    contestants = (*STDIO, *HTTP)
    rows = []
    for each in contestants:
        one = await stage.get(each)
        if isinstance(one, str):
            rows.append(Row(each.way, each.name, note=one))
            continue
        held = await stage.tried(one, _held(stage, one, steps, scale(3, 1)))
        if held is None:
            rows.append(Row(each.way, each.name, note=stage.note(one)))
            continue
        rows.append(Row(each.way, each.name, {name: (value,) for name, value in held.items()}))
    title = f"Streams of {RATE} parts a second held at once (up to {steps[-1]} were tried)"
    figure = Figure("held", title, _COLUMNS, tuple(rows))
    goals = (
        Goal(
            "HTTP: of the streams that acp2api holds",
            figure.ratio("held", "http", OURS, ACP2API),
            1.0,
            "at least",
        ),
        Goal(
            "stdio: of the streams that the floor holds",
            figure.ratio("held", "stdio", OURS, FLOOR),
            1.0,
            "at least",
        ),
    )
    return Figure(figure.name, figure.title, figure.columns, figure.rows, goals)


async def _held(stage: Stage, one: Running, steps: tuple[int, ...], seconds: int) -> dict[str, float]:
    held = {"held": 0.0, "cores": 0.0, "p95": 0.0}
    for streams in steps:
        lags, cores, _ = await paced(stage, one, streams, seconds)
        late = percentile(lags, 0.95)
        if late > _BEHIND_SECONDS:
            break
        held = {"held": float(streams), "cores": cores, "p95": late * 1e3}
    return held


if __name__ == "__main__":
    alone(measure)
