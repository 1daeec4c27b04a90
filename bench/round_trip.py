"""A tool call of the agent's, to the consumer and back, beside the same call on a bare tool server.

    python -m bench.round_trip [--quick]

The agent takes the time. Over HTTP, and through the shim for agents that take tools over standard input and output only.
Ours waits a moment for siblings of a call before it hands it over (`gather_milliseconds`): that much is on purpose.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.contestants import ALONE, OURS, Agents, Contestant, configured, free_port
from bench.figures import Column, Figure, Goal, Row
from bench.load import Bare, Editor, Failed
from bench.processes import tree_cpu_seconds
from bench.stage import Scale, Stage, alone

__all__ = ["measure"]

BARE = "bare mcp server"
_GATHER_MS = 150.0
_ROOT = Path(__file__).parent.parent
_COLUMNS = (Column("wall", "ms/call", 2), Column("cpu", "CPU ms/call", 2))
_TOOL = {
    "name": "look",
    "description": "Look something up.",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}},
}


async def measure(stage: Stage, scale: Scale) -> Figure:
    calls, repeats = scale(10, 2), scale(3, 1)
    rows = []
    for way, command in (("http", stage.agents.command), ("shim", stage.agents.stdio_command)):
        ours = Contestant(OURS, "stdio", _with_agent(command))
        async with stage.fresh(ours) as one:
            if isinstance(one, str):
                rows.append(Row(way, OURS, note=one))
            elif isinstance(one.consumer, Editor):
                each = [await _ours(stage, one.consumer, one.pid, calls) for _ in range(repeats)]
                rows.append(Row(way, OURS, _samples(each)))
        bare = await stage.get(ALONE)
        if not isinstance(bare, str) and isinstance(bare.consumer, Bare):
            each = [await _bare(bare.consumer, way, calls) for _ in range(repeats)]
            rows.append(Row(way, BARE, _samples(each)))
    figure = Figure(
        "round_trip", "A tool call, from the agent to the consumer and back", _COLUMNS, tuple(rows)
    )
    goals = []
    for way in ("http", "shim"):
        ours_row, other = figure.row(way, OURS), figure.row(way, BARE)
        limit = other.median("wall") if other else None
        goals.append(
            Goal(
                f"{way}: 1.3 × the bare server's and the gather window",
                ours_row.median("wall") if ours_row else None,
                limit * 1.3 + _GATHER_MS if limit is not None else None,
                unit="ms",
            )
        )
    return Figure(figure.name, figure.title, figure.columns, figure.rows, tuple(goals))


def _with_agent(command: tuple[str, ...]) -> Callable[[Path, Agents, int], tuple[str, ...]]:
    return lambda place, _agents, _port: (*configured(place, command), "vscode")


def _samples(each: list[tuple[float, float | None]]) -> dict[str, tuple[float, ...]]:
    return {
        "wall": tuple(wall for wall, _ in each),
        "cpu": tuple(cpu for _, cpu in each if cpu is not None),
    }


async def _ours(stage: Stage, editor: Editor, pid: int, calls: int) -> tuple[float, float | None]:
    """The second turn of a conversation: the agent has started, and knows the tools."""
    history: list[dict[str, Any]] = []
    await _turn(editor, history, f"{stage.new_words()} !call 1")
    before = tree_cpu_seconds(pid)
    text = await _turn(editor, history, f"!call {calls}")
    return _taken(text), (tree_cpu_seconds(pid) - before) / calls * 1e3


async def _turn(editor: Editor, history: list[dict[str, Any]], order: str) -> str:
    """As an editor would: it answers each call in a request of its own, with the whole history."""
    history.append(_said(order))
    while True:
        heard = await editor.send(history, [_TOOL], keep=True)
        parts = _parts(bytes(heard.data or b""))
        made = [part for part in parts if part["type"] == "tool_call"]
        history.append({"role": "assistant", "content": parts})
        if not made:
            return "".join(part["value"] for part in parts if part["type"] == "text")
        content = [{"type": "text", "value": "tick: found"}]
        results = [{"type": "tool_result", "callId": call["callId"], "content": content} for call in made]
        history.append({"role": "user", "content": results})


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "value": text}]}


def _parts(data: bytes) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in data.splitlines())
    return [line["params"]["part"] for line in lines if line.get("method") == "lm/responsePart"]


def _taken(text: str) -> float:
    """What the agent says of its calls, in milliseconds."""
    times = text.partition("took ")[2].partition(" .")[0].split()
    if not times or "error" in times:
        raise Failed(f"a call failed: {text!r}")
    return median(map(float, times)) / 1e3


async def _bare(agent: Bare, way: str, calls: int) -> tuple[float, float | None]:
    async with _served(way) as (server, pid):
        before = tree_cpu_seconds(pid) if pid else 0.0
        heard = await agent.prompt(f"!call {calls}", (server,), keep=True)
        cpu = (tree_cpu_seconds(pid) - before) / calls * 1e3 if pid else None
    return _taken(bytes(heard.data or b"").decode()), cpu


@asynccontextmanager
async def _served(way: str) -> AsyncIterator[tuple[dict[str, object], int | None]]:
    """Its address, as an agent is given it."""
    if way == "shim":
        # The agent starts it.
        yield (
            {"name": "bare", "command": sys.executable, "args": ["-m", "bench.bare_mcp", "stdio"], "env": []},
            None,
        )
        return
    port = free_port()
    command = (sys.executable, "-m", "bench.bare_mcp", str(port))
    process = subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.DEVNULL)  # noqa: ASYNC220, S603 - ours
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        address: dict[str, object] = {
            "type": "http",
            "name": "bare",
            "url": f"http://127.0.0.1:{port}/mcp",
            "headers": [],
        }
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    alone(measure)
