"""What a run happens in: a cluster of NATS, `dragoman worker` and `dragoman serve` processes, and all that they may leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nats.js.api import StreamConfig, StreamSource

from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.credentials import FleetRole
from dragoman.fleet.joining import joined
from dragoman.fleet.subjects import JOURNALS, LEASES
from faults.http_editor import HttpEditor
from faults.world import MARK, complaints_in, marked, until
from fleet_faults.cluster import NatsCluster, NatsServer
from fleet_faults.proxy import Proxy
from nats_servers import free_port

__all__ = ["LEASE_HISTORY", "FleetNode", "FleetWorld"]

_TESTS = Path(__file__).parents[1]
# Longer than a lease, an election and a start on a busy machine. Only a run that fails reaches it.
PATIENCE_SECONDS = 120.0
LEASE_HISTORY = "LEASE_HISTORY"
_MOST_STARTS = 5
_READY = {"worker": "to the fleet at", "gateway": "serving at http"}
# What a node may say when it is fenced, or NATS is gone: these are the faults.
_TOLERATED = (
    "lease",
    "cannot be reached",
    "could not be stored",
    "store cannot be used",
    "no connection to NATS",
    "Fleet",
    "NATS",
)


@dataclass
class FleetNode:
    """A worker or a gateway: a process that can be started again."""

    name: str
    role: Literal["worker", "gateway"]
    folder: Path
    ways: list[Proxy]
    environment: dict[str, str]
    # Where a gateway listens.
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    # How often it was started; whether it was told to end, or killed, and is not back yet.
    lives: int = 0
    is_spoilt: bool = False

    @property
    def stderr(self) -> str:
        file = self.folder / "stderr"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What the agents of a worker noted, in order."""
        file = self.folder / "agents" / "journal"
        # The last line may be half written.
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    async def start(self) -> None:
        """As systemd does it: once more, if NATS has no leader just then."""
        for _ in range(_MOST_STARTS):
            if await self._started():
                self.is_spoilt = False
                return
        raise AssertionError(f"{self.name} does not start: {self.stderr[-500:]}")

    async def _started(self) -> bool:
        said = len(self.stderr)
        command = "worker" if self.role == "worker" else "serve"
        more = [] if self.role == "worker" else ["--port", str(self.port)]
        options = ["--config", str(self.folder / "dragoman.toml"), "--state-dir", str(self.folder / "state")]
        with (self.folder / "stderr").open("ab") as stderr:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - it takes a millisecond
                [sys.executable, "-m", "dragoman", command, *more, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
        self.lives += 1
        process = self.process
        await until(
            lambda: _READY[self.role] in self.stderr[said:] or process.poll() is not None,
            f"{self.name} does not start: {self.stderr[said:][-500:]}",
            PATIENCE_SECONDS,
        )
        return process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self, seconds: float = PATIENCE_SECONDS) -> int:
        process = self.process
        assert process is not None
        await until(lambda: process.poll() is not None, f"{self.name} does not end", seconds)
        assert process.returncode is not None
        return process.returncode

    def cut(self) -> None:
        for way in self.ways:
            way.cut()

    def heal(self) -> None:
        for way in self.ways:
            way.heal()


