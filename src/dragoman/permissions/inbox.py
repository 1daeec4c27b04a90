"""Permission requests that wait for a person at the console, because the client of their turn cannot be asked.

The inbox is all that an agent's conversation and the console share. The conversation opens a question and closes it; the
console shows it and decides. A decision counts when the conversation has acknowledged it: `decide` returns only then. The
first decision counts, and a second one raises `DecidedAlready`.

In a fleet, a gateway has copies of its workers' questions (`mirror`), and a worker knows from its gateways whom a person can
be reached for. The owner of the question decides what becomes of a decision; a copy only carries it there.

No client of a request sees the id of a question, and no path but the console's leads to `decide`.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from dragoman.permissions.action import Action
from dragoman.permissions.approvals import ApprovalLevel
from dragoman.permissions.decide import Ask

__all__ = [
    "DecidedAlready",
    "DecisionNotAcknowledged",
    "Inbox",
    "InboxDecision",
    "InboxOutcome",
    "InboxQuestion",
    "InboxWatcher",
    "OutcomeState",
    "QuestionClosed",
    "Reach",
]

_ID_BYTES = 16
# Outcomes that stay in memory, so that a person who comes second learns what the first one decided.
_MOST_OUTCOMES = 200
_CONSOLE_ENDED = "The server ended, and its console with it, before a person decided."
_NO_CONSOLE = "No person can be asked here."
_QUESTION_SECONDS = 3600.0

# allowed, denied: a person decided, and the agent has the answer. expired: no person decided in time. ended: the turn, the
# agent or the server ended before, or the agent withdrew its request.
OutcomeState: TypeAlias = Literal["allowed", "denied", "expired", "ended"]


@dataclass(frozen=True, slots=True)
class InboxQuestion:
    """A question that waits, with what a person needs in order to decide."""

    id: str
    action: Action
    # Why a person is asked, what their answer can be, and the rules that match.
    ask: Ask
    conversation: str
    # Whose conversation it is, and the program that sent the request, by its own name.
    connection: str
    client: str
    # What approvals for this session and for this workspace are bound to.
    approval_session: str
    workspace: tuple[str, ...]
    # For people. `since` is the same moment by the clock that only goes forward.
    asked_at: float
    expires_at: float
    since: float
    # The node that has the question, and the levels that can be given there. "": it is of this process.
    node: str = ""
    node_levels: tuple[ApprovalLevel, ...] = ()
    # Whether it is for this process to call people who have no console open.
    calls_people: bool = True


@dataclass(frozen=True, slots=True)
class InboxDecision:
    """A person's answer. `by` is the name of their console session."""

    is_allowed: bool
    by: str
    reason: str | None = None
    # How far a yes reaches, and file and line of the rule that was made of it.
    level: ApprovalLevel = "once"
    new_rule: str | None = None


@dataclass(frozen=True, slots=True)
class InboxOutcome:
    """How a question ended."""

    state: OutcomeState
    at: float
    decision: InboxDecision | None = None


class DecidedAlready(Exception):
    """Another person was first. `outcome` is None while their decision is on its way."""

    def __init__(self, decision: InboxDecision, outcome: InboxOutcome | None) -> None:
        super().__init__("the question is decided already")
        self.decision = decision
        self.outcome = outcome


class QuestionClosed(Exception):
    """There is no such question, or it has ended without a decision."""

    def __init__(self, outcome: InboxOutcome | None) -> None:
        super().__init__("the question is closed")
        self.outcome = outcome


class DecisionNotAcknowledged(Exception):
    """The node that has the question did not take the decision, or did not say so. The message is for people."""

    def __init__(self, message: str, *, may_count: bool) -> None:
        super().__init__(message)
        # Whether the node may have got the decision.
        self.may_count = may_count


# Gives a decision to the conversation, which closes the question when the agent has it.
Apply: TypeAlias = Callable[[InboxDecision], Awaitable[None]]


