"""What an operator sees of a fleet: its nodes, their leases, and the streams of JetStream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere
from dragoman.fleet.messages import Form, NodeStatus
from dragoman.fleet.subjects import (
    AUDIT,
    GATEWAY_STATUS,
    INDEX,
    JOURNAL_SUBJECTS,
    JOURNALS,
    LEASE_SUBJECTS,
    LEASES,
    RESPONSES,
    SECRETS,
    SNAPSHOTS,
    STATUS,
)

__all__ = ["FleetSurvey", "LeaseReport", "NodeReport", "StreamReport", "survey"]

_STREAMS = (JOURNALS, SNAPSHOTS, AUDIT, INDEX, LEASES, RESPONSES, SECRETS)
_STATUS_FORM = Form(NodeStatus)
# Nodes that do not answer within this time are shown by their lease.
_ANSWER_SECONDS = 2.0
# The election of a stream's leader takes up to eight.
_API_SECONDS = 10.0
# Beyond the last subject of a stream: its answer counts them, and lists none.
_PAST_ALL = 1_000_000_000
_NOT_FOUND = 404


class _LeaseContent(msgspec.Struct, frozen=True):
    """Of the message of a lease, what is shown."""

    incarnation: str = ""
    role: str = ""
    host: str = ""


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
    # Stored, of all nodes.
    conversations: int


async def survey(connection: FleetConnection) -> FleetSurvey:
    """Ask all nodes and JetStream. Raises `FleetUnavailable`."""
    leases = await _leases(connection)
    gathered = await asyncio.gather(
        *(
            connection.collect(subject, b"", _ANSWER_SECONDS, _all_of(role, leases))
            for subject, role in ((STATUS, "worker"), (GATEWAY_STATUS, "gateway"))
        )
    )
    statuses = {status.name: status for answers in gathered for status in _statuses(answers)}
    held = {lease.node: lease for lease in leases}
    reports = await asyncio.gather(*(_stream(connection, name) for name in _STREAMS))
    streams = dict(zip(_STREAMS, reports, strict=True))
    journals = await _info(connection, JOURNALS, f"{JOURNAL_SUBJECTS}.*")
    return FleetSurvey(
        tuple(
            NodeReport(name, statuses.get(name), held.get(name))
            for name in sorted(statuses.keys() | held.keys())
        ),
        tuple(each for each in streams.values() if each is not None),
        tuple(name for name, each in streams.items() if each is None),
        journals.total if journals is not None else 0,
    )


def _all_of(role: str, leases: list[LeaseReport]) -> Callable[[bytes], bool]:
    """Whether every node of this role that has a lease has answered, with this answer."""
    missing = {lease.node for lease in leases if lease.role == role}

    def is_last(answer: bytes) -> bool:
        missing.difference_update(status.name for status in _statuses([answer]))
        return not missing

    return is_last


def _statuses(answers: Iterable[bytes]) -> list[NodeStatus]:
    found = []
    for answer in answers:
        try:
            found.append(_STATUS_FORM.decode(answer))
        except msgspec.MsgspecError:
            # A node of another version, which its lease still shows.
            continue
    return found


async def _leases(connection: FleetConnection) -> list[LeaseReport]:
    info = await _info(connection, LEASES, f"{LEASE_SUBJECTS}.>", offset=0)
    if info is None:
        return []
    found = await asyncio.gather(*(_lease(connection, subject) for subject in sorted(info.state.subjects)))
    return [each for each in found if each is not None]


async def _lease(connection: FleetConnection, subject: str) -> LeaseReport | None:
    wanted = msgspec.json.encode({"last_by_subj": subject})
    stored = (await _asked(connection, f"STREAM.MSG.GET.{LEASES}", wanted, _Found)).message
    try:
        content = (
            msgspec.json.decode(stored.data or b"{}", type=_LeaseContent) if stored is not None else None
        )
    except msgspec.MsgspecError:
        return None
    if stored is None or content is None or not content.incarnation:
        # Given back, or the server's own note that it has expired.
        return None
    age = (datetime.now(UTC) - stored.time).total_seconds()
    node = subject.removeprefix(f"{LEASE_SUBJECTS}.")
    return LeaseReport(node, content.role, content.host, content.incarnation, max(age, 0.0))


async def _stream(connection: FleetConnection, name: str) -> StreamReport | None:
    info = await _info(connection, name, ">")
    if info is None:
        return None
    return StreamReport(
        name,
        info.state.messages,
        info.state.bytes,
        info.config.num_replicas,
        info.cluster.leader,
        max((peer.lag for peer in info.cluster.replicas), default=0),
        tuple(peer.name for peer in info.cluster.replicas if peer.offline),
    )


# What JetStream answers, as far as it is used here.


class _State(msgspec.Struct, frozen=True):
    messages: int = 0
    bytes: int = 0
    subjects: dict[str, int] = {}


class _StreamSettings(msgspec.Struct, frozen=True):
    num_replicas: int = 1


class _Peer(msgspec.Struct, frozen=True):
    name: str = ""
    offline: bool = False
    lag: int = 0


class _Cluster(msgspec.Struct, frozen=True):
    leader: str | None = None
    replicas: tuple[_Peer, ...] = ()


class _ApiError(msgspec.Struct, frozen=True):
    code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, frozen=True):
    error: _ApiError | None = None


class _Info(_Answer, frozen=True):
    state: _State = _State()
    config: _StreamSettings = _StreamSettings()
    cluster: _Cluster = _Cluster()
    # Of the subjects that match.
    total: int = 0


class _Stored(msgspec.Struct, frozen=True):
    time: datetime
    data: bytes = b""


class _Found(_Answer, frozen=True):
    message: _Stored | None = None


_A = TypeVar("_A", bound=_Answer)


async def _info(
    connection: FleetConnection, stream: str, subjects: str, offset: int = _PAST_ALL
) -> _Info | None:
    wanted = msgspec.json.encode({"subjects_filter": subjects, "offset": offset})
    info = await _asked(connection, f"STREAM.INFO.{stream}", wanted, _Info)
    return None if info.error is not None else info


async def _asked(connection: FleetConnection, what: str, data: bytes, type_: type[_A]) -> _A:
    """An answer of JetStream; its `error` says that something is not there. Raises `FleetUnavailable`."""
    try:
        answer = msgspec.json.decode(
            await connection.request(f"$JS.API.{what}", data, _API_SECONDS), type=type_
        )
    except NobodyThere as error:
        raise FleetUnavailable("NATS has no JetStream, or this account may not use it.") from error
    except (NoAnswer, msgspec.MsgspecError) as error:
        raise FleetUnavailable(
            "JetStream does not answer: it has no leader now, or these credentials are not an operator's."
        ) from error
    if answer.error is not None and answer.error.code != _NOT_FOUND:
        raise FleetUnavailable(f"JetStream refuses: {answer.error.description}.")
    return answer
