"""From the start of a process to the first request that it serves, and to the first part of an answer.

python -m bench.start [--quick]
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from pathlib import Path

from bench.contestants import OURS, configured, free_port
from bench.figures import Column, Figure, Goal, Row
from bench.load import Failed
from bench.processes import cpu_seconds
from bench.stage import Scale, Stage, alone

__all__ = ["measure"]

BARE = "bare Python"
_ROOT = Path(__file__).parent.parent
_COLUMNS = (
    Column("cpu", "CPU ms", 0),
    Column("wall", "wall ms", 0),
    Column("part", "to the first part, wall ms", 0),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    place = stage.folder / "start"
    place.mkdir()
    command = configured(place, stage.agents.command)
    samples: dict[tuple[str, str], dict[str, list[float]]] = {}
    for _ in range(scale(7, 2)):
        for key, measured in (
            (("stdio", OURS), _stdio((*command, "vscode"))),
            (("http", OURS), _http((*command, "serve"))),
            (("", BARE), _python()),
        ):
            for name, value in measured.items():
                samples.setdefault(key, {}).setdefault(name, []).append(value)
    rows = tuple(
        Row(case, name, {key: tuple(values) for key, values in of.items()})
        for (case, name), of in samples.items()
    )
    figure = Figure("start", "From start to the first request served", _COLUMNS, rows)
    goals = tuple(
        Goal(f"{case}: CPU to serve", row.median("cpu"), 350.0, unit="ms")
        for case in ("stdio", "http")
        if (row := figure.row(case, OURS))
    )
    return Figure(figure.name, figure.title, figure.columns, figure.rows, goals)


def _stdio(command: tuple[str, ...]) -> dict[str, float]:
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT) as process:  # noqa: S603 - ours
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")

        def ask(number: int, method: str, params: object) -> None:
            line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(line).encode() + b"\n")  # type: ignore[union-attr]  # see above
            process.stdin.flush()  # type: ignore[union-attr]  # see above

        def until(found: bytes) -> None:
            for line in process.stdout or ():
                if found in line:
                    return
            raise Failed(f"it ended before {found!r}")

        ask(1, "initialize", {"protocolVersion": 1, "client": {"name": "bench"}})
        ask(2, "lm/provideLanguageModelChatInformation", {})
        until(b'"id":2')
        wall, cpu = time.perf_counter() - began, cpu_seconds(process.pid)
        schema = {"type": "object", "properties": {}}
        ask(
            3,
            "lm/provideLanguageModelChatResponse",
            {
                "modelId": "bench",
                "messages": [{"role": "user", "content": [{"type": "text", "value": "!say 1"}]}],
                "options": {"tools": [{"name": "look", "description": "", "inputSchema": schema}]},
            },
        )
        until(b"tick")
        part = time.perf_counter() - began
        process.stdin.close()
    return {"cpu": cpu * 1e3, "wall": wall * 1e3, "part": part * 1e3}


def _http(command: tuple[str, ...]) -> dict[str, float]:
    port = free_port()
    began = time.perf_counter()
    with subprocess.Popen((*command, "--port", str(port)), stderr=subprocess.DEVNULL, cwd=_ROOT) as process:  # noqa: S603 - ours
        asked = http.client.HTTPConnection("127.0.0.1", port)
        while True:
            try:
                asked.request("GET", "/v1/models")
                asked.getresponse().read()
                break
            except OSError:
                asked.close()
                if process.poll() is not None:
                    raise Failed("it ended") from None
                time.sleep(0.002)
        wall, cpu = time.perf_counter() - began, cpu_seconds(process.pid)
        message = {"role": "user", "content": "!say 1"}
        body = json.dumps({"model": "bench", "stream": True, "messages": [message]})
        asked.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        told = asked.getresponse()
        while b"tick" not in told.readline():
            if told.isclosed():
                raise Failed("it said nothing")
        part = time.perf_counter() - began
        asked.close()
        process.terminate()
    return {"cpu": cpu * 1e3, "wall": wall * 1e3, "part": part * 1e3}


def _python() -> dict[str, float]:
    """As we are started: with the site packages."""
    began = time.perf_counter()
    program = "import time; print(time.process_time())"
    done = subprocess.run((sys.executable, "-c", program), stdout=subprocess.PIPE, check=True)  # noqa: S603 - ours
    return {"cpu": float(done.stdout) * 1e3, "wall": (time.perf_counter() - began) * 1e3}


if __name__ == "__main__":
    alone(measure)