@dataclass(slots=True)
class _Open:
    question: InboxQuestion
    apply: Apply
    # Refuses the request, for this reason.
    give_up: Callable[[str], None]
    # The decision that is on its way to the conversation.
    decision: InboxDecision | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """Whose conversations a person who can be reached may decide about."""

    everyone: bool = False
    connections: frozenset[str] = frozenset()

    def covers(self, connection: str) -> bool:
        return self.everyone or connection in self.connections


class InboxWatcher(Protocol):
    """Learns what happens in the inbox, and knows whether a person can be asked. The console is one."""

    def reach(self) -> Reach:
        """About whose conversations a person can be asked now."""
        ...

    def opened(self, question: InboxQuestion) -> None: ...

    def closed(self, question: InboxQuestion, outcome: InboxOutcome) -> None: ...


@dataclass(slots=True)
class Inbox:
    """The questions of one process that wait at its console. Without a console no one is reachable."""

    now: Callable[[], float] = time.time
    # A clock that only goes forward.
    monotonic: Callable[[], float] = time.monotonic
    # The console's address for people; "" where there is no console that can be used.
    address: str = field(default="", init=False)
    # What to do when no person is reachable.
    advice: str = field(default=_NO_CONSOLE, init=False)
    # How long a question waits.
    question_seconds: float = field(default=_QUESTION_SECONDS, init=False)
    # Whether a person without an open console is called.
    has_webhook: bool = field(default=False, init=False)
    # Called when questions open or close, and when it may have changed who can be reached.
    on_change: list[Callable[[], None]] = field(default_factory=list, init=False)
    _watcher: InboxWatcher | None = field(default=None, init=False)
    _open: dict[str, _Open] = field(default_factory=dict)
    # With the connection of each. Not the questions: an action may be large.
    _outcomes: OrderedDict[str, tuple[str, InboxOutcome]] = field(default_factory=OrderedDict)

    def connect(
        self,
        watcher: InboxWatcher,
        address: str,
        advice: str = _NO_CONSOLE,
        question_seconds: float = _QUESTION_SECONDS,
        *,
        has_webhook: bool = False,
    ) -> None:
        """Questions are shown to `watcher` from now on. See the fields for the rest."""
        self._watcher = watcher
        self.address, self.advice, self.question_seconds = address, advice, question_seconds
        self.has_webhook = has_webhook
        self.changed()

    def disconnect(self) -> None:
        """There is no console any more. Questions of this process that wait are refused: no one can answer them."""
        self.address, self.advice, self.question_seconds = "", _NO_CONSOLE, _QUESTION_SECONDS
        self.has_webhook = False
        for waiting in tuple(self._open.values()):
            # A decision that is on its way still counts.
            if waiting.decision is None:
                waiting.give_up(_CONSOLE_ENDED)
        self._watcher = None
        self.changed()

    def changed(self) -> None:
        """Something has changed that `on_change` is about."""
        for notify in tuple(self.on_change):
            notify()

    @property
    def has_console(self) -> bool:
        return self._watcher is not None

    def reach(self) -> Reach:
        """About whose conversations a person can be asked now."""
        return Reach() if self._watcher is None else self._watcher.reach()

    def is_reachable(self, connection: str) -> bool:
        """Whether a person can be reached who may decide about the conversations of a connection."""
        return self.reach().covers(connection)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[InboxQuestion]:
        """The questions that wait, the oldest first."""
        return (each.question for each in tuple(self._open.values()))

    def open(
        self,
        action: Action,
        ask: Ask,
        apply: Apply,
        give_up: Callable[[str], None],
        *,
        conversation: str,
        connection: str,
        client: str,
        approval_session: str,
        workspace: tuple[str, ...],
    ) -> str:
        """A question waits from now on. Returns its id. The caller closes it.

        `apply` gives a decision to the conversation; `give_up` refuses the request there, for a reason.
        """
        id_ = secrets.token_urlsafe(_ID_BYTES)
        now = self.now()
        question = InboxQuestion(
            id_,
            action,
            ask,
            conversation,
            connection,
            client,
            approval_session,
            workspace,
            now,
            now + self.question_seconds,
            self.monotonic(),
        )
        self._add(_Open(question, apply, give_up))
        return id_

    def mirror(self, question: InboxQuestion, apply: Apply) -> None:
        """A question of another node waits from now on. The caller closes it.

        `apply` gives a decision to that node, and closes the question with the outcome. It raises `DecidedAlready`,
        `QuestionClosed` or `DecisionNotAcknowledged`.
        """
        outcome = self.outcome(question.id)
        # One that seemed to have ended, because its node was cut off, waits again.
        if question.id not in self._open and (outcome is None or outcome.decision is None):
            self._outcomes.pop(question.id, None)
            # The node that has it goes on without the console of this process.
            self._add(_Open(question, apply, lambda _reason: None))

    def _add(self, waiting: _Open) -> None:
        self._open[waiting.question.id] = waiting
        if self._watcher is not None:
            self._watcher.opened(waiting.question)
        self.changed()

    def find(self, id_: str) -> InboxQuestion | None:
        """A question that waits."""
        waiting = self._open.get(id_)
        return None if waiting is None else waiting.question

    def connection(self, id_: str) -> str | None:
        """Whose question it is or was, if it waits or has ended not long ago."""
        if (waiting := self._open.get(id_)) is not None:
            return waiting.question.connection
        ended = self._outcomes.get(id_)
        return None if ended is None else ended[0]

    def waiting_since(self, conversation: str) -> float | None:
        """Since when a question of this conversation waits, by `monotonic`: the oldest one. None if none does."""
        asked = (each.since for each in self if each.conversation == conversation)
        return min(asked, default=None)

    def outcome(self, id_: str) -> InboxOutcome | None:
        ended = self._outcomes.get(id_)
        return None if ended is None else ended[1]

    def check_open(self, id_: str) -> InboxQuestion:
        """The question, if it can be decided now. Raises `DecidedAlready` or `QuestionClosed`."""
        waiting = self._open.get(id_)
        if waiting is None:
            outcome = self.outcome(id_)
            if outcome is not None and outcome.decision is not None:
                raise DecidedAlready(outcome.decision, outcome)
            raise QuestionClosed(outcome)
        if waiting.decision is not None:
            raise DecidedAlready(waiting.decision, None)
        return waiting.question

    async def decide(self, id_: str, decision: InboxDecision) -> InboxOutcome:
        """Decide a question, and return its outcome once the conversation has acknowledged it.

        Raises `DecidedAlready` or `QuestionClosed`. In the second case the agent did not get the decision. Raises
        `DecisionNotAcknowledged` if that is not known; then the question is still open here.
        """
        self.check_open(id_)
        waiting = self._open[id_]
        waiting.decision = decision
        try:
            await waiting.apply(decision)
        finally:
            # If the question is still open, the conversation did not take the decision.
            waiting.decision = None
        outcome = self.outcome(id_)
        # The node that has a question may make a lasting yes narrower; it has answered that this decision counts.
        is_taken = outcome is not None and (waiting.question.node or outcome.decision is decision)
        if outcome is None or not is_taken:
            raise QuestionClosed(outcome)
        return outcome

    def close(self, id_: str, state: OutcomeState) -> None:
        """The question has ended. If a decision is on its way, the agent has got it only if the state is `allowed` or `denied`."""
        waiting = self._open.get(id_)
        if waiting is not None:
            is_decided = state in ("allowed", "denied")
            self.close_with(id_, InboxOutcome(state, self.now(), waiting.decision if is_decided else None))

    def close_with(self, id_: str, outcome: InboxOutcome) -> None:
        """The question has ended like this."""
        waiting = self._open.pop(id_, None)
        if waiting is None:
            return
        self._outcomes[id_] = (waiting.question.connection, outcome)
        while len(self._outcomes) > _MOST_OUTCOMES:
            self._outcomes.popitem(last=False)
        if self._watcher is not None:
            self._watcher.closed(waiting.question, outcome)
        self.changed()
