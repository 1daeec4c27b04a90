"""What a fleet adds to one process: CPU and latency of a part, many streams, and how long it takes to move a conversation.

    python -m bench.fleet [--quick]

A gateway, workers and one NATS server on this machine, beside a server on its own with the same agents. A part that is sent
flat out shares its message with others; at 50 parts a second each has a message of its own, and that costs more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.agents import PART
from bench.contestants import OURS, Running, free_port
from bench.figures import Column, Figure, Goal, Row, percentile
from bench.latency import RATE, paced
from bench.load import Chat, Failed
from bench.processes import cpu_seconds, tree_cpu_seconds
from bench.stage import Scale, Stage, alone
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.messages import STATUS_FORM, NodeStatus
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import STATUS

__all__ = ["measure"]

_FLEET = "gateway and worker"
_NATS = Path(sys.executable).parent / "nats-server"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.002
_MANY = 200
# Of a worker, where it is counted how many conversations several have.
_FEW_AGENTS = 4
_LONG_STREAM = f"!pace {RATE} {RATE * 600}"
_COLUMNS = (
    Column("cpu", "CPU µs/part"),
    Column("gateway", "of it the gateway's"),
    Column("worker", "the worker's"),
    Column("nats", "beside it NATS's"),
    Column("p50", "p50 ms", 2),
    Column("p99", "p99 ms", 2),
    Column("arrived", "parts arrived, %", 1),
    Column("ms", "ms", 1),
    Column("count", "conversations", 0),
)


@dataclass
class _Process:
    popen: subprocess.Popen[bytes]
    log: Path
    port: int = 0

    @property
    def pid(self) -> int:
        return self.popen.pid

    async def says(self, words: str) -> None:
        async with asyncio.timeout(_START_SECONDS):
            while words not in self.log.read_text(errors="replace"):
                if self.popen.poll() is not None:
                    raise Failed(f"it ended: {self.log.read_text(errors='replace')[-300:]}")
                await asyncio.sleep(0.02)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        self.popen.wait()


@dataclass
class _Fleet:
    """A NATS server, and nodes as they are started."""

    stage: Stage
    folder: Path
    url: str
    nats: _Process
    processes: list[_Process] = field(default_factory=list)
    workers: dict[str, _Process] = field(default_factory=dict)

    def start(self, role: str, name: str, agents: int = 10_000) -> _Process:
        place = self.folder / name
        place.mkdir(exist_ok=True)
        command = json.dumps(self.stage.agents.command)
        model = f'[models.bench]\nkind = "acp"\ncommand = {command}\ncwd = {json.dumps(str(self.folder))}\n'
        (place / "dragoman.toml").write_text(
            f"{model if role != 'gateway' else ''}"
            f"{'' if role == 'alone' else f'[fleet]{chr(10)}url = {json.dumps(self.url)}{chr(10)}name = {json.dumps(name)}{chr(10)}'}"
            f"[serve]\nmax_responses = 10000\n[conversation]\nmax_agents = {agents}\n"
        )
        port = free_port()
        words = ["worker"] if role == "worker" else ["serve", "--port", str(port)]
        command_line = [sys.executable, "-m", "dragoman", *words, "--config", str(place / "dragoman.toml")]
        with (place / "log").open("wb") as log:
            popen = subprocess.Popen(  # noqa: S603 - our own
                [*command_line, "--state-dir", str(place / "state")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        started = _Process(popen, place / "log", port)
        self.processes.append(started)
        return started

    async def worker(self, name: str, agents: int = 10_000) -> _Process:
        self.workers[name] = started = self.start("worker", name, agents)
        await started.says("to the fleet at")
        async with FleetConnection.open((self.url,), "looks") as connection:
            await self.until(connection, lambda found: name in found)
        return started

    async def served(self, role: str, name: str) -> Running:
        started = self.start(role, name)
        await started.says("serving at http")
        return Running(OURS if role == "alone" else _FLEET, "http", started.pid, Chat(started.port))

    async def statuses(self, connection: FleetConnection) -> dict[str, NodeStatus]:
        count = sum(each.popen.poll() is None for each in self.workers.values())
        answers = await connection.collect(STATUS, b"", 0.5, lambda found: len(found) >= count)
        return {status.name: status for status in map(STATUS_FORM.decode, answers)}

    async def until(
        self, connection: FleetConnection, is_so: Callable[[dict[str, NodeStatus]], object]
    ) -> None:
        """Until it is so for the workers that run, all of which have said how they are."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                found = await self.statuses(connection)
                running = {name for name, each in self.workers.items() if each.popen.poll() is None}
                if running <= found.keys() and is_so(found):
                    return
                await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def _fleet(stage: Stage, name: str) -> AsyncIterator[_Fleet]:
    folder = stage.folder / name
    folder.mkdir()
    port = free_port()
    (folder / "nats.conf").write_text(
        f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{folder}/nats", sync_interval: always }}\n'
    )
    with (folder / "nats.log").open("wb") as log:
        popen = subprocess.Popen([_NATS, "-c", folder / "nats.conf"], stdout=log, stderr=log)  # noqa: ASYNC220, S603 - our own, and a start does not block
    fleet = _Fleet(stage, folder, f"nats://127.0.0.1:{port}", _Process(popen, folder / "nats.log"))
    try:
        await fleet.nats.says("Server is ready")
        async with FleetConnection.open((fleet.url,), "admin") as connection:
            await make_streams(connection, 1, None)
        yield fleet
    finally:
        for each in fleet.processes:
            each.end()
        fleet.nats.end()


