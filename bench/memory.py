"""What processes take of memory: when they have served one request, and for each conversation that waits.

python -m bench.memory [--quick]
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.contestants import HTTP, OURS, STDIO
from bench.figures import Column, Figure, Goal, Row
from bench.processes import tree_resident_bytes
from bench.stage import Scale, Stage, alone

__all__ = ["measure"]

_ROOT = Path(__file__).parent.parent
_MEGA = 1e6
_COLUMNS = (
    Column("base", "base MB"),
    Column("answered", "after an answer, MB"),
    Column("waiting", "KiB a conversation"),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    rows = []
    for each in (*STDIO, *HTTP):
        # Its own, which has done nothing else.
        async with stage.fresh(each) as one:
            if isinstance(one, str):
                rows.append(Row(each.way, each.name, note=one))
                continue
            base = tree_resident_bytes(one.pid) / _MEGA
            samples: dict[str, tuple[float, ...]] = {"base": (base,)}
            asked = one.consumer.ask([("user", f"{stage.new_words()} !say 100")])
            if await stage.tried(one, asked) is not None:
                samples["answered"] = (tree_resident_bytes(one.pid) / _MEGA,)
            rows.append(Row(each.way, each.name, samples, stage.note(one)))
    waiting = _waiting(scale(300, 20))
    rows.append(Row("waiting", OURS, {"waiting": (waiting,)}))
    figure = Figure("memory", "Memory", _COLUMNS, tuple(rows))
    bases = {way: row.median("base") for way in ("stdio", "http") if (row := figure.row(way, OURS))}
    goals = (
        *(Goal(f"{way}: base", base, 70.0, unit="MB") for way, base in bases.items()),
        Goal("a conversation that waits, without its agent", waiting, 60.0, unit="KiB"),
    )
    return Figure(figure.name, figure.title, figure.columns, figure.rows, goals)


def _waiting(count: int) -> float:
    """In a process of its own (`waiting.py`): what is counted there is all that it has taken."""
    done = subprocess.run(  # noqa: S603 - ours
        (sys.executable, "-m", "bench.waiting", str(count)), cwd=_ROOT, capture_output=True, check=True
    )
    return float(json.loads(done.stderr.splitlines()[-1])["KiB each"])


if __name__ == "__main__":
    alone(measure)
