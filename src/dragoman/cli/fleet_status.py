"""`dragoman fleet status`: the nodes of a fleet, and its streams."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator

import msgspec

from dragoman.cli.errors import DONE
from dragoman.cli.fleet_actions import operator, operator_settings
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.table import table
from dragoman.fleet.messages import NodeStatus
from dragoman.fleet.survey import FleetSurvey, NodeReport, StreamReport, survey
from dragoman.interruptible import run_interruptible

__all__ = ["status"]

_NODES = (
    "NODE",
    "ROLE",
    "STATE",
    "TURNS",
    "AGENTS",
    "MEMORY",
    "CONVERSATIONS",
    "STREAMS",
    "LEASE",
    "RENEWED",
    "VERSION",
    "HOST",
    "MODELS",
)
_STREAMS = ("STREAM", "MESSAGES", "SIZE", "REPLICAS", "LEADER", "LAG")
_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1024
# Responses of one worker.
_MOST_NAMED = 8
# What is behind by more than the time between two renewals is late.
_LATE_SECONDS = 8.0


def status(arguments: Namespace, context: CommandContext) -> int:
    fleet = operator_settings(arguments, context)

    async def work() -> FleetSurvey:
        async with operator(fleet) as connection:
            return await survey(connection)

    found = run_interruptible(work)
    if arguments.json:
        print(msgspec.json.encode(found).decode())
        return DONE
    if found.nodes:
        print(table(_NODES, map(_node, found.nodes)))
    else:
        say("No node runs. Start one: dragoman worker")
    for line in _orphans(found.nodes):
        say(line)
    print()
    print(table(_STREAMS, map(_stream, found.streams)))
    if found.missing:
        say(f"\nMissing: {', '.join(found.missing)}. Make them: dragoman fleet init")
    say(f"\n{_stored(found.journals)}")
    return DONE


def _orphans(nodes: Iterable[NodeReport]) -> Iterator[str]:
    """The background responses that no gateway has, with the workers that keep them."""
    for node in nodes:
        if node.status is not None and node.status.orphans:
            named = sorted(node.status.orphans)[:_MOST_NAMED]
            more = node.status.orphan_count - len(named)
            responses = ", ".join(named) + (f" and {more} more" if more > 0 else "")
            yield (
                f"\n{node.name} keeps background responses whose gateway is gone, until another one continues them: "
                f"{responses}"
            )


def _stored(journals: int) -> str:
    what = (
        "1 conversation, chat or background response was stored"
        if journals == 1
        else f"{journals} conversations, chats and background responses were stored"
    )
    return f"{what}; this counts deleted ones, too."


def _node(node: NodeReport) -> tuple[str, ...]:
    lease, own = node.lease, node.status
    renewed = f"{lease.age_seconds:.0f} s ago" if lease is not None else ""
    if own is None:
        role, host = (lease.role, lease.host) if lease is not None else ("", "")
        return (node.name, role, "does not answer", "", "", "", "", "", "", renewed, "", host, "")
    # A gateway runs no agents.
    turns, agents, memory, conversations = ("-",) * 4 if own.role == "gateway" else _work(own)
    return (
        node.name,
        own.role,
        _state(node, own),
        turns,
        agents,
        memory,
        conversations,
        str(own.streams),
        f"{own.seconds_left:.0f} s",
        renewed,
        own.version,
        own.host,
        ", ".join(model.info.id for model in own.models),
    )


def _work(own: NodeStatus) -> tuple[str, str, str, str]:
    """Turns, agents, memory and conversations of a worker."""
    return (
        str(own.turns),
        f"{own.agents} of {own.max_agents}" if own.max_agents else str(own.agents),
        _size(own.memory) + (f" of {_size(own.memory_limit)}" if own.memory_limit else ""),
        str(own.conversations),
    )


def _state(node: NodeReport, own: NodeStatus) -> str:
    if own.is_draining:
        return "drains"
    if node.lease is None:
        return "has no lease"
    return "renews late" if node.lease.age_seconds > _LATE_SECONDS else "ready"


def _stream(stream: StreamReport) -> tuple[str, ...]:
    away = f", away: {', '.join(stream.offline)}" if stream.offline else ""
    return (
        stream.name,
        str(stream.messages),
        _size(stream.bytes),
        str(stream.replicas),
        stream.leader or ("none" if stream.replicas > 1 else ""),
        f"{stream.lag}{away}",
    )


def _size(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit < 2 else f"{amount:.1f} {_UNITS[unit]}"  # noqa: PLR2004 - below a megabyte