async def measure(stage: Stage, scale: Scale) -> Figure:
    rows: list[Row] = []
    async with _fleet(stage, "fleet") as fleet:
        worker = await fleet.worker("w1")
        both = (await fleet.served("alone", "alone"), await fleet.served("gateway", "g1"))
        samples: dict[tuple[str, str], dict[str, list[float]]] = {}
        for _ in range(scale(5, 1)):
            for one in both:
                found = await _flat_out(stage, fleet, worker, one, scale(20_000, 2_000))
                _keep(samples, "flat out", one, found)
                found = await _paced(stage, fleet, worker, one, 1, scale(4, 1))
                _keep(samples, f"1 stream × {RATE}/s", one, found)
        many = scale(_MANY, 20)
        notes: dict[tuple[str, str], str] = {}
        for _ in range(scale(3, 1)):
            for one in both:
                case = f"{many} streams × {RATE}/s"
                try:
                    _keep(samples, case, one, await _paced(stage, fleet, worker, one, many, scale(6, 2)))
                except Failed as error:
                    samples.setdefault((case, one.name), {})
                    notes[case, one.name] = f"not measured: {str(error)[:80]!r}"
        rows += [
            Row(case, who, {name: tuple(of) for name, of in values.items()}, notes.get((case, who), ""))
            for (case, who), values in samples.items()
        ]
        rows.append(await _cancelling(stage, fleet, both[1], scale(20, 3)))
    rows += await _moving(stage, scale)
    rows += [await _held(stage, count) for count in range(1, scale(3, 2) + 1)]
    figure = Figure("fleet", "A fleet, beside one process", _COLUMNS, tuple(rows))
    return Figure(figure.name, figure.title, figure.columns, figure.rows, _goals(figure, many))