class FleetWorld:
    def __init__(self, folder: Path, lease_seconds: int, workers: int = 3, gateways: int = 2) -> None:
        self.folder = folder
        self.lease_seconds = lease_seconds
        self.cluster = NatsCluster(folder / "nats")
        self._sizes = workers, gateways
        self._mark = uuid.uuid4().hex
        self._editors: dict[tuple[str, bool], HttpEditor] = {}
        self.workers: list[FleetNode] = []
        self.gateways: list[FleetNode] = []

    @property
    def nodes(self) -> list[FleetNode]:
        return [*self.workers, *self.gateways]

    async def start(self) -> None:
        await self.cluster.start()
        # What leases were: the stream itself has the last message of each only.
        history = StreamConfig(
            name=LEASE_HISTORY, mirror=StreamSource(name=LEASES), num_replicas=3, allow_direct=True
        )
        await self.cluster.prepare(history)
        workers, gateways = self._sizes
        self.workers = [await self._node("worker", f"w{number}") for number in range(1, workers + 1)]
        self.gateways = [await self._node("gateway", f"g{number}") for number in range(1, gateways + 1)]
        await asyncio.gather(*(node.start() for node in self.workers))
        await asyncio.gather(*(node.start() for node in self.gateways))

    async def _node(self, role: Literal["worker", "gateway"], name: str) -> FleetNode:
        folder = self.folder / name
        (folder / "agents").mkdir(parents=True)
        (folder / "state").mkdir(mode=0o700)
        (folder / "tmp").mkdir()
        ways = await self.cluster.ways()
        # Each begins with another server.
        number = int(name[1:])
        ports = [way.port for way in (*ways[number % len(ways) :], *ways[: number % len(ways)])]
        fleet = self.cluster.config(role, name, ports)
        arguments = json.dumps({"folder": str(folder / "agents")})
        command = [sys.executable, "-m", "fake_agent.faulty", arguments]
        # A conversation belongs to its folder, so all workers have the same.
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        models = (
            f'[models.fake]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps(command)}\n'
            f"cwd = {json.dumps(str(project))}\n"
        )
        (folder / "dragoman.toml").write_text(
            f"{models if role == 'worker' else ''}"
            f'[fleet]\nurl = {json.dumps(fleet.urls)}\nname = "{name}"\n'
            f"{'' if fleet.credentials is None else f'credentials = {json.dumps(str(fleet.credentials))}'}\n"
            "[conversation]\ncancel_grace_seconds = 0.5\n"
        )
        environment = {
            **os.environ,
            MARK: self._mark,
            "PYTHONPATH": f"{_TESTS}{os.pathsep}{_TESTS / 'faults' / 'inside'}",
            "FAULTS_LEASE": str(self.lease_seconds),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
        }
        return FleetNode(name, role, folder, ways, environment)

    @asynccontextmanager
    async def connection(self, role: FleetRole, name: str) -> AsyncIterator[FleetConnection]:
        """One of the test's own, which no fault cuts."""
        async with joined(self.cluster.config(role, name), name) as connection:
            yield connection

    async def leader(self) -> NatsServer:
        """The leader of the journals' stream."""
        async with self.connection("admin", "admin") as connection:
            while True:
                info = await connection.js.stream_info(JOURNALS)
                if info.cluster is not None and info.cluster.leader:
                    return self.cluster.named(info.cluster.leader)
                await asyncio.sleep(0.1)

    def editor(self, gateway: FleetNode, *, is_background: bool = False) -> HttpEditor:
        """A client of a gateway. With `is_background`, it reads on at another one if this one ends."""
        key = gateway.name, is_background
        if key not in self._editors:
            others = tuple(each.port for each in self.gateways if each is not gateway)
            self._editors[key] = HttpEditor(
                gateway.port, PATIENCE_SECONDS, stores=True, others=others if is_background else ()
            )
        return self._editors[key]

    def notes(self) -> list[dict[str, Any]]:
        return [note for worker in self.workers for note in worker.notes]

    def remaining(self) -> list[int]:
        return marked(self._mark)

    def complaints(self) -> list[str]:
        return [line for editor in self._editors.values() for line in editor.broken] + [
            f"{node.name}: {line[:300]}"
            for node in self.nodes
            for line in complaints_in(node.stderr, _TOLERATED)
        ]

    async def close(self) -> None:
        """Nothing of this is left, whatever became of the run."""
        for node in self.nodes:
            if node.is_up:
                node.signal(signal.SIGCONT)
                node.signal(signal.SIGKILL)
                assert node.process is not None
                node.process.wait()
        for editor in self._editors.values():
            await editor.hang_up()
        for pid in self.remaining():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        await self.cluster.close()
