"""What an operator sees of a fleet: its nodes, their leases, and the streams of JetStream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from nats.js.api import ClusterInfo, StreamInfo

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.lease import LeaseRecord, live_leases
from dragoman.fleet.messages import STATUS_FORM, NodeStatus
from dragoman.fleet.stored import TIME, StoredMessage, StoredStream
from dragoman.fleet.subjects import (
    AUDIT,
    GATEWAY_STATUS,
    INDEX,
    JOURNAL_SUBJECTS,
    JOURNALS,
    LEASES,
    RESPONSES,
    SECRETS,
    SNAPSHOTS,
    STATUS,
)

__all__ = ["FleetSurvey", "LeaseReport", "NodeReport", "StreamReport", "statuses", "survey"]

_STREAMS = (JOURNALS, SNAPSHOTS, AUDIT, INDEX, LEASES, RESPONSES, SECRETS)
# Nodes that do not answer within this time are shown by their lease.
_ANSWER_SECONDS = 2.0
# The election of a stream's leader takes up to eight.
_API_SECONDS = 10.0
# Beyond the last subject of a stream: its answer counts them, and lists none.
_PAST_ALL = 1_000_000_000


class LeaseReport(msgspec.Struct, frozen=True):
    node: str
    role: str
    host: str
    incarnation: str
    # Since the last renewal, by the clock of this machine.
    age_seconds: float


class NodeReport(msgspec.Struct, frozen=True):
    """A node with what it says of itself, or only with its lease."""

    name: str
    status: NodeStatus | None = None
    lease: LeaseReport | None = None


class StreamReport(msgspec.Struct, frozen=True):
    name: str
    messages: int
    bytes: int
    replicas: int
    # None: one server without a cluster, or no leader now.
    leader: str | None = None
    # How many messages the replica that is furthest behind lacks, and which are away.
    lag: int = 0
    offline: tuple[str, ...] = ()


class FleetSurvey(msgspec.Struct, frozen=True):
    nodes: tuple[NodeReport, ...]
    streams: tuple[StreamReport, ...]
    # Names of streams that do not exist.
    missing: tuple[str, ...]
    # How many were ever stored, of all nodes. What is deleted counts: its last message stays, and only reading it tells.
    journals: int


async def survey(connection: FleetConnection) -> FleetSurvey:
    """Ask all nodes and JetStream. Raises `FleetUnavailable`."""
    try:
        infos = dict(zip(_STREAMS, await asyncio.gather(*_infos(connection)), strict=True))
        leases = await live_leases(connection) if infos[LEASES] is not None else {}
    except NoAnswer as error:
        raise FleetUnavailable(
            "JetStream does not answer: it has no leader now, or these credentials are not an operator's."
        ) from error
    held = {node: _lease(node, record, stored) for node, (record, stored) in leases.items()}
    gathered = await asyncio.gather(
        *(
            connection.collect(subject, b"", _ANSWER_SECONDS, _all_of(role, held.values()))
            for subject, role in ((STATUS, "worker"), (GATEWAY_STATUS, "gateway"))
        )
    )
    said = {status.name: status for answers in gathered for status in statuses(answers)}
    journals = infos[JOURNALS]
    return FleetSurvey(
        tuple(NodeReport(name, said.get(name), held.get(name)) for name in sorted(said.keys() | held.keys())),
        tuple(_stream(name, info[0]) for name, info in infos.items() if info is not None),
        tuple(name for name, info in infos.items() if info is None),
        journals[1] if journals is not None else 0,
    )


def _infos(connection: FleetConnection) -> Iterator[Awaitable[tuple[StreamInfo, int] | None]]:
    """Of all streams; the second of that of the journals is their number."""
    for name in _STREAMS:
        yield StoredStream(connection, name).info(f"{JOURNAL_SUBJECTS}.*", _PAST_ALL, _API_SECONDS)


def _all_of(role: str, leases: Iterable[LeaseReport]) -> Callable[[bytes], bool]:
    """Whether every node of this role that has a lease has answered, with this answer."""
    missing = {lease.node for lease in leases if lease.role == role}

    def is_last(answer: bytes) -> bool:
        missing.difference_update(status.name for status in statuses([answer]))
        return not missing

    return is_last


def statuses(answers: Iterable[bytes]) -> list[NodeStatus]:
    """What nodes have said of themselves."""
    found = []
    for answer in answers:
        try:
            found.append(STATUS_FORM.decode(answer))
        except msgspec.MsgspecError:
            # A node of another version, which its lease still shows.
            continue
    return found


def _lease(node: str, record: LeaseRecord, stored: StoredMessage) -> LeaseReport:
    age = (datetime.now(UTC) - datetime.fromisoformat(stored.headers[TIME])).total_seconds()
    return LeaseReport(node, record.role, record.host, record.incarnation, max(age, 0.0))


def _stream(name: str, info: StreamInfo) -> StreamReport:
    cluster = info.cluster or ClusterInfo()
    replicas = cluster.replicas or []
    return StreamReport(
        name,
        info.state.messages,
        info.state.bytes,
        info.config.num_replicas or 1,
        cluster.leader,
        max((peer.lag or 0 for peer in replicas), default=0),
        tuple(peer.name or "" for peer in replicas if peer.offline),
    )