def _goals(figure: Figure, many: int) -> tuple[Goal, ...]:
    def value(case: str, who: str, name: str) -> float | None:
        row = figure.row(case, who)
        return None if row is None else row.median(name)

    def added(case: str, name: str) -> float | None:
        one, other = value(case, _FLEET, name), value(case, OURS, name)
        return None if one is None or other is None else one - other

    def seconds(case: str) -> float | None:
        found = value(case, _FLEET, "ms")
        return None if found is None else found / 1e3

    streams = f"{many} streams × {RATE}/s"
    return (
        Goal("CPU that a fleet adds to a part, flat out", added("flat out", "cpu"), 15, unit="µs"),
        Goal("latency that a fleet adds to a part, p50", added(f"1 stream × {RATE}/s", "p50"), 1, unit="ms"),
        Goal(f"{streams}: parts that arrive", value(streams, _FLEET, "arrived"), 100, "at least", "%"),
        Goal(
            "a cancel reaches the worker in",
            value("a cancel reaches the worker", _FLEET, "ms"),
            100,
            unit="ms",
        ),
        Goal(
            "a conversation goes on elsewhere after kill -9",
            seconds("kill -9: an answer elsewhere"),
            25,
            unit="s",
        ),
        Goal("and after a clean exit", seconds("clean exit: an answer elsewhere"), 2, unit="s"),
    )


def _keep(
    samples: dict[tuple[str, str], dict[str, list[float]]], case: str, one: Running, found: dict[str, float]
) -> None:
    kept = samples.setdefault((case, one.name), {})
    for name, value in found.items():
        kept.setdefault(name, []).append(value)


class _Used:
    """CPU seconds of all that a way consists of, since it was made."""

    def __init__(self, fleet: _Fleet, worker: _Process, one: Running) -> None:
        self._ways: list[tuple[str, Callable[[], float]]] = [("gateway", lambda: tree_cpu_seconds(one.pid))]
        if one.name == _FLEET:
            self._ways.append(("worker", lambda: tree_cpu_seconds(worker.pid)))
            self._ways.append(("nats", lambda: cpu_seconds(fleet.nats.pid)))
        self._before: dict[str, float] = {}
        self.begin()

    def begin(self) -> None:
        self._before = {name: look() for name, look in self._ways}

    def per_part(self, parts: int) -> dict[str, float]:
        used = {name: (look() - self._before[name]) / parts * 1e6 for name, look in self._ways}
        cpu = used["gateway"] + used.get("worker", 0.0)
        return {"cpu": cpu, **(used if len(used) > 1 else {})}


async def _flat_out(
    stage: Stage, fleet: _Fleet, worker: _Process, one: Running, parts: int
) -> dict[str, float]:
    hello = f"{stage.new_words()} !say 1"
    await one.consumer.ask([("user", hello)])
    used = _Used(fleet, worker, one)
    heard = await one.consumer.ask([("user", hello), ("assistant", PART), ("user", f"!say {parts}")])
    if heard.parts != parts:
        raise Failed(f"{one.name} passed {heard.parts} of {parts} parts on")
    return used.per_part(parts)


