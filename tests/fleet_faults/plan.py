"""A seed, and the plan that it stands for: which node of a fleet fails, how, and what comes after it.

A run has several faults, one after the other, under load. The plans of consecutive seeds go through every kind of fault for
every role; everything else is drawn by the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias, get_args

__all__ = [
    "CELLS",
    "GATEWAY_GONE",
    "KINDS",
    "ROLES",
    "SHORT_SEEDS",
    "FleetFault",
    "FleetPlan",
    "Kind",
    "Role",
    "plan_of",
]

Role: TypeAlias = Literal["worker", "gateway", "follower", "leader"]
ROLES: tuple[Role, ...] = get_args(Role)
# Long is longer than a lease; short is shorter than a fence.
Kind: TypeAlias = Literal[
    "killed",
    "terminated",
    "suspended",
    "suspended long",
    "cut off",
    "cut off long",
    # A server of NATS from the other servers, and not from its nodes.
    "split off",
    "split off long",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
NATS_ROLES: tuple[Role, ...] = ("follower", "leader")
CELLS: tuple[tuple[Role, Kind], ...] = tuple(
    (role, kind) for role in ROLES for kind in KINDS if role in NATS_ROLES or not kind.startswith("split")
)
# What a chat notes of a turn whose gateway has closed the connection.
GATEWAY_GONE = "the gateway is gone"
# With the usual times of a lease: elections of NATS take up to eight seconds, and a lease must outlive them.
_USUAL_SECONDS, _HALF_SECONDS = 20, 10
# Between two faults there is time for an answer.
_FAULTS_OF_A_RUN = 3
_CHATS = 4


@dataclass(frozen=True)
class FleetFault:
    role: Role
    kind: Kind
    # Which of the nodes, if there is a choice.
    choice: float
    # How long after the load is back.
    after: float
    # How long it lasts, of the time that makes it short or long.
    share: float

    @property
    def is_long(self) -> bool:
        return self.kind.endswith("long")

    def may_fail_with(self, failure: str, hurried: str = "") -> bool:
        """Whether a turn may fail with these words because of it. What is shorter than a fence interrupts no answer.

        `hurried`: the worker whose drain was ended by a second signal.
        """
        if self.is_long or (self.role, self.kind) == ("worker", "killed"):
            return True
        if self.role == "gateway" and self.kind in ("killed", "terminated"):
            return failure == GATEWAY_GONE
        if (self.role, self.kind) == ("worker", "terminated"):
            return (
                bool(hurried) and f"The machine {hurried}, on which this conversation ran, stops." in failure
            )
        # A request that begins in an election waits for it, and not for ever: on a busy machine that may take longer.
        return self.role in NATS_ROLES and "store" in failure

    def seconds(self, lease_seconds: float) -> float:
        """How long it lasts. One that ends a process lasts until that has ended."""
        if self.kind in ("killed", "terminated"):
            return self.share
        if self.is_long:
            return lease_seconds * (1.05 + 0.2 * self.share)
        return lease_seconds * (0.1 + 0.3 * self.share)

    def __str__(self) -> str:
        return f"{self.role} {self.kind}"


@dataclass(frozen=True)
class FleetPlan:
    seed: int
    lease_seconds: int
    faults: tuple[FleetFault, ...]
    chats: int = _CHATS

    def __str__(self) -> str:
        faults = ", ".join(map(str, self.faults))
        return f"seed {self.seed} (lease {self.lease_seconds} s): {faults}"


def plan_of(seed: int, only: Sequence[str] = ()) -> FleetPlan:
    """`only`: the faults, by role and kind, instead of those that it is the turn of."""
    random = Random(seed)  # noqa: S311 - a plan is the same each time
    first = seed * _FAULTS_OF_A_RUN
    cells = [cell for cell in CELLS if " ".join(cell) in only]
    # In the order of a walk that visits all of them.
    cells = cells or [CELLS[number % len(CELLS)] for number in range(first, first + _FAULTS_OF_A_RUN)]
    is_usual = any(role in NATS_ROLES for role, _ in cells) or random.random() < 0.2
    return FleetPlan(
        seed,
        _USUAL_SECONDS if is_usual else _HALF_SECONDS,
        tuple(
            FleetFault(role, kind, random.random(), 2 * random.random(), random.random())
            for role, kind in cells
        ),
    )


def seeds_for(faults: int) -> tuple[int, ...]:
    """The first seeds whose runs have so many faults."""
    return tuple(range(-(-faults // _FAULTS_OF_A_RUN)))


# Those of CI: every cell once.
SHORT_SEEDS = seeds_for(len(CELLS))
