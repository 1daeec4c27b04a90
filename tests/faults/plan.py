"""A seed, and the plan that it stands for: who fails, how, at which moment of which conversation.

The plans of consecutive seeds go through every fault in every state it can happen in; everything else of a plan is drawn
by its seed. A plan is a value: the same seed is the same plan, and a part of a plan is a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias, get_args

__all__ = ["FAULTS", "PAIRS", "STATES", "Act", "Fault", "Plan", "State", "plan_of", "smaller"]

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

    @property
    def over_http(self) -> bool:
        """What an editor does to a pipe, no client can do to a server; and an endpoint is the same behind either."""
        return self.who not in ("consumer", "endpoint") or self.stops


FAULTS: dict[str, Fault] = {
    "nothing": Fault("nobody", ("idle",)),
    "killed": Fault("agent", (*_ALL, "anywhere")),
    "stopped": Fault("agent", (*_UP, "anywhere"), stalls=True),
    "exits": Fault("agent", _ALL),
    "floods": Fault("agent", _UP),
    "silent": Fault("agent", _UP, stalls=True),
    "late": Fault("agent", _UP),
    "twice": Fault("agent", _UP),
    "frames": Fault("agent", _ALL),
    "half_frame": Fault("agent", _UP, stalls=True, loses=True),
    "stubborn": Fault("agent", _UP, stalls=True),
    "vanishes": Fault("consumer", (*_ALL, "anywhere")),
    "vanishes in a line": Fault("consumer", _ALL),
    "asks twice": Fault("consumer", ("silent", "speaking", "resumed", "awaiting a result", "idle")),
    "half a line": Fault("consumer", _ALL),
    "reads slowly": Fault("consumer", ("silent", "speaking", "resumed", "idle")),
    "stops it": Fault("consumer", ("starting", *_TOOL_ROUND, "anywhere"), stops=True),
    "bridge killed": Fault("bridge", (*_ALL, "anywhere")),
    "bridge and supervisors killed": Fault("bridge", ("speaking", "awaiting a result", "idle")),
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
PAIRS: tuple[tuple[str, State], ...] = tuple(
    (name, state) for name, fault in FAULTS.items() for state in fault.states
)

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
    fault: str
    state: State
    turns: tuple[tuple[Act, ...], ...]
    # The turn that it happens in.
    turn: int
    front: Literal["vscode", "serve"] = "vscode"
    # Another chat goes on meanwhile, and must not notice.
    bystander: bool = False
    # How the agent reaches the tools, and how it takes sessions up again.
    transport: Literal["http", "stdio"] = "http"
    takes_up: Literal["resume", "load", "no"] = "no"
    # After a request that failed or was lost: the same again, or the next one.
    then: Literal["again", "next"] = "next"
    ending: Literal["shutdown", "end of input", "terminated", "killed"] = "shutdown"
    # For "anywhere", in seconds after the prompt.
    moment: float = 0.0

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
        return f"seed {self.seed}: {self.fault!r} while {self.state}; turns: {turns}; {', '.join(more)}"


def plan_of(seed: int) -> Plan:
    fault, state = PAIRS[seed % len(PAIRS)]
    chance = Random(seed)  # noqa: S311 - nobody guesses at it
    turns = [tuple(chance.choices(_ACTS, k=chance.randint(1, 2))) for _ in range(chance.randint(1, 3))]
    turn = 0 if state == "starting" else chance.randrange(len(turns))
    if state in _NEEDS:
        turns[turn] = (_NEEDS[state], *turns[turn][1:])
    if fault == "asks twice" and not turn:
        # A first request is never a retry: two chats may begin with the same words.
        turns, turn = [("speak",), *turns], 1
    return Plan(
        seed,
        fault,
        state,
        tuple(turns),
        turn,
        front="serve" if FAULTS[fault].over_http and chance.random() < 0.3 else "vscode",
        bystander=chance.random() < 0.25,
        transport=chance.choice(("http", "http", "stdio")),
        takes_up=chance.choice(("no", "resume", "load")),
        then=chance.choice(("again", "next")),
        ending=chance.choice(("shutdown", "shutdown", "end of input", "terminated", "killed")),
        moment=chance.uniform(0, 0.6) ** 2,
    )


def smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them, the greatest saving first, that may show the same."""
    here = plan.turn
    if len(plan.turns) > here + 1:
        yield replace(plan, turns=plan.turns[: here + 1])
    # Before a request that is repeated another must have been answered.
    before = 1 if plan.fault == "asks twice" else 0
    if here > before:
        yield replace(plan, turns=plan.turns[here - before :], turn=before)
    if plan.bystander:
        yield replace(plan, bystander=False)
    needed = _NEEDS.get(plan.state)
    if len(plan.turns[here]) > 1:
        for act in set(plan.turns[here]):
            if needed in (None, act):
                yield replace(plan, turns=(*plan.turns[:here], (act,), *plan.turns[here + 1 :]))
    plain = Plan(plan.seed, plan.fault, plan.state, plan.turns, plan.turn)
    for name in ("front", "transport", "takes_up", "ending", "then"):
        if getattr(plan, name) != getattr(plain, name):
            yield replace(plan, **{name: getattr(plain, name)})
