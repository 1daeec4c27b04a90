"""What a fleet adds to one process: CPU and latency of a part, many streams, and how long it takes to move a conversation.

    python -m bench.fleet [--quick]

A gateway, workers and NATS on this machine, beside a server on its own with the same agents. A part that is sent
flat out shares its message with others; at 50 parts a second each has a message of its own, and that costs more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx2

from bench.agents import PART
from bench.contestants import OURS, Running
from bench.figures import Column, Figure, Goal, Row, percentile
from bench.fleet_nodes import FLEET, BenchFleet, NodeProcess, fleet_of
from bench.latency import RATE, paced
from bench.load import Failed
from bench.processes import tree_cpu_seconds
from bench.stage import Scale, Stage, alone
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.messages import NodeStatus
from dragoman.fleet.subjects import JOURNALS

__all__ = ["MANY", "measure", "streams_case"]

_START_SECONDS = 60.0
MANY = 200
_LEADER_DIES = "the leader of NATS is killed"
_LEADER_STREAMS = 20
_GATEWAY_DIES = "kill -9 of a gateway: its background response goes on elsewhere"
# Of a worker, where it is counted how many conversations several have.
_FEW_AGENTS = 4
_WORKER_DIES = "kill -9: the result of a call is answered, as the same conversation"
_DELTA = "response.output_text.delta"
_LONG_STREAM = f"!pace {RATE} {RATE * 600}"
_COLUMNS = (
    Column("cpu", "CPU µs/part"),
    Column("gateway", "of it the gateway's"),
    Column("worker", "the worker's"),
    Column("nats", "beside it NATS's"),
    Column("p50", "p50 ms", 2),
    Column("p99", "p99 ms", 2),
    Column("arrived", "parts arrived, %", 1),
    Column("slowest", "parts/s, slowest stream", 1),
    Column("ms", "ms", 1),
    Column("count", "conversations", 0),
)


async def measure(stage: Stage, scale: Scale) -> Figure:
    rows: list[Row] = []
    async with fleet_of(stage, "fleet") as fleet:
        worker = await fleet.worker("w1")
        both = (await fleet.served("alone", "alone"), await fleet.served("gateway", "g1"))
        samples: dict[tuple[str, str], dict[str, list[float]]] = {}
        for _ in range(scale(5, 1)):
            for one in both:
                found = await _flat_out(stage, fleet, worker, one, scale(20_000, 2_000))
                _keep(samples, "flat out", one, found)
                found = await _paced(stage, fleet, worker, one, 1, scale(4, 1))
                _keep(samples, streams_case(1), one, found)
        many = scale(MANY, 20)
        notes: dict[tuple[str, str], str] = {}
        for _ in range(scale(3, 1)):
            for one in both:
                case = streams_case(many)
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
    rows.append(await _leader_dies(stage, scale))
    rows += await _moving(stage, scale)
    rows.append(await _taken_over(stage, scale))
    rows += [await _held(stage, count) for count in range(1, scale(3, 2) + 1)]
    figure = Figure("fleet", "A fleet, beside one process", _COLUMNS, tuple(rows))
    return Figure(figure.name, figure.title, figure.columns, figure.rows, _goals(figure, many))


def streams_case(count: int) -> str:
    return f"{count} stream{'s' if count > 1 else ''} × {RATE}/s"


def _goals(figure: Figure, many: int) -> tuple[Goal, ...]:
    def value(case: str, who: str, name: str) -> float | None:
        row = figure.row(case, who)
        return None if row is None else row.median(name)

    def added(case: str, name: str) -> float | None:
        one, other = value(case, FLEET, name), value(case, OURS, name)
        return None if one is None or other is None else one - other

    def seconds(case: str) -> float | None:
        found = value(case, FLEET, "ms")
        return None if found is None else found / 1e3

    streams = streams_case(many)
    return (
        Goal("CPU that a fleet adds to a part, flat out", added("flat out", "cpu"), 15, unit="µs"),
        Goal("latency that a fleet adds to a part, p50", added(streams_case(1), "p50"), 1, unit="ms"),
        Goal(f"{streams}: parts that arrive", value(streams, FLEET, "arrived"), 100, "at least", "%"),
        # Agents, generator and NATS share the machine's cores with both: so it is compared.
        Goal(
            f"{streams}: parts a second of the slowest stream, of those through one process",
            figure.ratio("slowest", streams, FLEET, OURS),
            0.95,
            "at least",
        ),
        Goal(
            "a cancel reaches the worker in",
            value("a cancel reaches the worker", FLEET, "ms"),
            100,
            unit="ms",
        ),
        Goal(
            "a conversation goes on elsewhere after kill -9",
            seconds(_WORKER_DIES),
            20,
            unit="s",
        ),
        Goal("and after a clean exit", seconds("clean exit: an answer elsewhere"), 1, unit="s"),
        Goal(_GATEWAY_DIES, seconds(_GATEWAY_DIES), 30, unit="s"),
        Goal(
            f"{_LEADER_DIES}: parts that arrive", value(_LEADER_DIES, FLEET, "arrived"), 100, "at least", "%"
        ),
    )


def _keep(
    samples: dict[tuple[str, str], dict[str, list[float]]], case: str, one: Running, found: dict[str, float]
) -> None:
    kept = samples.setdefault((case, one.name), {})
    for name, value in found.items():
        kept.setdefault(name, []).append(value)


class _Used:
    """CPU seconds of all that a way consists of, since it was made."""

    def __init__(self, fleet: BenchFleet, worker: NodeProcess, one: Running) -> None:
        self._ways: list[tuple[str, Callable[[], float]]] = [("gateway", lambda: tree_cpu_seconds(one.pid))]
        if one.name == FLEET:
            self._ways.append(("worker", lambda: tree_cpu_seconds(worker.pid)))
            self._ways.append(("nats", lambda: fleet.nats_cpu_seconds))
        self._before: dict[str, float] = {}
        self.begin()

    def begin(self) -> None:
        self._before = {name: look() for name, look in self._ways}

    def per_part(self, parts: int) -> dict[str, float]:
        used = {name: (look() - self._before[name]) / parts * 1e6 for name, look in self._ways}
        cpu = used["gateway"] + used.get("worker", 0.0)
        return {"cpu": cpu, **(used if len(used) > 1 else {})}


async def _flat_out(
    stage: Stage, fleet: BenchFleet, worker: NodeProcess, one: Running, parts: int
) -> dict[str, float]:
    hello = f"{stage.new_words()} !say 1"
    await one.consumer.ask([("user", hello)])
    used = _Used(fleet, worker, one)
    heard = await one.consumer.ask([("user", hello), ("assistant", PART), ("user", f"!say {parts}")])
    if heard.parts != parts:
        raise Failed(f"{one.name} passed {heard.parts} of {parts} parts on")
    return used.per_part(parts)


async def _paced(
    stage: Stage, fleet: BenchFleet, worker: NodeProcess, one: Running, streams: int, seconds: int
) -> dict[str, float]:
    used = _Used(fleet, worker, one)
    lags, _, slowest = await paced(stage, one, streams, seconds, used.begin)
    whole = streams * RATE * seconds
    counted = streams * (RATE * seconds - RATE * seconds // 3)
    return {
        **used.per_part(whole),
        "p50": percentile(lags, 0.5) * 1e3,
        "p99": percentile(lags, 0.99) * 1e3,
        "arrived": 100 * len(lags) / counted,
        "slowest": slowest,
    }


async def _cancelling(stage: Stage, fleet: BenchFleet, gateway: Running, times: int) -> Row:
    """From when a client hangs up until its worker has no stream. That is asked for all the time."""
    took = []
    async with FleetConnection.open(fleet.urls, "looks") as connection:
        for _ in range(times):
            asking = asyncio.create_task(
                gateway.consumer.ask([("user", f"{stage.new_words()} {_LONG_STREAM}")])
            )
            await fleet.until(connection, lambda found: found["w1"].streams == 1)
            asking.cancel()
            began = time.perf_counter()
            await fleet.until(connection, lambda found: found["w1"].streams == 0)
            took.append((time.perf_counter() - began) * 1e3)
    return Row("a cancel reaches the worker", FLEET, {"ms": tuple(took)})


async def _leader_dies(stage: Stage, scale: Scale) -> Row:
    """The server that leads the journals is killed while answers stream. `ms`: the latest part."""
    seconds = scale(12, 4)
    async with fleet_of(stage, "leader", servers=3) as fleet:
        worker = await fleet.worker("w1")
        gateway = await fleet.served("gateway", "g1")
        async with FleetConnection.open(fleet.urls, "looks") as connection:
            cluster = (await connection.js.stream_info(JOURNALS)).cluster
        if cluster is None or cluster.leader is None:
            raise Failed("the journals have no leader")
        leader = fleet.nats[int(cluster.leader.removeprefix("n"))]
        begun: list[asyncio.Task[None]] = []

        async def kill() -> None:
            # After the first third, which is not counted.
            await asyncio.sleep(seconds * 0.4)
            leader.end()

        lags, _, slowest = await paced(
            stage,
            gateway,
            _LEADER_STREAMS,
            seconds,
            lambda: begun.append(asyncio.create_task(kill())),
        )
        await asyncio.gather(*begun)
        if worker.popen.poll() is not None:
            raise Failed("the worker has ended")
    counted = _LEADER_STREAMS * (RATE * seconds - RATE * seconds // 3)
    return Row(
        _LEADER_DIES,
        FLEET,
        {
            "p50": (percentile(lags, 0.5) * 1e3,),
            "p99": (percentile(lags, 0.99) * 1e3,),
            "arrived": (100 * len(lags) / counted,),
            "slowest": (slowest,),
            "ms": (max(lags) * 1e3,),
        },
    )


async def _moving(stage: Stage, scale: Scale) -> list[Row]:
    """A worker is killed in the middle of an answer, and while a client runs a tool. Another one ends between two answers.

    After the error, the same request again is another conversation, with the transcript: nobody has to give that up. The
    result of a call is for the conversation that made it, so it waits until the lease of the dead worker has ended.
    """
    told, repeated, killed, drained, usual = [], [], [], [], []
    for number in range(scale(3, 1)):
        async with fleet_of(stage, f"moving-{number}") as fleet:
            await fleet.worker("w1")
            gateway = await fleet.served("gateway", "g1")
            address = f"http://127.0.0.1:{fleet.processes[-1].port}"
            async with httpx2.AsyncClient(base_url=address, timeout=_START_SECONDS) as client:
                called = await _called(client, stage.new_words())
                cut = _CutAnswer(client, await _continued(gateway, [], stage.new_words()))
                await fleet.worker("w2")
                await asyncio.wait(
                    {cut.task, asyncio.create_task(cut.has_begun.wait())},
                    return_when=asyncio.FIRST_COMPLETED,
                )
                fleet.workers["w1"].end()
                began = time.perf_counter()

                async def again() -> float:
                    request = await cut.task  # noqa: B023 - it is awaited in this round
                    told.append((time.perf_counter() - began) * 1e3)  # noqa: B023
                    await _first_part(client, request)
                    return time.perf_counter() - began  # noqa: B023

                async def given() -> float:
                    await _given(client, called)  # noqa: B023
                    return time.perf_counter() - began  # noqa: B023

                first, second = await asyncio.gather(again(), given())
                repeated.append(first * 1e3)
                killed.append(second * 1e3)
            history = await _continued(gateway, [], stage.new_words())
            began = time.perf_counter()
            history = await _continued(gateway, history)
            usual.append((time.perf_counter() - began) * 1e3)
            await fleet.worker("w3")
            fleet.workers["w2"].end(signal.SIGTERM)
            began = time.perf_counter()
            await _continued(gateway, history)
            drained.append((time.perf_counter() - began) * 1e3)
    return [
        Row("kill -9: an error is shown", FLEET, {"ms": tuple(told)}),
        Row(
            "kill -9: the same request again, answered as another conversation",
            FLEET,
            {"ms": tuple(repeated)},
        ),
        Row(_WORKER_DIES, FLEET, {"ms": tuple(killed)}),
        Row("clean exit: an answer elsewhere", FLEET, {"ms": tuple(drained)}),
        Row("an answer where the conversation is", FLEET, {"ms": tuple(usual)}),
    ]


async def _called(client: httpx2.AsyncClient, words: str) -> dict[str, Any]:
    """A request after which the agent waits for the result of a call: with the call, and the result."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    said = {"role": "user", "content": f"{words} !call 1"}
    body: dict[str, Any] = {"model": "bench", "messages": [said], "tools": [tool]}
    answered = (await client.post("/v1/chat/completions", json=body)).raise_for_status()
    message = answered.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "seen"}
    return {**body, "messages": [said, message, result]}


