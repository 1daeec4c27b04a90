"""`dragoman worker`: the models of this machine, for the gateways of a fleet."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from dragoman.cli.config_watch import follow
from dragoman.cli.errors import DONE, INTERRUPTED, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import Config, FleetModel
from dragoman.fleet.extra import missing_extra
from dragoman.interruptible import fast_loop, run_interruptible
from dragoman.process.memory import half_of_memory

if TYPE_CHECKING:
    from dragoman.fleet.connection import FleetConnection
    from dragoman.fleet.draining import DrainState
    from dragoman.fleet.lease import NodeLease
    from dragoman.frontends.worker.worker import OpenedModels, Worker
    from dragoman.models import Models

__all__ = ["run"]

_log = logging.getLogger(__name__)


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    if not config.fleet.urls:
        raise UsageError(
            'there is no fleet: add [fleet] with "url" to the configuration. To try one out: dragoman fleet up'
        )
    if (sentence := missing_extra()) is not None:
        raise CommandError(sentence)
    shared = config.fleet.shared
    if shared is not None and not shared.is_dir():
        raise CommandError(
            f'"shared" in [fleet]: {shared} is no folder here. All workers must reach it: mount it first, or leave "shared" out.'
        )
    config = _own_models(context.offered(config))
    # With them comes the client of NATS.
    from dragoman.fleet.connection import FleetUnavailable  # noqa: PLC0415
    from dragoman.fleet.joining import joined, node_name  # noqa: PLC0415
    from dragoman.fleet.lease import NameTaken  # noqa: PLC0415

    async def work() -> bool:
        name = node_name(config.fleet, "worker", arguments.name)
        async with joined(config.fleet, name, "worker") as connection:
            followed = _FollowedConfig(config)
            worker = await _worker(followed, context, connection, name)
            where = ", ".join(config.fleet.urls)

            def say_offers() -> None:
                offered = ", ".join(followed.config.models)
                say(f"dragoman: {name} offers {offered} to the fleet at {where}", sys.stderr)

            worker.on_start.append(say_offers)
            following = asyncio.create_task(follow(context, lambda new: followed.adopt(new, worker)))
            try:
                return await _Signals(worker).run(connection, name)
            finally:
                following.cancel()

    try:
        return INTERRUPTED if run_interruptible(work, fast_loop) else DONE
    except (FleetUnavailable, NameTaken) as error:
        raise CommandError(str(error)) from error


def _own_models(config: Config) -> Config:
    """Without the models of other machines: a worker does not pass requests on."""
    own = {id_: model for id_, model in config.models.items() if not isinstance(model, FleetModel)}
    return msgspec.structs.replace(config, models=own)


class _FollowedConfig:
    """The configuration in force: its new models are offered, and its rules count, without a restart."""

    def __init__(self, config: Config) -> None:
        self.config = config
        # Those of the life that is under way.
        self.models: Models | None = None
        self._offering: set[asyncio.Task[None]] = set()

    def adopt(self, config: Config, worker: Worker[NodeLease]) -> None:
        self.config = _own_models(config)
        if self.models is not None:
            self.models.adopt(self.config)
            task = asyncio.create_task(worker.offer())
            self._offering.add(task)
            task.add_done_callback(self._offering.discard)


async def _worker(
    followed: _FollowedConfig, context: CommandContext, connection: FleetConnection, name: str
) -> Worker[NodeLease]:
    from dragoman.fleet.lease import NodeLease  # noqa: PLC0415 - as above
    from dragoman.fleet.servers import check_version  # noqa: PLC0415
    from dragoman.fleet.streams import check_streams, signing_key  # noqa: PLC0415
    from dragoman.frontends.worker.serving import WorkerLimits  # noqa: PLC0415
    from dragoman.frontends.worker.worker import OpenedModels, Worker  # noqa: PLC0415
    from dragoman.journal.jetstream.journals import JetStreamJournals  # noqa: PLC0415
    from dragoman.models import Models  # noqa: PLC0415

    check_version(connection)
    await check_streams(connection, "worker")
    key = await signing_key(connection)
    config = followed.config
    max_memory = config.serve.max_memory_bytes or half_of_memory()

    async def opened(lease: NodeLease) -> OpenedModels:
        store = JetStreamJournals(connection, lease, shared=config.fleet.shared)
        models = followed.models = Models(
            followed.config,
            context.state_dir,
            max_memory=max_memory,
            redaction=context.redaction,
            store=store,
            key=key,
        )
        return OpenedModels(models, store)

    return Worker(
        connection,
        lambda: NodeLease.held(connection, name, "worker"),
        opened,
        WorkerLimits(config.conversation.max_agents, max_memory, config.fleet.labels),
    )


class _Signals:
    """Runs a worker. The first signal, or an operator, drains it; a second signal ends it at once."""

    def __init__(self, worker: Worker[NodeLease]) -> None:
        self._worker = worker
        self._was_interrupted = False
        self._running: asyncio.Task[None] | None = None

    async def run(self, connection: FleetConnection, name: str) -> bool:
        """Whether it was interrupted with Ctrl-C."""
        from dragoman.fleet.draining import listen_for_drain  # noqa: PLC0415 - as above

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._take, number)
        # Before the worker says that it is there: then an operator may drain it.
        end = await listen_for_drain(connection, name, self._drain, self._state)
        self._running = asyncio.create_task(self._worker.run())
        try:
            with suppress(asyncio.CancelledError):
                await self._running
            return self._was_interrupted
        finally:
            await end()

    def _take(self, number: signal.Signals) -> None:
        self._was_interrupted |= number == signal.SIGINT
        if self._worker.is_draining and self._running is not None:
            self._running.cancel()
        else:
            self._drain()

    def _drain(self) -> None:
        if not self._worker.is_draining:
            say(
                "dragoman: taking nothing new, and ending when what is under way is done. "
                "A second signal ends at once.",
                sys.stderr,
            )
        self._worker.drain()

    def _state(self) -> DrainState:
        from dragoman.fleet.draining import DrainState  # noqa: PLC0415 - as above

        serving = self._worker.serving
        return DrainState(serving.status().streams if serving is not None else 0)