async def _paced(
    stage: Stage, fleet: _Fleet, worker: _Process, one: Running, streams: int, seconds: int
) -> dict[str, float]:
    used = _Used(fleet, worker, one)
    lags, _ = await paced(stage, one, streams, seconds, used.begin)
    whole = streams * RATE * seconds
    counted = streams * (RATE * seconds - RATE * seconds // 3)
    return {
        **used.per_part(whole),
        "p50": percentile(lags, 0.5) * 1e3,
        "p99": percentile(lags, 0.99) * 1e3,
        "arrived": 100 * len(lags) / counted,
    }


async def _cancelling(stage: Stage, fleet: _Fleet, gateway: Running, times: int) -> Row:
    """From when a client hangs up until its worker has no stream. That is asked for all the time."""
    took = []
    async with FleetConnection.open((fleet.url,), "looks") as connection:
        for _ in range(times):
            asking = asyncio.create_task(
                gateway.consumer.ask([("user", f"{stage.new_words()} {_LONG_STREAM}")])
            )
            await fleet.until(connection, lambda found: found["w1"].streams == 1)
            asking.cancel()
            began = time.perf_counter()
            await fleet.until(connection, lambda found: found["w1"].streams == 0)
            took.append((time.perf_counter() - began) * 1e3)
    return Row("a cancel reaches the worker", _FLEET, {"ms": tuple(took)})


async def _moving(stage: Stage, scale: Scale) -> list[Row]:
    """A worker ends in the middle of an answer, or between two; the same conversation is asked again until it answers."""
    told, killed, drained, usual = [], [], [], []
    for number in range(scale(3, 1)):
        async with _fleet(stage, f"moving-{number}") as fleet:
            await fleet.worker("w1")
            await fleet.worker("w2")
            gateway = await fleet.served("gateway", "g1")
            hello = f"{stage.new_words()} !say 1"
            await gateway.consumer.ask([("user", hello)])
            history = [("user", hello), ("assistant", PART)]
            async with FleetConnection.open((fleet.url,), "looks") as connection:
                asking = asyncio.create_task(gateway.consumer.ask([*history, ("user", _LONG_STREAM)]))
                owner: list[str] = []

                def has_owner(found: dict[str, NodeStatus], owner: list[str] = owner) -> bool:
                    owner[:] = [name for name, status in found.items() if status.streams]
                    return bool(owner)

                await fleet.until(connection, has_owner)
            fleet.workers[owner[0]].end()
            began = time.perf_counter()
            with contextlib.suppress(Failed):
                await asking
            told.append((time.perf_counter() - began) * 1e3)
            await _answered(gateway, history)
            killed.append((time.perf_counter() - began) * 1e3)
            [left] = [name for name in fleet.workers if name != owner[0]]
            began = time.perf_counter()
            await _answered(gateway, history)
            usual.append((time.perf_counter() - began) * 1e3)
            await fleet.worker("w3")
            fleet.workers[left].end(signal.SIGTERM)
            began = time.perf_counter()
            await _answered(gateway, history)
            drained.append((time.perf_counter() - began) * 1e3)
    return [
        Row("kill -9: an error is shown", _FLEET, {"ms": tuple(told)}),
        Row("kill -9: an answer elsewhere", _FLEET, {"ms": tuple(killed)}),
        Row("clean exit: an answer elsewhere", _FLEET, {"ms": tuple(drained)}),
        Row("an answer where the conversation is", _FLEET, {"ms": tuple(usual)}),
    ]


async def _answered(gateway: Running, history: list[tuple[str, str]]) -> None:
    """Until there is an answer. A person would not ask so often. Raises `Failed`."""
    limit = time.perf_counter() + _START_SECONDS
    why = ""
    while time.perf_counter() < limit:
        try:
            heard = await gateway.consumer.ask([*history, ("user", "!say 1")])
        except (Failed, OSError) as error:
            why = str(error)
        else:
            if heard.parts == 1:
                return
            why = f"{heard.parts} parts instead of 1"
        await asyncio.sleep(0.1)
    raise Failed(f"no answer for {_START_SECONDS:g} s: {why[-300:]}")


async def _held(stage: Stage, workers: int) -> Row:
    """How many conversations a fleet takes before it is full."""
    async with _fleet(stage, f"held-{workers}") as fleet:
        for number in range(1, workers + 1):
            await fleet.worker(f"w{number}", _FEW_AGENTS)
        gateway = await fleet.served("gateway", "g1")
        going: list[asyncio.Task[object]] = []
        async with FleetConnection.open((fleet.url,), "looks") as connection:
            while True:
                words = f"{stage.new_words()} {_LONG_STREAM}"
                asking: asyncio.Task[object] = asyncio.create_task(gateway.consumer.ask([("user", words)]))
                count = len(going) + 1

                def is_taken(
                    found: dict[str, NodeStatus],
                    asking: asyncio.Task[object] = asking,
                    count: int = count,
                ) -> bool:
                    return asking.done() or sum(status.streams for status in found.values()) == count

                await fleet.until(connection, is_taken)
                if asking.done():
                    break
                going.append(asking)
        for task in going:
            task.cancel()
        await asyncio.gather(*going, asking, return_exceptions=True)
    case = f"{workers} worker{'s' if workers > 1 else ''} with {_FEW_AGENTS} agents each"
    return Row(case, _FLEET, {"count": (float(len(going)),)})


if __name__ == "__main__":
    alone(measure)
