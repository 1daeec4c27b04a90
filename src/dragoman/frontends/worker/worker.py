"""A worker: one life after the other, until it is drained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.lease import NameTaken
from dragoman.frontends.worker.conversation_service import served_conversations
from dragoman.frontends.worker.question_service import QuestionService
from dragoman.frontends.worker.serving import ConversationLoader, Lease, ServingWorker, WorkerLimits
from dragoman.lm import LanguageModelError
from dragoman.models import Models
from dragoman.process.deadline import boot_seconds, set_deadline

__all__ = ["OpenedModels", "Worker"]

_log = logging.getLogger(__name__)

# Others may take the conversations four seconds after the fence.
_END_SECONDS = 3.0
# Between two attempts to begin again, while NATS cannot be used.
_AGAIN_SECONDS = 1.0

_L = TypeVar("_L", bound=Lease)


@dataclass(frozen=True, slots=True)
class OpenedModels:
    """The models of one life of a worker, and the store of their conversations."""

    models: Models
    store: ConversationLoader | None = None


class Worker(Generic[_L]):
    """Serves the models of this machine. `run` returns when it was drained."""

    def __init__(
        self,
        connection: FleetConnection,
        hold: Callable[[], AbstractAsyncContextManager[_L]],
        open_models: Callable[[_L], Awaitable[OpenedModels]],
        limits: WorkerLimits | None = None,
        drain_seconds: float = 600.0,
    ) -> None:
        """`hold` acquires a new lease; `open_models` makes the models for it. A drain takes `drain_seconds` at most."""
        self._connection = connection
        self._hold = hold
        self._open_models = open_models
        self._limits = limits or WorkerLimits()
        self._drain_seconds = drain_seconds
        self._draining = asyncio.Event()
        # The life that is under way.
        self.serving: ServingWorker | None = None
        # Called in each life when the worker has its lease and takes requests.
        self.on_start: list[Callable[[], None]] = []

    @property
    def is_draining(self) -> bool:
        return self._draining.is_set()

    def drain(self) -> None:
        """Finish what is under way, take nothing new, and end."""
        self._draining.set()
        if self.serving is not None:
            self.serving.is_draining = True

    async def offer(self) -> None:
        """Offer the models that are there now: the configuration has changed."""
        if self.serving is not None:
            try:
                await self.serving.offer()
            except FleetUnavailable as error:
                # The next life offers them.
                _log.warning("changed models are not offered yet: %s", error)

    async def run(self) -> None:
        """Serve until it is drained. Raises `NameTaken`, or `FleetUnavailable` if NATS cannot be used from the start."""
        has_lived = is_said = False
        try:
            while not (has_lived and self.is_draining):
                try:
                    if await self._live():
                        return
                    has_lived, is_said = True, False
                    _log.warning(
                        "the lease was not renewed in time: all agents of this worker were stopped, and it begins again"
                    )
                except (FleetUnavailable, NameTaken) as error:
                    # In a later life, a late renewal of the former one looks like another node of this name.
                    if not has_lived:
                        raise
                    if not is_said:
                        _log.warning("the worker cannot begin again yet, and tries to: %s", error)
                    is_said = True
                    await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            set_deadline(None)

    async def _live(self) -> bool:
        """One life. Whether it ended because everything was done."""
        async with self._hold() as lease:
            opened = await self._open_models(lease)
            serving = ServingWorker(self._connection, lease, opened.models, opened.store, self._limits)
            serving.is_draining = self.is_draining
            self.serving = serving
            is_fenced = False
            try:
                await serving.start()
                async with self._people(lease, opened.models, serving):
                    for notify in self.on_start:
                        notify()
                    is_fenced = await self._until_fenced_or_drained(lease, serving)
            finally:
                self.serving = None
                if is_fenced:
                    # Supervisors end all agents now, however long the rest takes.
                    set_deadline(boot_seconds())
                await serving.stop(_stopped_error(lease.node))
                await self._close(opened.models, is_fenced=is_fenced)
        return not is_fenced

    @asynccontextmanager
    async def _people(self, lease: Lease, models: Models, serving: ServingWorker) -> AsyncIterator[None]:
        """Let people at gateways answer questions, and see and stop conversations."""

        async def release(journal: str) -> None:
            if models.journals.store is not None:
                await models.journals.store.release(journal)

        questions = QuestionService(
            self._connection,
            lease.node,
            models.permissions,
            serving.calls,
            may_act=lambda: lease.seconds_left() > 0,
        )
        async with (
            questions.serving(),
            served_conversations(self._connection, lease.node, models.conversations, release),
        ):
            yield

    async def _until_fenced_or_drained(self, lease: Lease, serving: ServingWorker) -> bool:
        fenced = asyncio.create_task(lease.fenced.wait())
        drained = asyncio.create_task(self._until_drained(serving))
        try:
            await asyncio.wait({fenced, drained}, return_when=asyncio.FIRST_COMPLETED)
            return fenced.done()
        finally:
            fenced.cancel()
            drained.cancel()

    async def _until_drained(self, serving: ServingWorker) -> None:
        await self._draining.wait()
        try:
            async with asyncio.timeout(self._drain_seconds):
                await serving.until_idle()
        except TimeoutError:
            _log.warning("the drain is over after %g seconds; what is under way is cut", self._drain_seconds)

    async def _close(self, models: Models, *, is_fenced: bool) -> None:
        try:
            async with asyncio.timeout(_END_SECONDS if is_fenced else None):
                await models.close()
        except TimeoutError:
            _log.error("models could not be closed within %g seconds after the lease was lost", _END_SECONDS)


def _stopped_error(node: str) -> LanguageModelError:
    return LanguageModelError(
        "unavailable",
        f"The machine {node}, on which this conversation ran, stops.",
        hint="Send the request again: the conversation continues on another machine.",
        public="The machine on which this conversation ran stops. Send the request again: the conversation continues on another one.",
    )
