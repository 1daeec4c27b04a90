"""What a streamed part costs, flat out.

    python -m bench.streaming [--quick]

The agent says as much as is taken. CPU time is the contestant's, of all its processes and without the agent's; the
agent's and the load generator's own stand beside it, and show that neither is what is slow.
"""

from __future__ import annotations

import time

from bench.agents import PART
from bench.contestants import (
    ACP2API,
    ALONE,
    FLOOR,
    HTTP,
    LITELLM,
    LOWER_FLOORS,
    NOTHING,
    OURS,
    OURS_RESPONSES,
    SDK,
    STDIO,
    Running,
)
from bench.figures import Column, Figure, Goal, Row
from bench.load import Failed
from bench.processes import cpu_seconds, tree_cpu_seconds
from bench.stage import Scale, Stage, alone

__all__ = ["measure"]

_COLUMNS = (
    Column("cpu", "CPU µs/part"),
    Column("wall", "wall µs/part"),
    Column("agent", "agent's CPU"),
    Column("generator", "generator's CPU"),
    Column("rate", "parts/s", 0),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    contestants = (ALONE, *STDIO, LOWER_FLOORS[0], *HTTP, LOWER_FLOORS[1], OURS_RESPONSES)
    ready = await stage.all(*contestants)
    samples: dict[tuple[str, str], dict[str, list[float]]] = {}
    for _ in range(scale(5, 1)):
        for one in ready:
            measured = (
                None if stage.note(one) else await stage.tried(one, _once(stage, one, _parts(one, scale)))
            )
            if measured is None:
                continue
            kept = samples.setdefault((one.name, one.way), {})
            for name, value in measured.items():
                kept.setdefault(name, []).append(value)
    rows = [
        Row(
            each.way,
            each.name,
            {key: tuple(values) for key, values in samples.get((each.name, each.way), {}).items()},
            stage.note(each),
        )
        for each in contestants
    ]
    figure = Figure("streaming", "CPU per streamed part, flat out", _COLUMNS, tuple(rows))
    return Figure(figure.name, figure.title, figure.columns, figure.rows, _goals(figure))


def _goals(figure: Figure) -> tuple[Goal, ...]:
    return (
        Goal("stdio: of the floor's CPU", figure.ratio("cpu", "stdio", OURS, FLOOR), 2.5),
        Goal("HTTP: of the floor's CPU", figure.ratio("cpu", "http", OURS, FLOOR), 3.0),
        Goal("stdio: of the ACP SDK's", figure.ratio("cpu", "stdio", OURS, SDK), 1.0),
        Goal("HTTP: of the ACP SDK's with Starlette", figure.ratio("cpu", "http", OURS, SDK), 1.0),
        Goal("HTTP: of acp2api's", figure.ratio("cpu", "http", OURS, ACP2API), 1.0),
        Goal("HTTP: of LiteLLM's", figure.ratio("cpu", "http", OURS, LITELLM), 1 / 20),
    )


def _parts(one: Running, scale: Scale) -> int:
    """As many as take each about as long; what a request costs besides is little among them."""
    if one.name == LITELLM:
        return scale(500, 200)
    return scale(5_000 if one.name in (SDK, ACP2API) else 20_000, 2_000)


async def _once(stage: Stage, one: Running, parts: int) -> dict[str, float]:
    """The second answer of a conversation: what is done once for each is not counted."""
    hello = f"{stage.new_words()} !say 1"
    if one.name != NOTHING:
        await one.consumer.ask([("user", hello)])
    said = [("user", hello), ("assistant", PART), ("user", f"!say {parts}")]
    before = tree_cpu_seconds(one.pid)
    agent, generator = cpu_seconds(stage.agents.pid), time.process_time()
    heard = await one.consumer.ask(said)
    generator = time.process_time() - generator
    agent = cpu_seconds(stage.agents.pid) - agent
    cpu = tree_cpu_seconds(one.pid) - before
    # Open Responses tells the text again when it is complete.
    if heard.parts != parts and one.way != "responses":
        raise Failed(f"{one.name} passed {heard.parts} of {parts} parts on")
    return {
        "cpu": cpu / parts * 1e6,
        "wall": heard.seconds / parts * 1e6,
        "agent": agent / parts * 1e6,
        "generator": generator / parts * 1e6,
        "rate": parts / heard.seconds,
    }


if __name__ == "__main__":
    alone(measure)
