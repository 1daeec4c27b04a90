"""The bridge of these tests on a worker: requests go to it through a gateway's model and a real NATS server.

The tests see the worker's own model and conversations. What a person decides, they decide at the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from bridge.consumer import Bridge, Chat
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.remote.fleet import Fleet
from dragoman.backends.remote.model import RemoteModel
from dragoman.config import Config
from dragoman.fleet.connection import FleetConnection
from dragoman.frontends.worker.serving import ServingWorker, WorkerLimits
from dragoman.lm import (
    CancellationToken,
    GuardedModel,
    LanguageModelError,
    ModelInfo,
    Request,
    Sink,
)
from dragoman.lm.offering import OfferingModel
from dragoman.models import Conversing, LiveConversation, Models
from dragoman.permissions.pipeline import PermissionServices
from nats_servers import nats_server

__all__ = ["gateway_bridge"]

_MODEL = "fake"
_VALID_SECONDS = 16.0


class _Lease:
    """One that lives as long as the test."""

    node = "worker"
    incarnation = "the-only-one"
    renewal_seconds = 0.0

    def __init__(self) -> None:
        self.fenced = asyncio.Event()

    def seconds_left(self) -> float:
        return _VALID_SECONDS


class _WorkersModels(Models):
    """The model that a test has made."""

    def __init__(self, model: GuardedModel, permissions: PermissionServices) -> None:
        super().__init__(Config(models={}), permissions=permissions)
        self._model = model

    def get(self, model_id: str) -> GuardedModel:
        return self._model

    @property
    def _agent(self) -> AgentModel:
        assert isinstance(self._model._model, AgentModel)
        return self._model._model

    def conversations(self) -> tuple[LiveConversation, ...]:
        return tuple(self._agent.conversations())

    def conversing(self, model_id: str) -> Conversing:
        return self._agent

    def offering(self, model_id: str) -> OfferingModel:
        return self._agent

    def infos(self) -> tuple[ModelInfo, ...]:
        return (self._model.info,)


class _ThroughGateway(RemoteModel):
    """A model whose first request starts the worker."""

    def __init__(self, bridge: _GatewayBridge) -> None:
        super().__init__(bridge.fleet, _MODEL, permissions=bridge.at_gateway)
        self._bridge = bridge

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        await self._bridge.serve()
        await super().respond(request, sink, token)


class _GatewayBridge(Bridge):
    def __init__(self, folder: Path, gateway: FleetConnection, worker: FleetConnection) -> None:
        super().__init__(folder)
        self.fleet = Fleet.on(gateway, "gateway")
        self.at_gateway = PermissionServices()
        self.grants = self.at_gateway.grants
        self._worker = worker
        self._serving: ServingWorker | None = None
        self._starting = asyncio.Lock()
        self._remote: GuardedModel | None = None

    def chat(self, **options: Any) -> Chat:
        chat = super().chat(**options)
        if self._remote is None:
            self._remote = GuardedModel(_ThroughGateway(self))
        chat.model = self._remote
        return chat

    async def serve(self) -> None:
        async with self._starting:
            if self._serving is None:
                assert self.model is not None
                models = _WorkersModels(self.model, self.permissions)
                self._serving = ServingWorker(self._worker, _Lease(), models, None, WorkerLimits())
                await self._serving.start()
                await self.fleet.refresh()

    async def close(self) -> None:
        if self._serving is not None:
            await self._serving.stop(LanguageModelError("unavailable", "The test is over."))
        await self.fleet.close()
        await super().close()


@asynccontextmanager
async def gateway_bridge(folder: Path, server_folder: Path) -> AsyncIterator[Bridge]:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats_server(server_folder))
        gateway = await stack.enter_async_context(FleetConnection.open((url,), "gateway"))
        worker = await stack.enter_async_context(FleetConnection.open((url,), "worker"))
        bridge = _GatewayBridge(folder, gateway, worker)
        try:
            yield bridge
        finally:
            await bridge.close()
