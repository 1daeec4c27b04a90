"""The permission requests of one conversation that wait at the console, because the client cannot be asked.

A request is in the inbox (`permissions.inbox`) and pending in the machine, until a person decides, the time is over, or its
turn ends. A person's decision is stored before the agent gets it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from dragoman.backends.agent.machine.types import (
    CallAnswer,
    Decided,
    Granted,
    MachineEvent,
    Noticed,
    Pending,
    Refused,
)
from dragoman.backends.agent.reply.narrator import new_activity_id
from dragoman.backends.agent.session.actions import permission_call
from dragoman.lm import ActivityNote
from dragoman.lm.gfm import escape, notice_part, plain
from dragoman.permissions.action import Action
from dragoman.permissions.grants import PendingPermission
from dragoman.permissions.inbox import Inbox, InboxDecision, OutcomeState
from dragoman.permissions.question import in_one_line

__all__ = ["ConsoleRequests", "WaitingRequest"]

_AT_CONSOLE = "{what}. A person can decide at {address} and the agent waits until then.{rest}"
_REST = " If this takes long, `GET /v1/responses/{id}` has the rest."
_TOO_LATE = "No person decided at {address} in time."


@dataclass(frozen=True, slots=True)
class WaitingRequest(PendingPermission):
    """A permission request of the agent. `answer` responds to the agent, and returns a notice for the user."""

    key: str
    answer: Callable[[CallAnswer], str | None]
    # The bytes of the request, which stays in memory until it is answered.
    size: int
    record_id: str
    since: float


@dataclass(frozen=True, slots=True)
class _AtConsole:
    """A request with its id in the inbox."""

    waiting: WaitingRequest
    id: str
    dispatch: Callable[[MachineEvent], None]
    # Records a person's decision, or that there was none in time.
    decided: Callable[[InboxDecision | None], None]
    # Cancels the time limit.
    cancel_expiry: Callable[[], object]


class ConsoleRequests:
    """Asks at the console, and brings the decision to the conversation."""

    def __init__(
        self,
        inbox: Inbox,
        conversation: str,
        connection: str,
        workspace: tuple[str, ...],
        *,
        store: Callable[[], Awaitable[None]],
        later: Callable[[float, Callable[[], None]], Callable[[], object]],
        on_asked: Callable[[], None],
    ) -> None:
        """`store` returns when the conversation's events are stored. `on_asked` is called after each question.

        `later` calls a function after so many seconds, unless what it returns is called before.
        """
        self._inbox = inbox
        self._conversation = conversation
        self._connection = connection
        self._workspace = workspace
        self._store = store
        self._later = later
        self._on_asked = on_asked
        # By their call ids.
        self._asked: dict[str, _AtConsole] = {}

    @property
    def waiting(self) -> tuple[WaitingRequest, ...]:
        return tuple(each.waiting for each in self._asked.values())

    @property
    def since(self) -> float | None:
        """Since when a request waits, by the clock; None if none does."""
        return min((each.since for each in self.waiting), default=None)

    @property
    def exists(self) -> bool:
        """Whether there is a console that can be used."""
        return bool(self._inbox.address)

    @property
    def is_reachable(self) -> bool:
        """Whether there is a console, and a person who may decide about this conversation."""
        return self._inbox.is_reachable(self._connection)

    @property
    def why_unreachable(self) -> str:
        return self._inbox.advice

    def ask(
        self,
        waiting: WaitingRequest,
        dispatch: Callable[[MachineEvent], None],
        decided: Callable[[InboxDecision | None], None],
        *,
        client: str,
        approval_session: str,
    ) -> Pending:
        """Ask a person. `dispatch` sends the conversation an event. The consumer gets no call."""
        id_ = self._inbox.open(
            waiting.action,
            waiting.ask,
            partial(self._take, waiting.call_id),
            partial(self._console_ended, waiting.call_id),
            conversation=self._conversation,
            connection=self._connection,
            client=client,
            approval_session=approval_session,
            workspace=self._workspace,
        )
        late = partial(self._give_up, waiting.call_id, _TOO_LATE.format(address=self._inbox.address))
        expiry = self._later(self._inbox.question_seconds, late)
        self._asked[waiting.call_id] = _AtConsole(waiting, id_, dispatch, decided, expiry)
        # Nothing can be done with the call: it has no nonce, and is never sent.
        call = permission_call(waiting.action, waiting.call_id, "")
        return Pending(waiting.key, "permission", call, at_console=True)

    def announce(
        self,
        action: Action,
        response_id: str | None,
        dispatch: Callable[[MachineEvent], None],
        *,
        is_live: bool,
    ) -> None:
        """Say in the open reply where a person can decide.

        It is text for a consumer that sees it now. For one that gets the whole reply it is thinking: the text of a reply
        that has ended does not say that the agent waits.
        """
        rest = "" if response_id is None else _REST.format(id=response_id)
        what = in_one_line(action)
        text = _AT_CONSOLE.format(what=escape(what), address=self._inbox.address, rest=rest)
        if is_live:
            dispatch(Noticed(notice_part(text, is_recorded=False)))
        else:
            line = _AT_CONSOLE.format(what=what, address=self._inbox.address, rest=plain(rest))
            dispatch(Noticed(_note(line, text)))
        self._on_asked()

    async def _take(self, call_id: str, decision: InboxDecision) -> None:
        """A person has decided. `answer` closes the question when the agent has it."""
        asked = self._asked.get(call_id)
        if asked is None:
            return
        asked.decided(decision)
        await self._store()
        if self._asked.get(call_id) is not asked:
            # The turn ended meanwhile, which is recorded, too: the last record counts.
            return
        asked.dispatch(Noticed(_decided_note(asked.waiting.action, decision)))
        answer = Granted() if decision.is_allowed else Refused(decision.reason)
        asked.dispatch(Decided(asked.waiting.key, answer))

    def _console_ended(self, call_id: str, reason: str) -> None:
        """The console has ended before the time was over: the request is refused."""
        asked = self._asked.get(call_id)
        if asked is not None:
            self._inbox.close(asked.id, "ended")
        self._give_up(call_id, reason)

    def _give_up(self, call_id: str, reason: str) -> None:
        """No person has decided in time, or the console has ended: the request is refused."""
        asked = self._asked.get(call_id)
        if asked is not None:
            asked.decided(None)
            asked.dispatch(Decided(asked.waiting.key, Refused(reason, by="timeout")))

    def answer(
        self,
        pending: Pending,
        answer: CallAnswer,
        respond: Callable[[WaitingRequest, CallAnswer], str | None],
    ) -> str | None:
        """Respond to the agent, and close the question. Returns a notice for the user, if there is one."""
        asked = self._asked.pop(pending.call_id, None)
        if asked is None:
            return None
        asked.cancel_expiry()
        text = respond(asked.waiting, answer)
        state: OutcomeState = "ended"
        if isinstance(answer, Granted) and text is None:
            state = "allowed"
        elif isinstance(answer, Refused):
            state = "expired" if answer.by == "timeout" else "denied"
        self._inbox.close(asked.id, state)
        return text

    def close(self, call_id: str) -> WaitingRequest | None:
        """Close a question without a decision, if there is one."""
        asked = self._asked.pop(call_id, None)
        if asked is None:
            return None
        asked.cancel_expiry()
        self._inbox.close(asked.id, "ended")
        return asked.waiting


def _decided_note(action: Action, decision: InboxDecision) -> ActivityNote:
    """A line for the user of the client, who sees nothing of the console."""
    mark, word = ("✓", "allowed") if decision.is_allowed else ("✗", "denied")
    line = f"{in_one_line(action)} · {word} at the console by {decision.by}"
    return _note(line, f"{mark} {escape(line)}")


def _note(title: str, text: str) -> ActivityNote:
    """A note about a question. The journal has the request and its decision as events."""
    note_text = f"\n\n{text}\n"
    return ActivityNote(new_activity_id(), title, "other", "completed", text=note_text, is_recorded=False)
