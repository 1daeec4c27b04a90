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

__all__ = ["NOT_THROUGH_GATEWAY", "gateway_bridge"]

# A gateway does not learn that an agent has withdrawn its request. It sends the yes, and the worker refuses it.
_COPY = "the gateway has a copy of a request that was withdrawn; the worker refuses what is decided about it"
_CLOSED = (
    "the test closes the worker's model, or makes another: then no worker is there, and the gateway says that"
)
_INSIDE = "the test looks into the model that it asks, which is the gateway's"
_ORDER = "requests that begin together arrive in any order, and the test expects that of their beginning"
_LATER = "the cancel is a message: the decision, which is on its way in the worker's process, is stored before it comes"
# Tests that show something else here, and why.
NOT_THROUGH_GATEWAY = {
    "test_f7_crash_while_a_permission_is_awaited_the_approval_is_never_used": _COPY,
    "test_p27_c5_a_write_that_waits_ends_with_its_turn": _COPY,
    "test_p4_a_new_message_cancels_the_turn_in_acps_order_and_waits_for_its_stop": _COPY,
    "test_p22_silence_until_the_deadline_ends_the_turn_as_timed_out": _COPY,
    "test_p24_a_request_that_the_agent_withdraws_cannot_be_granted[before]": _COPY,
    "test_p24_a_request_that_the_agent_withdraws_cannot_be_granted[after]": _COPY,
    "test_c1_c2_c3_c4_c5_c6_i6_stopped_again_and_again_the_agent_is_told_once_and_the_last_prompt_is_answered[C5 awaiting a permission]": _COPY,
    "test_h7_h21_what_a_session_was_told_before_a_restart_is_replaced": _CLOSED,
    "test_i7_closing_while_an_agent_starts_does_not_wait_for_it": _CLOSED,
    "test_i1_i7_closing_in_every_state_settles_what_is_open_and_leaves_no_process[C1 starting]": _CLOSED,
    "test_i1_i7_closing_in_every_state_settles_what_is_open_and_leaves_no_process[C2 silent]": _CLOSED,
    "test_i1_i7_closing_in_every_state_settles_what_is_open_and_leaves_no_process[C2 held for its tools]": _CLOSED,
    "test_i1_i7_closing_in_every_state_settles_what_is_open_and_leaves_no_process[C6 gathering]": _CLOSED,
    "test_h21_another_process_takes_the_conversation_up_with_or_without_content[full]": _CLOSED,
    "test_h21_another_process_takes_the_conversation_up_with_or_without_content[metadata]": _CLOSED,
    "test_a_request_behind_the_end_is_told_so": _CLOSED,
    "test_a_login_has_a_limit": _INSIDE,
    "test_b4_after_a_burst_agents_beyond_the_limit_are_parked_as_they_become_idle": _ORDER,
    "test_w4_a_decision_that_comes_while_the_turn_is_cancelled_is_not_shown_as_taken": _LATER,
}
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
                await self.fleet.workers.refresh()

    async def close(self) -> None:
        if self._serving is not None:
            await self._serving.stop(LanguageModelError("unavailable", "The test is over."))
        await self.fleet.close()
        await super().close()


@asynccontextmanager
async def gateway_bridge(folder: Path, server_folder: Path) -> AsyncIterator[Bridge]:
    """The caller closes it."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats_server(server_folder))
        gateway = await stack.enter_async_context(FleetConnection.open((url,), "gateway"))
        worker = await stack.enter_async_context(FleetConnection.open((url,), "worker"))
        yield _GatewayBridge(folder, gateway, worker)
