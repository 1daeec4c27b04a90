"""A tool whose output grows, and an agent that sends all of it again at every step.

    python -m bench.output [--quick]

300 KB in 3,000 updates are 450 MB on the way in. What reaches the consumer should be the output, once; and what it costs
should grow with what comes in, not faster. Counted are the bytes of what is told, and those on the wire, where each of the
updates, which bring a line each, has an envelope of about its own size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.agents import PART
from bench.contestants import OURS, STDIO
from bench.figures import Column, Figure, Goal, Row
from bench.processes import tree_cpu_seconds
from bench.stage import Scale, Stage, alone

__all__ = ["measure"]

_STEP = 100
_COLUMNS = (
    Column("output", "output KB", 0),
    Column("in", "from the agent, MB", 1),
    Column("told", "told, KB", 0),
    Column("share", "of the output", 2),
    Column("wire", "on the wire, KB", 0),
    Column("cpu", "CPU s", 2),
    Column("per_mb", "CPU ms per MB in", 2),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    one = await stage.get(STDIO[0])
    if isinstance(one, str):
        return Figure("output", "Long tool output", _COLUMNS, (Row("", OURS, note=one),))
    rows = []
    for updates in (100, 200) if scale.quick else (750, 1_500, 3_000):
        hello = ("user", f"{stage.new_words()} !say 1")
        await one.consumer.ask([hello])
        said = [hello, ("assistant", PART), ("user", f"!grow {updates} {_STEP}")]
        before = tree_cpu_seconds(one.pid)
        heard = await one.consumer.ask(said, keep=True)
        cpu = tree_cpu_seconds(one.pid) - before
        told = sum(len(value) for value in _values(bytes(heard.data or b"")))
        output, taken = updates * _STEP, updates * (updates + 1) / 2 * _STEP
        samples = {
            "output": output / 1e3,
            "in": taken / 1e6,
            "told": told / 1e3,
            "share": told / output,
            "wire": heard.size / 1e3,
            "cpu": cpu,
            "per_mb": cpu * 1e3 / (taken / 1e6),
        }
        rows.append(Row(f"{updates:,} updates", OURS, {name: (value,) for name, value in samples.items()}))
    title = "Long tool output, sent in full at every step"
    goals = (
        Goal("what the consumer gets, of the output", max(row.median("share") or 0 for row in rows), 1.2),
        Goal(
            "CPU per byte from the agent at the longest, of that at the shortest",
            (rows[-1].median("per_mb") or 0) / (rows[0].median("per_mb") or 1),
            1.2,
        ),
    )
    return Figure("output", title, _COLUMNS, tuple(rows), goals)


def _values(data: bytes) -> Iterator[bytes]:
    for line in data.splitlines():
        value = json.loads(line).get("params", {}).get("part", {}).get("value", "")
        yield value.encode()


if __name__ == "__main__":
    alone(measure)
