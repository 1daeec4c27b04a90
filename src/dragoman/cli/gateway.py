"""`dragoman serve` as a gateway of a fleet: what it has beside a server of one machine."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dragoman import __version__
from dragoman.backends.remote.fleet import Fleet
from dragoman.backends.remote.other_nodes import FleetNodes
from dragoman.backends.remote.question_mirror import QuestionMirror
from dragoman.config import FleetConfig
from dragoman.fleet.cancelling import GatewayCancels
from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.joining import joined, node_name
from dragoman.fleet.lease import NodeLease
from dragoman.fleet.messages import STATUS_FORM, NodeStatus
from dragoman.fleet.responses import JetStreamResponses
from dragoman.fleet.servers import check_version
from dragoman.fleet.streams import check_streams
from dragoman.fleet.subjects import GATEWAY_STATUS
from dragoman.frontends.http.metrics import Metric
from dragoman.frontends.http.service import HttpService
from dragoman.journal.jetstream.append_news import heard_appends
from dragoman.journal.jetstream.journals import JetStreamJournals
from dragoman.models import Models

__all__ = ["Gateway"]


@dataclass(frozen=True, slots=True)
class Gateway:
    """The fleet, as a gateway uses it: shared journals and responses, and the models of the workers."""

    connection: FleetConnection
    lease: NodeLease
    journals: JetStreamJournals
    responses: JetStreamResponses
    fleet: Fleet
    cancels: GatewayCancels
    other_nodes: FleetNodes

    @classmethod
    @asynccontextmanager
    async def joined(cls, config: FleetConfig, name: str | None = None) -> AsyncIterator[Gateway]:
        """Join the fleet, until the end of the block. Raises `FleetUnavailable` or `NameTaken`."""
        node = node_name(config, "gateway", name)
        async with joined(config, node, "gateway") as connection:
            check_version(connection)
            await check_streams(connection, "gateway")
            # It has nothing to end at a fence: what a worker says is shown by the worker's lease, not by this one.
            async with NodeLease.held(connection, node, "gateway", lives_on=True) as lease:
                journals = JetStreamJournals(connection, lease)
                responses = JetStreamResponses(connection)
                # With a conversation goes what clients have stored of it.
                journals.on_deleted = responses.delete_of
                fleet = Fleet.on(connection, node, journals)
                try:
                    await fleet.workers.refresh()
                    yield cls(
                        connection,
                        lease,
                        journals,
                        responses,
                        fleet,
                        GatewayCancels(connection),
                        FleetNodes(connection, node),
                    )
                finally:
                    await fleet.close()

    @asynccontextmanager
    async def serving(self, models: Models, service: HttpService) -> AsyncIterator[None]:
        """Let people decide here about what workers ask, and other nodes reach this one, until the end of the block."""
        node = self.lease.node

        def note_append(journal: str, sequence: int, client: str) -> None:
            if models.journals.on_append is not None:
                models.journals.on_append(journal, sequence, client)

        async def say_status(received: Received) -> None:
            await self.connection.answer(received, STATUS_FORM.encode(self._status(service)))

        forget = await self.connection.subscribe(GATEWAY_STATUS, say_status)
        self.fleet.workers.on_orphan = service.background.continue_orphan
        service.why_not_ready = self._why_not_ready
        service.metrics.others = self._metrics
        try:
            async with (
                QuestionMirror.running(self.connection, node, models.permissions.inbox),
                self.cancels.taken(node, service.background.stop),
                heard_appends(self.connection, node, note_append),
            ):
                yield
        finally:
            self.fleet.workers.on_orphan = None
            await forget()

    def _why_not_ready(self) -> str | None:
        if not self.connection.is_connected:
            return "NATS cannot be reached."
        if self.lease.seconds_left() <= 0:
            return "This gateway has no lease now, because it could not be renewed in time."
        return None

    def _metrics(self) -> Iterator[Metric]:
        workers = self.fleet.workers.nodes
        orphans = sum(each.orphan_count for each in workers)
        streams = sum(self.fleet.streams.counts.values())
        yield _gauge("connected", "1 while NATS can be reached.", self.connection.is_connected)
        yield _gauge("lease_seconds", "Until this gateway's lease is lost.", self.lease.seconds_left())
        yield _gauge("workers", "Workers that are known, also while NATS cannot be reached.", len(workers))
        yield _gauge("streams", "Answers under way at workers.", streams)
        yield _gauge(
            "orphans", "Background responses that wait for a gateway, as those workers said last.", orphans
        )
        yield Metric(
            "dragoman_fleet_workers_lost_total",
            "counter",
            "Workers that were given up with answers under way.",
            self.fleet.streams.lost_workers,
        )

    def _status(self, service: HttpService) -> NodeStatus:
        return NodeStatus(
            self.lease.node,
            self.lease.incarnation,
            "gateway",
            __version__,
            is_draining=service.is_draining,
            streams=sum(self.fleet.streams.counts.values()),
            seconds_left=self.lease.seconds_left(),
            renewal_seconds=self.lease.renewal_seconds,
            host=socket.gethostname(),
            pid=os.getpid(),
        )


def _gauge(name: str, words: str, value: float) -> Metric:
    return Metric(f"dragoman_fleet_{name}", "gauge", words, value)
