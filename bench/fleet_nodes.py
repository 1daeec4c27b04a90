"""A fleet that is measured: servers of NATS, and nodes as they are started. All of it ends with the block."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.contestants import OURS, Running, free_port
from bench.load import Chat, Failed
from bench.processes import cpu_seconds, resident_bytes
from bench.stage import Stage
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.messages import STATUS_FORM, NodeStatus
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import STATUS

__all__ = ["FLEET", "BenchFleet", "NodeProcess", "fleet_of"]

FLEET = "gateway and worker"
_NATS = Path(sys.executable).parent / "nats-server"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.002


@dataclass
class NodeProcess:
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
class BenchFleet:
    """A NATS server, and nodes as they are started."""

    stage: Stage
    folder: Path
    urls: tuple[str, ...]
    # One process for each server.
    nats: list[NodeProcess]
    processes: list[NodeProcess] = field(default_factory=list)
    workers: dict[str, NodeProcess] = field(default_factory=dict)

    def start(self, role: str, name: str, agents: int = 10_000) -> NodeProcess:
        place = self.folder / name
        place.mkdir(exist_ok=True)
        command = json.dumps(self.stage.agents.command)
        model = f'[models.bench]\nkind = "acp"\ncommand = {command}\ncwd = {json.dumps(str(self.folder))}\n'
        (place / "dragoman.toml").write_text(
            f"{model if role != 'gateway' else ''}"
            f"{'' if role == 'alone' else f'[fleet]{chr(10)}url = {json.dumps(self.urls)}{chr(10)}name = {json.dumps(name)}{chr(10)}'}"
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
        started = NodeProcess(popen, place / "log", port)
        self.processes.append(started)
        return started

    async def worker(self, name: str, agents: int = 10_000) -> NodeProcess:
        self.workers[name] = started = self.start("worker", name, agents)
        await started.says("to the fleet at")
        async with FleetConnection.open(self.urls, "looks") as connection:
            await self.until(connection, lambda found: name in found)
        return started

    async def served(self, role: str, name: str) -> Running:
        started = self.start(role, name)
        await started.says("serving at http")
        return Running(OURS if role == "alone" else FLEET, "http", started.pid, Chat(started.port))

    @property
    def nats_cpu_seconds(self) -> float:
        """Of all servers."""
        return sum(cpu_seconds(each.pid) for each in self.nats)

    @property
    def nats_bytes(self) -> int:
        """The memory of all servers."""
        return sum(resident_bytes(each.pid) for each in self.nats)

    async def statuses(self, connection: FleetConnection) -> dict[str, NodeStatus]:
        count = sum(each.popen.poll() is None for each in self.workers.values())
        answered = itertools.count(1)
        answers = await connection.collect(STATUS, b"", 0.5, lambda _: next(answered) >= count)
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
async def fleet_of(stage: Stage, name: str, servers: int = 1) -> AsyncIterator[BenchFleet]:
    """A fleet without nodes. Several servers are a cluster, and every stream has a replica on each."""
    folder = stage.folder / name
    folder.mkdir()
    ports = [free_port() for _ in range(servers)]
    routes = [free_port() for _ in range(servers)]
    nats = []
    try:
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            file = folder / f"nats{number}.conf"
            others = ", ".join(f'"nats://127.0.0.1:{each}"' for each in routes if each != route)
            cluster = f"cluster {{ name: bench, listen: 127.0.0.1:{route}, routes: [{others}] }}\n"
            file.write_text(
                f"server_name: n{number}\nhost: 127.0.0.1\nport: {port}\n"
                f'jetstream {{ store_dir: "{folder}/nats{number}", sync_interval: always }}\n'
                f"{cluster if servers > 1 else ''}"
            )
            with (folder / f"nats{number}.log").open("wb") as log:
                popen = subprocess.Popen([_NATS, "-c", file], stdout=log, stderr=log)  # noqa: ASYNC220, S603 - our own, and a start does not block
            nats.append(NodeProcess(popen, folder / f"nats{number}.log", port))
        fleet = BenchFleet(stage, folder, tuple(f"nats://127.0.0.1:{port}" for port in ports), nats)
        for each in nats:
            await each.says("Server is ready")
        async with FleetConnection.open(fleet.urls, "admin") as connection:
            await _made(connection, servers)
        try:
            yield fleet
        finally:
            for each in fleet.processes:
                each.end()
    finally:
        for each in nats:
            each.end()


async def _made(connection: FleetConnection, servers: int) -> None:
    """Make the streams. A cluster that has just begun has no leader for some seconds."""
    async with asyncio.timeout(_START_SECONDS):
        while True:
            try:
                await make_streams(connection, servers, None)
            except (FleetUnavailable, NoAnswer):
                await asyncio.sleep(0.2)
            else:
                return
