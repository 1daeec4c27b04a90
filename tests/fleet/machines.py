"""A fleet in this process: a real NATS server, workers and gateways with connections of their own."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bridge.consumer import Chat
from dragoman.backends.remote.fleet import Fleet
from dragoman.config import AcpModel, Config, ModelConfig, ScriptModel
from dragoman.conversations.ids import KEY_BYTES
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.lease import LeaseTimes, NodeLease
from dragoman.fleet.streams import make_streams
from dragoman.frontends.worker.serving import WorkerLimits
from dragoman.frontends.worker.worker import OpenedModels, Worker
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.lm import JsonObject
from dragoman.models import Models
from fake_agent.steps import COMMAND
from nats_servers import nats_server

__all__ = [
    "DEADLINE_SECONDS",
    "QUICK",
    "Machines",
    "RunningWorker",
    "fake",
    "machines",
    "script",
    "soon",
    "until",
]

_T = TypeVar("_T")

# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
DEADLINE_SECONDS = 60.0
# For tests that wait for the end of a lease. Gateways ping every two seconds, so the fence is later than two pings.
QUICK = LeaseTimes(lease=8, renew=1.0, fence=6.0)
_USUAL = LeaseTimes()


async def soon(work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, DEADLINE_SECONDS)


def script(folder: Path, *replies: JsonObject) -> ScriptModel:
    """A model that follows a script. Each reply is a line of its file."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{secrets.token_hex(4)}.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in replies))
    return ScriptModel(path=path)


def fake(folder: Path, **options: object) -> AcpModel:
    """The fake agent, with its notes in this folder."""
    folder.mkdir(exist_ok=True, parents=True)
    arguments = json.dumps({"folder": str(folder), **options})
    return AcpModel(command=(*COMMAND, arguments), cwd=folder)


@dataclass
class RunningWorker:
    name: str
    worker: Worker[NodeLease]
    task: asyncio.Task[None]
    connection: FleetConnection
    # Those of the life that is under way.
    models: Models

    @property
    def streams(self) -> int:
        assert self.worker.serving is not None
        return len(self.worker.serving._streams)

    @property
    def served_requests(self) -> int:
        """How many requests it has accepted in this life."""
        assert self.worker.serving is not None
        return self.worker.serving.accepted

    async def drained(self) -> None:
        self.worker.drain()
        await soon(self.task)


@dataclass
class Machines:
    url: str
    folder: Path
    stack: AsyncExitStack
    # That of all workers.
    key: bytes = b"k" * KEY_BYTES

    async def connection(self, name: str) -> FleetConnection:
        return await self.stack.enter_async_context(FleetConnection.open((self.url,), name))

    async def gateway(
        self,
        name: str = "gate",
        wrapped: Callable[[FleetConnection], FleetConnection] = lambda each: each,
        *,
        has_store: bool = True,
    ) -> Models:
        """The models of a gateway: those that workers offer. Without a store it needs no lease."""
        connection = wrapped(await self.connection(name))
        store = None
        if has_store:
            lease = await self.stack.enter_async_context(NodeLease.held(connection, name, "gateway"))
            store = JetStreamJournals(connection, lease)
        fleet = Fleet.on(connection, name, store)
        self.stack.push_async_callback(fleet.close)
        models = Models(Config(models={}), fleet=fleet)
        self.stack.push_async_callback(models.close)
        await fleet.workers.refresh()
        return models

    async def worker(
        self,
        name: str,
        limits: WorkerLimits | None = None,
        times: LeaseTimes = _USUAL,
        wrapped: Callable[[FleetConnection], FleetConnection] = lambda each: each,
        drain_seconds: float = DEADLINE_SECONDS,
        shared: Path | None = None,
        **models: ModelConfig,
    ) -> RunningWorker:
        connection = wrapped(await self.connection(name))
        config = Config(models=models)
        made: asyncio.Queue[Models] = asyncio.Queue()

        async def opened(lease: NodeLease) -> OpenedModels:
            store = JetStreamJournals(connection, lease, shared=shared)
            each = Models(config, store=store, key=self.key)
            made.put_nowait(each)
            return OpenedModels(each, store)

        worker = Worker(
            connection,
            lambda: NodeLease.held(connection, name, "worker", times=times),
            opened,
            limits,
            drain_seconds,
        )
        task = asyncio.create_task(worker.run())
        running = RunningWorker(name, worker, task, connection, await soon(made.get()))
        self.stack.push_async_callback(self._end, running)
        await soon(until(lambda: worker.serving is not None and worker.serving.has_started))
        return running

    async def _end(self, running: RunningWorker) -> None:
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)

    def chat(self, models: Models, model: str, folder: Path | None = None) -> Chat:
        return Chat(models.get(model), folder or self.folder)


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():  # noqa: ASYNC110 - a state tells nobody
        await asyncio.sleep(0.01)


@asynccontextmanager
async def machines(folder: Path) -> AsyncIterator[Machines]:
    async with nats_server(folder) as url, AsyncExitStack() as stack:
        room = Machines(url, folder, stack)
        await make_streams(await room.connection("admin"), 1, None)
        yield room
