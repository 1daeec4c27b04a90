"""The agent's permission requests on their way to a person and back.

Each request is stored here until it is answered. First rules, approvals and settings decide (`permissions.decide`). If
they do not, a consumer that offers the permission tool of the request's class gets a call. For any other consumer the model's
`permission` setting decides, and the user sees that; or a person at the console does (`permissions.inbox`). Then the
request waits, and the reply stays open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from msgspec.structs import replace

from dragoman.acp.messages import PermissionRequest, ToolActivity
from dragoman.backends.agent.machine.types import (
    CallAnswer,
    Called,
    CallWithdrawn,
    Decided,
    Granted,
    MachineEvent,
    Noticed,
    Pending,
    Refused,
    Spoke,
    TimedOut,
    TurnCancelled,
)
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.reply.narrator import new_activity_id
from dragoman.backends.agent.session.actions import action_of, choose, permission_call
from dragoman.backends.agent.session.approved_edits import ApprovedEdits
from dragoman.clock import Clock
from dragoman.conversations.vscode_results import UNASKED
from dragoman.journal.agent_events import AgentEvent, PermissionDecided
from dragoman.journal.permission_event import permission_requested
from dragoman.jsonrpc import Incoming
from dragoman.lm import ActivityNote, JsonObject, Part, TextPart, ToolDefinition, ToolResultPart
from dragoman.lm.gfm import escape, notice
from dragoman.permissions.action import Action, is_permission_tool
from dragoman.permissions.decide import Allowed, Ask, RefusedByRule, StepDecision, unasked
from dragoman.permissions.grants import Grants, PendingPermission
from dragoman.permissions.inbox import InboxDecision, OutcomeState
from dragoman.permissions.layout import in_short
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import in_one_line
from dragoman.permissions.record import By

__all__ = ["PermissionRequests", "answer_agent", "verdict"]

_LONGEST_NAME = 60
_CANCELLED = {"outcome": {"outcome": "cancelled"}}
# The most requests that may be open in one conversation: people decide one by one.
_MAX_OPEN = 64
_MAX_OPEN_BYTES = 16 * 1024 * 1024
# How a consumer's result reads when the person gave a reason.
_WITH_REASON = "Tool use rejected with user message: "
_NEEDS_PERSON = "This needs a person, whatever the settings say."
_AT_CONSOLE = "{what}. A person can decide at {address}{response}. Until then the agent waits."
_NO_ONE_THERE = "No person is at the console. Open {address}, pair the browser, and try again."
_NO_CONSOLE = "No person can be asked here."
_TOO_LATE = "No person decided at {address} in time."
_NOBODY = "No person could be asked."


@dataclass(frozen=True, slots=True)
class _DecidedUnasked:
    """A request that was decided without a person: the answer to the agent, and what the user sees of it."""

    answer: Granted | Refused
    shown: Part

    @property
    def granted(self) -> bool:
        return isinstance(self.answer, Granted)


@dataclass(frozen=True, slots=True)
class _Waiting(PendingPermission):
    """A permission request of the agent. `answer` responds to the agent, and returns a notice for the user."""

    key: str
    answer: Callable[[CallAnswer], str | None]
    # The bytes of the request, which stays in memory until it is answered.
    size: int
    record_id: str
    since: float


@dataclass(slots=True)
class _AtConsole:
    """A request that waits at the console, under this id of the inbox."""

    waiting: _Waiting
    id: str
    dispatch: Callable[[MachineEvent], None]
    # Cancels the time limit.
    cancel_expiry: Callable[[], object]


async def _nothing() -> None:
    """Store nothing."""


def _never(_seconds: float, _call: Callable[[], None]) -> Callable[[], object]:
    """There is no clock to call anything by."""
    return lambda: None


class PermissionRequests:
    """The permission requests of one conversation that wait for an answer."""

    def __init__(
        self,
        conversation: str,
        workspace: tuple[str, ...],
        permissions: PermissionServices,
        settings: AgentSettings,
        new_call_id: Callable[[], str],
        record: Callable[[AgentEvent], None],
        clock: Clock,
        *,
        connection: str = "",
        store: Callable[[], Awaitable[None]] = _nothing,
        later: Callable[[float, Callable[[], None]], Callable[[], object]] = _never,
        on_console: Callable[[], None] = lambda: None,
    ) -> None:
        """`record` puts an event into the conversation's journal, and `store` returns when the events there are stored.

        `later` calls a function after so many seconds, unless what it returns is called before. `on_console` is called when a request begins to wait at the console.
        """
        self._record = record
        self._clock = clock
        self._connection = connection
        self._store = store
        self._later = later
        self._on_console = on_console
        # By their call ids.
        self._at_console: dict[str, _AtConsole] = {}
        # The front end that the latest request came from, the program behind it, and the id of the response to it.
        self.where = ""
        self.program = ""
        self.response_id: str | None = None
        self._conversation = conversation
        self._folders = workspace
        self._workspace = workspace[0]
        self._permissions = permissions
        self._settings = settings
        self._new_call_id = new_call_id
        # Of the latest request: the consumer's own tools, and the names of the permission tools that it offers.
        self.tools: tuple[ToolDefinition, ...] = ()
        self._permission_tools: frozenset[str] = frozenset()
        # Whether the agent's requests to call the consumer's own tools are trusted, and granted without a question.
        self.recognises = True
        # What approvals "for this session" are bound to.
        self.session = conversation
        # What was approved in the turn under way, and which turn that is: a number, to see that it is another.
        self.edits = ApprovedEdits()
        self.turn = 0

    def set_tools(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Set the tools of a request. Permission tools are for the consumer only, and are not offered to the agent."""
        self.tools = tuple(tool for tool in tools if not is_permission_tool(tool.name))
        self._permission_tools = frozenset(tool.name for tool in tools if is_permission_tool(tool.name))

    def takes(self, tool: str, arguments: object) -> bool:
        """Whether the consumer's tool has parameters of these names. Other arguments do not belong to that tool."""
        definition = next((each for each in self.tools if each.name == tool), None)
        if definition is None or not isinstance(arguments, dict | None):
            return False
        properties = (definition.input_schema or {}).get("properties")
        return not isinstance(properties, dict) or set(arguments or {}) <= set(properties)

    def describe(self, activity: ToolActivity, request: PermissionRequest | None = None) -> Action:
        """What a tool call of the agent's would do here."""
        settings, places = self._settings, self._permissions.places(self._folders)
        return action_of(activity, settings.model_id, settings.name, places, request)

    def decide(self, action: Action, *, read_only: bool = False) -> StepDecision:
        """What rules, approvals and settings say. `read_only`: it needs no question if nothing speaks against it."""
        return self._permissions.decide(action, self.session, self._folders, read_only=read_only)

    def refusal_of_tool(self, action: Action, tool: str) -> RefusedByRule | None:
        """The rule that refuses a call of the consumer's tool. The consumer asks about its tools, so no other step counts."""
        decision = self.decide(replace(action, tool=tool))
        return decision if isinstance(decision, RefusedByRule) else None

    def submit(
        self,
        action: Action,
        incoming: Incoming,
        answer: Callable[[CallAnswer], str | None],
        dispatch: Callable[[MachineEvent], None],
        decision: StepDecision | None = None,
    ) -> None:
        """Decide about an action of the agent's, or ask a person. `decision` is what `decide` said, if it was called.

        `answer` responds to the agent, once, and returns a notice for the user. `dispatch` sends the conversation an event.
        """
        key = f"permission:{incoming.id!r}"
        decision = decision or self.decide(action)
        ask = decision if isinstance(decision, Ask) else Ask(once=True)
        waiting = _Waiting(
            self._new_call_id(),
            action,
            self._conversation,
            key,
            answer,
            len(incoming.params),
            self._permissions.record.add_request(action, self.session, self._workspace, once=ask.once),
            self._clock.now(),
            ask=ask,
        )
        self._record(permission_requested(waiting.call_id, action))
        asked = self._before_asking(waiting, decision)
        if not isinstance(asked, _DecidedUnasked):
            pending = self._pending(waiting) if asked == "client" else self._ask_at_console(waiting, dispatch)
            self._hand_over(pending, incoming, dispatch)
            if asked == "console":
                dispatch(Noticed(TextPart(notice(self._waiting_notice(action)))))
                self._on_console()
            return
        notice_text = answer(asked.answer)
        dispatch(Spoke(asked.shown))
        if notice_text:
            dispatch(Spoke(TextPart(notice(notice_text))))

    def record_cancelled(self, action: Action) -> None:
        """Record a request that came when its turn was cancelled already, and was refused."""
        call_id = self._new_call_id()
        self._record(permission_requested(call_id, action))
        why = "its turn was cancelled"
        self._record(
            PermissionDecided(call_id, is_allowed=False, by="end", where=self.where, seconds=0.0, why=why)
        )

    def _pending(self, waiting: _Waiting) -> Pending:
        nonce = self._permissions.grants.open(waiting)
        call = permission_call(waiting.action, waiting.call_id, nonce)
        return Pending(waiting.key, "permission", call)

    @property
    def _waiting(self) -> tuple[_Waiting, ...]:
        every = self._permissions.grants.of_conversation(self._conversation)
        by_client = tuple(each for each in every if isinstance(each, _Waiting))
        return (*by_client, *(each.waiting for each in self._at_console.values()))

    @property
    def console_since(self) -> float | None:
        """Since when a request waits at the console, by the clock; None if none does."""
        return min((each.waiting.since for each in self._at_console.values()), default=None)

    def _ask_at_console(self, waiting: _Waiting, dispatch: Callable[[MachineEvent], None]) -> Pending:
        """Ask a person at the console. The consumer gets no call."""
        inbox = self._permissions.inbox
        id_ = inbox.open(
            waiting.action,
            waiting.ask,
            partial(self._take_console_decision, waiting.call_id),
            conversation=self._conversation,
            connection=self._connection,
            client=self.program or self.where,
            session=self.session,
            workspace=self._folders,
        )
        expiry = self._later(inbox.decide_seconds, partial(self._expire, waiting.call_id))
        self._at_console[waiting.call_id] = _AtConsole(waiting, id_, dispatch, expiry)
        # Nothing can be done with the call: it has no nonce, and is never sent.
        call = permission_call(waiting.action, waiting.call_id, "")
        return Pending(waiting.key, "permission", call, at_console=True)

    def _waiting_notice(self, action: Action) -> str:
        response = "" if self.response_id is None else f" (response `{self.response_id}`)"
        what = escape(in_one_line(action))
        return _AT_CONSOLE.format(what=what, address=self._permissions.inbox.address, response=response)

    async def _take_console_decision(self, call_id: str, decision: InboxDecision) -> bool:
        """A person at the console has decided. Returns whether the agent got that. It is stored before."""
        asked = self._at_console.get(call_id)
        if asked is None:
            return False
        self._decided(
            asked.waiting,
            "person",
            decision.reason,
            allowed=decision.is_allowed,
            where=f"console: {decision.by}",
            new_rule=decision.new_rule,
        )
        await self._store()
        if self._at_console.get(call_id) is not asked:
            return False
        asked.dispatch(Noticed(_decided_note(asked.waiting.action, decision)))
        answer = Granted() if decision.is_allowed else Refused(decision.reason)
        asked.dispatch(Decided(asked.waiting.key, answer))
        return call_id not in self._at_console

    def _expire(self, call_id: str) -> None:
        """No person has decided in time: the request is refused."""
        asked = self._at_console.get(call_id)
        if asked is None:
            return
        reason = _TOO_LATE.format(address=self._permissions.inbox.address)
        self._decided(asked.waiting, "timeout", reason, allowed=False)
        asked.dispatch(Decided(asked.waiting.key, Refused(reason, by_user=False)))

    def _close_console(self, call_id: str) -> _Waiting | None:
        """Close the question at the console, if there is one, without a decision."""
        asked = self._at_console.pop(call_id, None)
        if asked is None:
            return None
        asked.cancel_expiry()
        self._permissions.inbox.close(asked.id, "ended")
        return asked.waiting

    def _before_asking(
        self, asked: _Waiting, decision: StepDecision
    ) -> _DecidedUnasked | Literal["client", "console"]:
        """What rules, approvals and settings decide, or who is asked."""
        action = asked.action
        if isinstance(decision, Allowed):
            self._decided(asked, decision.by, decision.reason, allowed=True)
            line = f"{in_one_line(action, 'may')} · {decision.why}"
            note = ActivityNote(new_activity_id(), line, "other", "completed", text=f"\n\n✓ {escape(line)}\n")
            return _DecidedUnasked(Granted(), note)
        if isinstance(decision, RefusedByRule):
            self._decided(asked, "rule", decision.why, allowed=False)
            return _refused_unasked(action, decision.why)
        asks_client = action.permission_tool in self._permission_tools
        if not asks_client and (decided := self._unasked(asked)) is not None:
            return decided
        waiting = self._waiting
        size = asked.size + sum(each.size for each in waiting)
        if len(waiting) >= _MAX_OPEN or size > _MAX_OPEN_BYTES:
            self._decided(asked, "limit", None, allowed=False)
            reason = "Too many requests of this agent wait for a decision already."
            shown = f"{escape(in_one_line(action))}. It was refused, because too many of its requests wait already."
            return _DecidedUnasked(Refused(reason, by_user=False), TextPart(notice(shown)))
        return "client" if asks_client else "console"

    def _unasked(self, asked: _Waiting) -> _DecidedUnasked | None:
        """The client offers no permission tool for this. None: a person at the console is asked."""
        action, ask, setting = asked.action, asked.ask, self._settings.permission
        decision = unasked(setting, needs_person=ask.needs_person, read=action.risk == "read")
        if decision == "allowed":
            self._decided(asked, "setting", f"permission = {setting}", allowed=True)
            words = f'This client cannot ask you, so the setting `permission = "{setting}"` allowed it.'
            return _DecidedUnasked(Granted(), TextPart(notice(f"{escape(in_one_line(action))}. {words}")))
        inbox = self._permissions.inbox
        if decision == "console" and inbox.address and inbox.is_reachable(self._connection):
            return None
        why = ""
        if ask.because is not None:
            self._decided(asked, "unasked", f"{ask.because} {_NOBODY}", allowed=False)
            why = f"{ask.because} {_NEEDS_PERSON}"
        elif ask.needs_person:
            self._decided(asked, "unasked", "it needs a person", allowed=False)
            why = _NEEDS_PERSON
        elif decision == "console":
            self._decided(asked, "unasked", _NOBODY, allowed=False)
        else:
            self._decided(asked, "setting", f"permission = {setting}", allowed=False)
            why = f'The setting permission = "{setting}" of [models.{self._settings.model_id}] refuses it.'
        if decision == "console":
            at = _NO_ONE_THERE.format(address=inbox.address) if inbox.address else _NO_CONSOLE
            why = f"{why} {at}".lstrip()
        return _refused_unasked(action, f"The client offers no tool {action.permission_tool}. {why}")

    def take_decision(self, result: ToolResultPart) -> Granted | Refused:
        """What a client's result decides about the request that it answers. It is recorded before the agent gets it."""
        answer = verdict(self._permissions.grants, result)
        waiting = self._permissions.grants.waiting(result.call_id)
        if isinstance(waiting, _Waiting):
            is_by_user = isinstance(answer, Granted) or answer.by_user
            by: By = "person" if is_by_user else "timeout" if result.outcome == "timed_out" else "client"
            why = answer.reason if isinstance(answer, Refused) else None
            self._decided(waiting, by, why, allowed=isinstance(answer, Granted))
        return answer

    def answer(self, pending: Pending, answer: CallAnswer) -> str | None:
        """Respond to the agent. Returns a notice for the user, if there is one."""
        if pending.at_console:
            return self._answer_console(pending, answer)
        waiting = self._permissions.grants.close(pending.call_id)
        if not isinstance(waiting, _Waiting):
            return None
        return self._respond(waiting, answer)

    def _answer_console(self, pending: Pending, answer: CallAnswer) -> str | None:
        asked = self._at_console.pop(pending.call_id, None)
        if asked is None:
            return None
        asked.cancel_expiry()
        text = self._respond(asked.waiting, answer)
        state: OutcomeState = "ended"
        if isinstance(answer, Granted) and text is None:
            state = "allowed"
        elif isinstance(answer, Refused):
            state = "denied" if answer.by_user else "expired"
        self._permissions.inbox.close(asked.id, state)
        return text

    def _respond(self, waiting: _Waiting, answer: CallAnswer) -> str | None:
        notice_text = waiting.answer(answer)
        if isinstance(answer, Granted) and notice_text is not None:
            # The agent's own options did not allow what the person did.
            self._decided(waiting, "end", notice_text, allowed=False)
        elif not isinstance(answer, Granted | Refused):
            by: By = "timeout" if isinstance(answer, TimedOut) else "end"
            self._decided(waiting, by, None, allowed=False)
        if isinstance(answer, Refused) and not answer.by_user:
            return _unasked_notice(waiting.action, answer.reason)
        return notice_text

    def _hand_over(
        self, pending: Pending, incoming: Incoming, dispatch: Callable[[MachineEvent], None]
    ) -> None:
        """Pass the request to the conversation. It ends when the agent withdraws the request."""

        def withdrawn() -> None:
            self._withdraw(pending.call_id)
            dispatch(CallWithdrawn(pending.key))

        incoming.token.on_cancel(withdrawn)
        dispatch(Called(pending))

    def _withdraw(self, call_id: str) -> None:
        """The agent does not wait any more. It gets an answer all the same, if it had none yet."""
        waiting = self._close_console(call_id) or self._permissions.grants.close(call_id)
        if isinstance(waiting, _Waiting):
            self._decided(waiting, "end", "the agent withdrew it", allowed=False)
            waiting.answer(TurnCancelled())

    def end_turn(self) -> None:
        """Forget the edits that were approved in this turn."""
        self.turn += 1
        self.edits.clear()

    def close(self) -> None:
        """Close all requests, because the agent is gone: none can be answered, and none may be granted."""
        self.end_turn()
        for waiting in self._waiting:
            if self._close_console(waiting.call_id) is None:
                self._permissions.grants.close(waiting.call_id)
            self._decided(waiting, "end", "the agent ended", allowed=False)

    def _decided(
        self,
        waiting: _Waiting,
        by: By,
        why: str | None,
        *,
        allowed: bool,
        where: str | None = None,
        new_rule: str | None = None,
    ) -> None:
        self._permissions.record.decided(waiting.record_id, allowed=allowed, by=by, why=why)
        took = round(self._clock.now() - waiting.since, 3)
        self._record(
            PermissionDecided(waiting.call_id, allowed, by, where or self.where, took, why, new_rule)
        )


