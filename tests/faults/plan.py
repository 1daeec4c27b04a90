"""A seed, and the plan that it stands for: who fails, how, at which moment of which conversation.

The plans of consecutive seeds go through every fault in every state it can happen in; from `FIRST_OF_TWO` on, through two
faults at a time. Everything else of a plan is drawn by its seed. A plan is a value: the same seed is the same plan, and a
part of a plan is a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias, get_args

__all__ = [
    "FAULTS",
    "FIRST_OF_TWO",
    "FRONTS",
    "PLACES",
    "STATES",
    "TRANSPORTS",
    "TWOS",
    "Act",
    "Fault",
    "Front",
    "Plan",
    "State",
    "Transport",
    "plan_of",
    "smaller",
]

# Seeds from here on are plans with two faults.
FIRST_OF_TWO = 10_000

# Where a conversation is when it happens.
State: TypeAlias = Literal[
    "starting",  # the agent opens its session
    "silent",  # it has the prompt, and has said nothing
    "speaking",
    "gathering",  # it has made the first of two calls
    "awaiting a result",
    "awaiting a permission",
    "approved",  # the person has, and the agent has not heard of it
    "working on",  # it has called a tool, and speaks on with nobody listening
    "resumed",  # it has its result
    "cancelling",  # it was told to stop, and has not
    "idle",
    "anywhere",  # a moment after the prompt, whatever it is then
]
STATES: tuple[State, ...] = get_args(State)
_TOOL_ROUND: tuple[State, ...] = (
    "silent",
    "speaking",
    "gathering",
    "awaiting a result",
    "awaiting a permission",
    "approved",
    "working on",
    "resumed",
)
_UP: tuple[State, ...] = (*_TOOL_ROUND, "cancelling", "idle")
_ALL: tuple[State, ...] = ("starting", *_UP)
_ANSWER: tuple[State, ...] = ("silent", "speaking", "gathering", "resumed")

Front: TypeAlias = Literal["vscode", "serve"]
FRONTS: tuple[Front, ...] = get_args(Front)
Transport: TypeAlias = Literal["http", "stdio"]
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)

# What the agent does in a turn.
Act: TypeAlias = Literal["speak", "call", "calls", "ask", "refused"]
_ACTS: tuple[Act, ...] = get_args(Act)


@dataclass(frozen=True)
class Fault:
    who: Literal["agent", "consumer", "bridge", "machine", "endpoint", "nobody"]
    states: tuple[State, ...]
    # The turn may never end by itself: then the person stops it.
    stalls: bool = False
    # The person stops it.
    stops: bool = False
    # What the agent says may be lost on its own side.
    loses: bool = False
    # The bridge ends by it, and another is started.
    ends: bool = False
    # The agent takes no orders any more.
    gone: bool = False

    @property
    def over_http(self) -> bool:
        """What an editor does to a pipe, no client can do to a server; and an endpoint is the same behind either."""
        return self.who not in ("consumer", "endpoint") or self.stops


FAULTS: dict[str, Fault] = {
    "nothing": Fault("nobody", ("idle",)),
    # One that says nothing while it starts has two minutes for it, whoever stops waiting: longer than a run here.
    "killed": Fault("agent", (*_ALL, "anywhere"), gone=True),
    "stopped": Fault("agent", (*_UP, "anywhere"), stalls=True, gone=True),
    "exits": Fault("agent", _ALL, gone=True),
    "floods": Fault("agent", _UP),
    "silent": Fault("agent", _UP, stalls=True),
    "late": Fault("agent", _ALL),
    "twice": Fault("agent", _ALL),
    "frames": Fault("agent", _ALL),
    "half_frame": Fault("agent", _UP, stalls=True, loses=True),
    "stubborn": Fault("agent", _ALL, stalls=True),
    "vanishes": Fault("consumer", (*_ALL, "anywhere"), ends=True),
    "vanishes in a line": Fault("consumer", _ALL, ends=True),
    # While the answer streams. After its end the same request is a wish for another answer.
    "asks twice": Fault("consumer", _ANSWER),
    "half a line": Fault("consumer", _ALL),
    "reads slowly": Fault("consumer", _UP),
    "stops it": Fault("consumer", ("starting", *_TOOL_ROUND, "anywhere"), stops=True),
    "bridge killed": Fault("bridge", (*_ALL, "anywhere"), ends=True),
    "bridge and supervisors killed": Fault("bridge", ("speaking", "awaiting a result", "idle"), ends=True),
    "bridge suspended": Fault("bridge", _UP),
    "disk full": Fault("machine", _ALL),
    "database locked": Fault("machine", _ALL),
    "clock forward": Fault("machine", _ALL),
    "clock back": Fault("machine", _ALL),
    "no files": Fault("machine", _ALL, stalls=True),
    "endpoint resets": Fault("endpoint", (*_ANSWER, "idle")),
    "endpoint cuts off": Fault("endpoint", _ANSWER),
    "endpoint hangs": Fault("endpoint", _ANSWER),
    "endpoint talks nonsense": Fault("endpoint", _ANSWER),
    "endpoint refuses": Fault("endpoint", _ANSWER),
}
PLACES: tuple[tuple[str, State], ...] = tuple(
    (name, state) for name, fault in FAULTS.items() for state in fault.states
)

# These come first: each is one that somebody has met.
_MET: tuple[tuple[str, str, State], ...] = (
    ("killed", "vanishes", "speaking"),
    ("floods", "bridge killed", "speaking"),
    ("disk full", "killed", "awaiting a permission"),
    ("bridge killed", "database locked", "awaiting a result"),
)
# A retry is compared with what it repeats, and an endpoint has no agent.
_ALONE = ("nothing", "asks twice")
# An agent that goes at once has not been late, or silent, or said anything twice.
_SHOWS_LATER = ("late", "silent", "twice")


def _go_together(first: str, second: str, state: State) -> bool:
    """Whether the second can still happen when the first has, before anything else does."""
    one, other = FAULTS[first], FAULTS[second]
    if first == second or "endpoint" in (one.who, other.who) or {first, second} & {*_ALONE}:
        return False
    if state not in other.states or state == "anywhere":
        return False
    if one.ends:
        # Whatever happens now, happens to the next bridge as it starts.
        return second in ("database locked", "disk full", "clock forward", "clock back")
    if first in _SHOWS_LATER and (other.gone or other.ends):
        return False
    if first == "bridge suspended":
        # It neither reads nor ends by itself meanwhile.
        return other.who in ("agent", "machine") or second == "bridge killed"
    needs_agent = other.who == "agent" or second in ("reads slowly", "bridge and supervisors killed")
    return not (one.gone and needs_agent) or (first, second) == ("stopped", "killed")


def _twos() -> tuple[tuple[str, str, State], ...]:
    found = [
        (first, second, state)
        for first, state in PLACES
        for second in FAULTS
        if _go_together(first, second, state)
    ]
    # Mixed once and for all, so that a few dozen in a row have something of everything.
    Random(8).shuffle(found)  # noqa: S311 - nobody guesses at it
    return tuple(dict.fromkeys((*_MET, *found)))


TWOS = _twos()

# What the faulty turn has to contain for a state to come about. "idle" and "anywhere" need nothing.
_NEEDS: dict[State, Act] = {
    "silent": "speak",
    "speaking": "speak",
    "gathering": "calls",
    "awaiting a result": "call",
    "awaiting a permission": "ask",
    "approved": "ask",
    "working on": "call",
    "resumed": "call",
    "cancelling": "speak",
}


@dataclass(frozen=True)
class Plan:
    seed: int
    # One, or two.
    faults: tuple[str, ...]
    state: State
    turns: tuple[tuple[Act, ...], ...]
    # The turn that it happens in.
    turn: int
    front: Front = "vscode"
    # Another chat goes on meanwhile, and must not notice.
    bystander: bool = False
    # How the agent reaches the tools, and how it takes sessions up again.
    transport: Transport = "http"
    takes_up: Literal["resume", "load", "no"] = "no"
    # After a request that failed or was lost: the same again, or the next one.
    then: Literal["again", "next"] = "next"
    ending: Literal["shutdown", "end of input", "terminated", "killed"] = "shutdown"
    # For "anywhere", in seconds after the prompt.
    moment: float = 0.0
    # How long after the first the second happens, in seconds; without any, before anything else does.
    apart: float = 0.0

    @property
    def is_anywhere(self) -> bool:
        """Whether nobody knows what the conversation is at when something happens to it."""
        return self.state == "anywhere" or self.apart > 0

    def has(self, *names: str) -> bool:
        return not {*names}.isdisjoint(self.faults)

    def __str__(self) -> str:
        turns = " | ".join(
            "+".join(turn) + ("  ← here" if n == self.turn else "") for n, turn in enumerate(self.turns)
        )
        more = [
            f"through {self.front}",
            f"tools over {self.transport}",
            f"then {self.then}",
            f"ends by {self.ending}",
        ]
        if self.takes_up != "no":
            more.append(f"{self.takes_up}s sessions")
        if self.bystander:
            more.append("a bystander")
        if self.state == "anywhere":
            more.append(f"after {self.moment * 1_000:.0f} ms")
        if self.apart:
            more.append(f"{self.apart * 1_000:.0f} ms apart")
        what = " and ".join(map(repr, self.faults))
        return f"seed {self.seed}: {what} while {self.state}; turns: {turns}; {', '.join(more)}"


def plan_of(seed: int) -> Plan:
    if seed >= FIRST_OF_TWO:
        *faults, state = TWOS[(seed - FIRST_OF_TWO) % len(TWOS)]
    else:
        *faults, state = PLACES[seed % len(PLACES)]
    chance = Random(seed)  # noqa: S311 - nobody guesses at it
    turns = [tuple(chance.choices(_ACTS, k=chance.randint(1, 2))) for _ in range(chance.randint(1, 3))]
    turn = 0 if state == "starting" else chance.randrange(len(turns))
    if state in _NEEDS:
        turns[turn] = (_NEEDS[state], *turns[turn][1:])
    if "asks twice" in faults and not turn:
        # A first request is never a retry: two chats may begin with the same words.
        turns, turn = [("speak",), *turns], 1
    return Plan(
        seed,
        tuple(faults),
        state,
        tuple(turns),
        turn,
        front="serve"
        if all(FAULTS[each].over_http for each in faults) and chance.random() < 0.3
        else "vscode",
        bystander=chance.random() < 0.25,
        transport=chance.choice(("http", "http", "stdio")),
        takes_up=chance.choice(("no", "resume", "load")),
        then=chance.choice(("again", "next")),
        ending=chance.choice(("shutdown", "shutdown", "end of input", "terminated", "killed")),
        moment=chance.uniform(0, 0.6) ** 2,
        apart=chance.choice((0.0, chance.uniform(0.01, 0.4))) if len(faults) > 1 else 0.0,
    )


def smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them, the greatest saving first, that may show the same."""
    here = plan.turn
    for fault in plan.faults if len(plan.faults) > 1 else ():
        yield replace(plan, faults=(fault,), apart=0.0)
    if len(plan.turns) > here + 1:
        yield replace(plan, turns=plan.turns[: here + 1])
    # Before a request that is repeated another must have been answered.
    before = 1 if plan.has("asks twice") else 0
    if here > before:
        yield replace(plan, turns=plan.turns[here - before :], turn=before)
    if plan.bystander:
        yield replace(plan, bystander=False)
    needed = _NEEDS.get(plan.state)
    if len(plan.turns[here]) > 1:
        for act in set(plan.turns[here]):
            if needed in (None, act):
                yield replace(plan, turns=(*plan.turns[:here], (act,), *plan.turns[here + 1 :]))
    plain = Plan(plan.seed, plan.faults, plan.state, plan.turns, plan.turn)
    for name in ("apart", "front", "transport", "takes_up", "ending", "then"):
        if getattr(plan, name) != getattr(plain, name):
            yield replace(plan, **{name: getattr(plain, name)})