async def _given(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    """Give the result of a call until there is an answer, of the conversation that made it. Raises `Failed`."""
    limit = time.perf_counter() + _START_SECONDS
    own = body["messages"][1]["tool_calls"][0]["id"].split("_")[1]
    while True:
        answered = await client.post("/v1/chat/completions", json=body)
        if not answered.is_error:
            break
        if time.perf_counter() >= limit:
            raise Failed(answered.text)
        await asyncio.sleep(0.1)
    if not (said := answered.headers["x-dragoman-conversation"]).startswith(f"{own};"):
        raise Failed(f"a result for {own} went to {said}")


class _CutAnswer:
    """A long answer that ends with an error. The task returns its request."""

    def __init__(self, client: httpx2.AsyncClient, history: list[tuple[str, str]]) -> None:
        self.has_begun = asyncio.Event()
        self.task = asyncio.create_task(self._read(client, [*history, ("user", _LONG_STREAM)]))

    async def _read(
        self, client: httpx2.AsyncClient, request: list[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        try:
            async for _ in _parts(client, request):
                self.has_begun.set()
        except Failed:
            return request
        raise Failed("an answer that was cut off ended well")


async def _parts(client: httpx2.AsyncClient, messages: list[tuple[str, str]]) -> AsyncGenerator[str, None]:
    """The parts of a chat completion. Raises `Failed`."""
    said = [{"role": role, "content": text} for role, text in messages]
    body = {"model": "bench", "stream": True, "messages": said}
    async with client.stream("POST", "/v1/chat/completions", json=body) as answered:
        if answered.is_error:
            raise Failed((await answered.aread()).decode())
        async for line in answered.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise Failed(event["error"]["message"])
                for choice in event["choices"]:
                    if text := choice["delta"].get("content"):
                        yield text


async def _first_part(client: httpx2.AsyncClient, messages: list[tuple[str, str]]) -> None:
    """Ask until the first part of an answer has come, and hang up. Raises `Failed`."""
    limit = time.perf_counter() + _START_SECONDS
    while True:
        try:
            async with contextlib.aclosing(_parts(client, messages)) as parts:
                async for _ in parts:
                    return
        except Failed:
            if time.perf_counter() >= limit:
                raise
        await asyncio.sleep(0.1)


async def _taken_over(stage: Stage, scale: Scale) -> Row:
    """A gateway is killed while it runs a background response. `ms`: until another gateway has the next part."""
    samples = []
    for number in range(scale(3, 1)):
        async with fleet_of(stage, f"taken-over-{number}") as fleet:
            await fleet.worker("w1")
            for name in ("g1", "g2"):
                await fleet.served("gateway", name)
            killed, other = fleet.processes[-2:]
            body = {
                "model": "bench",
                "input": f"{stage.new_words()} {_LONG_STREAM}",
                "background": True,
                "stream": True,
            }
            async with httpx2.AsyncClient(timeout=_START_SECONDS) as client:
                base = f"http://127.0.0.1:{killed.port}/v1/responses"
                async with client.stream("POST", base, json=body) as answered:
                    lines = answered.aiter_lines()
                    begun = await _event(lines, "response.created")
                    heard = await _event(lines, _DELTA)
                    killed.end()
                    began = time.perf_counter()
                path = f"http://127.0.0.1:{other.port}/v1/responses/{begun['response']['id']}"
                query = {"stream": "true", "starting_after": str(heard["sequence_number"] + RATE)}
                async with client.stream("GET", path, params=query) as answered:
                    await _event(answered.aiter_lines(), _DELTA)
                samples.append((time.perf_counter() - began) * 1e3)
                (await client.post(f"{path}/cancel")).raise_for_status()
    return Row(_GATEWAY_DIES, FLEET, {"ms": tuple(samples)})


async def _event(lines: AsyncIterator[str], kind: str) -> dict[str, Any]:
    """The next event of this kind in a stream of a response."""
    async for line in lines:
        if line.startswith("data: {"):
            event: dict[str, Any] = json.loads(line.removeprefix("data: "))
            if event["type"] == kind:
                return event
    raise Failed(f"the stream ended before {kind}")


async def _continued(
    gateway: Running, history: list[tuple[str, str]], words: str = ""
) -> list[tuple[str, str]]:
    """Ask until there is an answer, and return the history with it. Raises `Failed`."""
    request = [*history, ("user", f"{words} !say 1")]
    limit = time.perf_counter() + _START_SECONDS
    why = ""
    while time.perf_counter() < limit:
        try:
            heard = await gateway.consumer.ask(request)
        except (Failed, OSError) as error:
            why = str(error)
        else:
            if heard.parts == 1:
                return [*request, ("assistant", PART)]
            why = f"{heard.parts} parts instead of 1"
        await asyncio.sleep(0.1)
    raise Failed(f"no answer for {_START_SECONDS:g} s: {why[-300:]}")


async def _held(stage: Stage, workers: int) -> Row:
    """How many conversations a fleet takes before it is full."""
    async with fleet_of(stage, f"held-{workers}") as fleet:
        for number in range(1, workers + 1):
            await fleet.worker(f"w{number}", _FEW_AGENTS)
        gateway = await fleet.served("gateway", "g1")
        going: list[asyncio.Task[object]] = []
        async with FleetConnection.open(fleet.urls, "looks") as connection:
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
    return Row(case, FLEET, {"count": (float(len(going)),)})


if __name__ == "__main__":
    alone(measure)