def _refused_unasked(action: Action, reason: str) -> _DecidedUnasked:
    shown = TextPart(notice(_unasked_notice(action, reason)))
    return _DecidedUnasked(Refused(reason, by_user=False), shown)


def _decided_note(action: Action, decision: InboxDecision) -> ActivityNote:
    """A line for the user of the client, who sees nothing of the console."""
    mark, word = ("✓", "allowed") if decision.is_allowed else ("✗", "denied")
    by = in_short(decision.by, _LONGEST_NAME)
    line = f"{in_one_line(action)} · {word} at the console by {by}"
    return ActivityNote(new_activity_id(), line, "other", "completed", text=f"\n\n{mark} {escape(line)}\n")


def _unasked_notice(action: Action, reason: str | None) -> str:
    why = f" {escape(reason)}" if reason else ""
    return f"{escape(in_one_line(action))}. You were not asked, so it was refused.{why}"


def answer_agent(request: PermissionRequest, incoming: Incoming, answer: CallAnswer) -> str | None:
    """Choose among the agent's own options, by kind, never wider than what was decided."""
    if not isinstance(answer, Granted | Refused):
        incoming.reply(_CANCELLED)
        return None
    choice = choose(request, granted=isinstance(answer, Granted))
    if choice.option is None:
        incoming.reply(_CANCELLED)
    else:
        selected: JsonObject = {"outcome": {"outcome": "selected", "optionId": choice.option}}
        if isinstance(answer, Refused) and answer.reason:
            # ACP has no place for it but this one; an agent that does not look there gets the plain refusal.
            remark: JsonObject = (
                {"reason": answer.reason}
                if answer.by_user
                else {"reason": f"The user was not asked. {answer.reason}", "unasked": True}
            )
            selected["_meta"] = {"dragoman": remark}
        incoming.reply(selected)
    return choice.notice


def verdict(grants: Grants, result: ToolResultPart) -> Granted | Refused:
    """What a result says about the permission it answers: granted only if it carries the proof."""
    if not result.is_error and grants.redeem(result.call_id, result.text):
        return Granted()
    if result.outcome in UNASKED or result.outcome == "timed_out":
        return Refused(result.text, by_user=False)
    return Refused(result.text.removeprefix(_WITH_REASON) if result.text.startswith(_WITH_REASON) else None)
