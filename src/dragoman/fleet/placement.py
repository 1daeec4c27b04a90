"""Which worker gets a request. No I/O.

A conversation goes to the worker that has it. A new one goes to the worker with the least to do. A wrong choice costs time and
nothing else: a worker that finds that another one owns the conversation says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.fleet.messages import Bid
from dragoman.fleet.subjects import is_node_name

__all__ = ["Place", "WorkerChoice", "choose"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which node has a conversation, as its journal says."""

    # The node whose incarnation owns it, and lives. "": nobody does, and the journal is free.
    owner: str
    # The node that owns it, or owned it last.
    last_node: str


@dataclass(frozen=True, slots=True)
class WorkerChoice:
    """The workers that may take a request, in the order in which they are asked."""

    nodes: tuple[str, ...] = ()
    # There are workers, but all of them are full: perhaps not in so many seconds.
    retry_after: float | None = None


def choose(
    places: Sequence[Place],
    bids: Sequence[Bid],
    labels: Sequence[str] = (),
    streams: Mapping[str, int] | None = None,
) -> WorkerChoice:
    """The workers for a request whose hinted conversations are at these places, the best hint first.

    `streams`: how many this gateway has with each worker now. Bids of the same moment do not count each other's requests.
    """
    owners = [place.owner for place in places if is_node_name(place.owner)]
    fitting = [bid for bid in bids if set(labels) <= set(bid.labels)]
    # A worker that drains or is full still finishes what is under way there.
    holders = [bid.node for bid in fitting if bid.holds]
    willing = [bid for bid in fitting if not bid.is_full and not bid.is_draining]
    own = streams or {}
    by_load = [bid.node for bid in sorted(willing, key=lambda bid: _load(bid, own.get(bid.node, 0)))]
    last = [place.last_node for place in places if place.last_node in by_load]
    nodes = tuple(dict.fromkeys((*owners, *holders, *last, *by_load)))
    full = [bid.retry_after for bid in fitting if bid.is_full and not bid.is_draining]
    return WorkerChoice(nodes, retry_after=None if nodes or not full else min(full))


def _load(bid: Bid, streams: int) -> tuple[float, float, int, str]:
    most = max(bid.max_agents, 1)
    return max(bid.turns, streams) / most, bid.agents / most, -(bid.memory_left or 0), bid.node
