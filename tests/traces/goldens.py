"""What the bridge makes of every trace, as files to read and to compare with: `golden/AGENT.txt`.

    make goldens

writes them anew. Then read what has changed: is all that the agent said still there, and each thing once?
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from traces.listening import DATA, agent_of, listened

__all__ = ["TRACES", "golden_of", "told_of"]

_GOLDEN = Path(__file__).parent / "golden"
TRACES = {agent: tuple(traces) for agent, traces in groupby(sorted(DATA.glob("*.jsonl")), agent_of)}


def golden_of(agent: str) -> Path:
    return _GOLDEN / f"{agent}.txt"


def told_of(agent: str) -> list[str]:
    """The lines of its file."""
    return [line for trace in TRACES[agent] for line in (f"=== {trace.stem}", *listened(trace).lines, "")]


if __name__ == "__main__":
    for each in TRACES:
        golden_of(each).write_text("".join(f"{line}\n" for line in told_of(each)))
