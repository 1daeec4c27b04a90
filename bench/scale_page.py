"""The part of docs/fleet-scale.md that is calculated from the figures `fleet` and `fleet_scale`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.figures import Figure
from bench.fleet import MANY, streams_case
from bench.fleet_nodes import FLEET
from bench.fleet_scale import BIDDERS, LISTED, STORED, TURN, TURN_PARTS, WRITTEN, bids_case, statuses_case

__all__ = ["calculated"]

_WORKERS = 1_000
_CONVERSATIONS = 100_000
# One turn of each conversation in ten minutes.
_TURNS = _CONVERSATIONS / 600
_PARTS_OF_A_TURN = 600
_PARTS_OF_A_STREAM = 50
_PARTS = _TURNS * _PARTS_OF_A_TURN
# Of the turns, one in ten begins a conversation, or continues one that no worker has: it needs bids.
_PLACED = _TURNS / 10
_REFRESH_SECONDS = 5.0
_RENEWAL_SECONDS = 4.0
# The share of a core that a node is planned with.
_PLANNED = 0.5
_SERVERS = 3
# A person waits so long for a list.
_LIST_SECONDS = 1.0
_SERVER_MEMORY = 16e9
_SERVER_DISK = 500e9


@dataclass(frozen=True)
class _Load:
    what: str
    grows_with: str
    # What one costs, as it was measured.
    one: str
    need: float
    limit: float
    unit: str
    digits: int = 1

    @property
    def share(self) -> float:
        return self.need / self.limit

    @property
    def line(self) -> str:
        need, limit = (f"{each:,.{self.digits}f} {self.unit}" for each in (self.need, self.limit))
        return f"| {self.what} | {self.grows_with} | {self.one} | {need} | {limit} | {self.share:.0%} |"


def calculated(figures: Iterable[Figure]) -> str:
    """A table of what each part of a large fleet has to do, and a sentence about the first that cannot."""
    named = {figure.name: figure for figure in figures}

    def value(figure: str, case: str, column: str) -> float:
        row = named[figure].row(case, FLEET)
        found = row.median(column) if row is not None else None
        if found is None:
            raise ValueError(f"{case}: {column} was not measured")
        return found

    part = {name: value("fleet", streams_case(MANY), name) for name in ("gateway", "worker", "nats")}
    # A turn without its parts, which are counted with the others.
    turn = {
        name: value("fleet_scale", TURN, name) - TURN_PARTS * part[name] / 1e3
        for name in ("gateway", "worker", "nats")
    }
    bids = {name: value("fleet_scale", bids_case(BIDDERS), name) for name in ("gateway", "nats", "worker")}
    statuses = {name: value("fleet_scale", statuses_case(BIDDERS), name) for name in ("gateway", "nats")}
    messages, rate = value("fleet_scale", TURN, "messages"), value("fleet_scale", WRITTEN, "rate")
    of_turns = _TURNS * turn["gateway"] / 1e3
    of_parts = _PARTS * part["gateway"] / 1e6
    of_bids = _PLACED * bids["gateway"] / 1e3
    of_status = statuses["gateway"] / _REFRESH_SECONDS / 1e3
    gateways = round((of_turns + of_parts + of_bids) / (_PLANNED - of_status) + 0.5)
    listed = value("fleet_scale", LISTED, "ms")
    memory, disk = value("fleet_scale", STORED, "memory"), value("fleet_scale", STORED, "kilobytes")
    renewals = (_WORKERS + gateways) / _RENEWAL_SECONDS
    worker_cores = (_TURNS * turn["worker"] / 1e3 + _PARTS * part["worker"] / 1e6) / _WORKERS
    nats_parts = _PARTS * part["nats"] / 1e6
    nats_turns = _TURNS * turn["nats"] / 1e3
    nats_asked = _PLACED * bids["nats"] / 1e3 + gateways * statuses["nats"] / _REFRESH_SECONDS / 1e3
    loads = sorted(
        (
            _Load(
                "the console's list of all conversations",
                "conversations",
                f"{listed * 1e3:.0f} µs",
                _CONVERSATIONS * listed / 1e3,
                _LIST_SECONDS,
                "s",
            ),
            _Load(
                "messages written to JetStream",
                "turns; nodes",
                f"{messages:.1f} a turn; a lease every {_RENEWAL_SECONDS:g} s",
                _TURNS * messages + renewals,
                rate,
                "a second",
                0,
            ),
            _Load(
                "NATS's CPU, three servers",
                "parts; turns; workers × new conversations; workers × gateways",
                f"{part['nats']:.0f} µs a part; {turn['nats']:.1f} ms a turn; {bids['nats']:.0f} ms for bids",
                nats_parts + nats_turns + nats_asked,
                float(_SERVERS),
                "cores",
            ),
            _Load(
                "NATS's memory, each server",
                "conversations stored",
                f"{memory:.1f} kB",
                _CONVERSATIONS * memory * 1e3 / 1e9,
                _SERVER_MEMORY / 1e9,
                "GB",
            ),
            _Load(
                "NATS's disk, each server",
                "turns stored",
                f"{disk:.1f} kB a conversation of five short turns",
                _CONVERSATIONS * disk * 1e3 / 1e9,
                _SERVER_DISK / 1e9,
                "GB",
            ),
            _Load(
                "a gateway's CPU for statuses alone",
                "workers",
                f"{statuses['gateway']:.0f} ms for {BIDDERS:,}, every {_REFRESH_SECONDS:g} s",
                of_status,
                1.0,
                "cores",
                2,
            ),
            _Load(
                "a worker's CPU, without its agents",
                "turns and parts of a worker",
                f"{turn['worker']:.0f} ms a turn, {part['worker']:.0f} µs a part",
                worker_cores,
                1.0,
                "cores",
                3,
            ),
        ),
        key=lambda load: load.share,
        reverse=True,
    )
    first = loads[0]
    streams = _PARTS / _PARTS_OF_A_STREAM
    assumed = (
        f"Assumed: {_WORKERS:,} workers and {_CONVERSATIONS:,} conversations. Each has a turn in ten minutes, "
        f"with an answer of {_PARTS_OF_A_TURN} parts at {_PARTS_OF_A_STREAM} a second. That is {_TURNS:,.0f} turns and "
        f"{_PARTS:,.0f} parts a second, and {streams:,.0f} answers at any time. One turn in ten needs bids."
    )
    for_gateways = (
        f"**Gateways.** They need {of_parts:.1f} cores for parts ({part['gateway']:.0f} µs each), {of_turns:.1f} for "
        f"turns ({turn['gateway']:.1f} ms each) and {of_bids:.1f} for bids ({bids['gateway']:.0f} ms for {BIDDERS:,} of "
        f"them). Planned with half a core each, that is {gateways:,} gateways."
    )
    limit = (
        f"**The first limit** is {first.what}: {first.share:.1f} times what there is. "
        f"It is reached at {_CONVERSATIONS / first.share:,.0f} conversations."
    )
    header = (
        "| what | grows with | one costs | at this size | limit | share |",
        "|---|---|---|---:|---:|---:|",
    )
    return "\n".join((assumed, "", *header, *(load.line for load in loads), "", for_gateways, "", limit, ""))
