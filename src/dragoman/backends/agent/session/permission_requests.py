"""The agent's permission requests on their way to a person and back.

Each request is stored here until it is answered. First rules, approvals and settings decide (`permissions.decide`). If
they do not, a consumer that offers the permission tool of the request's class gets a call. For any other consumer the model's
`permission` setting decides, and the user sees that; or a person at the console does (`permissions.inbox`). Then the
request waits, and the reply stays open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from dragoman.acp.messages import PermissionRequest, ToolActivity
from dragoman.backends.agent.machine.types import (
    CallAnswer,
    Called,
    CallWithdrawn,
    Granted,
    MachineEvent,
    Pending,
    Refused,
    Spoke,
    TimedOut,
    TurnCancelled,
)
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.reply.narrator import new_activity_id
from dragoman.backends.agent.session.actions import action_of, choose, permission_call
from dragoman.backends.agent.session.approved_commands import ApprovedCommands
from dragoman.backends.agent.session.approved_edits import ApprovedEdits
from dragoman.backends.agent.session.console_requests import ConsoleRequests, WaitingRequest
from dragoman.clock import Clock
from dragoman.conversations.vscode_results import UNASKED
from dragoman.journal.agent_events import AgentEvent, PermissionDecided
from dragoman.journal.decision_text import at_console
from dragoman.journal.permission_event import permission_requested
from dragoman.jsonrpc import Incoming
from dragoman.lm import ActivityNote, JsonObject, Part, ToolDefinition, ToolResultPart
from dragoman.lm.gfm import escape, notice_part
from dragoman.permissions.action import Action, is_permission_tool
from dragoman.permissions.decide import Allowed, Ask, RefusedByRule, StepDecision, unasked, without_folders
from dragoman.permissions.grants import Grants
from dragoman.permissions.inbox import InboxDecision
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import in_one_line
from dragoman.permissions.record import By
from dragoman.permissions.verdict import MatchedRule

__all__ = ["PermissionRequests", "answer_agent", "verdict"]

_CANCELLED = {"outcome": {"outcome": "cancelled"}}
# The most requests that may be open in one conversation: people decide one by one.
_MAX_OPEN = 64
_MAX_OPEN_BYTES = 16 * 1024 * 1024
# How a consumer's result reads when the person gave a reason.
_WITH_REASON = "Tool use rejected with user message: "
_NEEDS_PERSON = "This needs a person, whatever the settings say."
_NO_PERSON = "No person could be asked."


@dataclass(frozen=True, slots=True)
class _DecidedUnasked:
    """A request that was decided without a person: the answer to the agent, and what the user sees of it.

    The chat that switched a mode on shows what the mode allows, with the change.
    """

    answer: Granted | Refused
    shown: Part | None

    @property
    def granted(self) -> bool:
        return isinstance(self.answer, Granted)


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
        console_requests: ConsoleRequests,
    ) -> None:
        """`record` puts an event into the conversation's journal. `console_requests` has those that wait at the console."""
        self._record = record
        self._clock = clock
        self._console_requests = console_requests
        # The front end that the latest request came from, the program behind it, the id of the response to it, and whether
        # the program sees parts when they are reported.
        self.where = ""
        self.program = ""
        self.response_id: str | None = None
        self.is_live = True
        # Whether the client may learn where the operator's files are.
        self.sees_paths = True
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
        self.commands = ApprovedCommands()
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

    def changed_paths(self, action: Action) -> tuple[str, ...]:
        """The absolute paths of the files that an action may change."""
        if action.risk not in ("edit", "delete"):
            return ()
        places = self._permissions.places(self._folders)
        return tuple(places.absolute(path, action.folder) for path in action.paths if "\0" not in path)

    def changed_texts(self, action: Action) -> tuple[tuple[str, str | None, str], ...]:
        """The diffs that the person was shown: absolute path, old text, new text."""
        places = self._permissions.places(self._folders)
        return tuple(
            (places.absolute(diff.path, action.folder), diff.old, diff.new)
            for diff in action.diffs
            if "\0" not in diff.path
        )

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
        waiting = WaitingRequest(
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
            if asked == "client":
                self._hand_over(self._pending(waiting), incoming, dispatch)
            else:
                self._hand_over(self._ask_at_console(waiting, dispatch), incoming, dispatch)
                self._console_requests.announce(action, self.response_id, dispatch, is_live=self.is_live)
            return
        notice_text = answer(asked.answer)
        if asked.shown is not None:
            dispatch(Spoke(asked.shown))
        if notice_text:
            dispatch(Spoke(notice_part(notice_text)))

    def record_cancelled(self, action: Action) -> None:
        """Record a request that came when its turn was cancelled already, and was refused."""
        call_id = self._new_call_id()
        self._record(permission_requested(call_id, action))
        why = "its turn was cancelled"
        self._record(
            PermissionDecided(call_id, is_allowed=False, by="end", where=self.where, seconds=0.0, why=why)
        )

    def _pending(self, waiting: WaitingRequest) -> Pending:
        nonce = self._permissions.grants.open(waiting)
        call = permission_call(waiting.action, waiting.call_id, nonce)
        return Pending(waiting.key, "permission", call)

    @property
    def _waiting(self) -> tuple[WaitingRequest, ...]:
        every = self._permissions.grants.of_conversation(self._conversation)
        by_client = tuple(each for each in every if isinstance(each, WaitingRequest))
        return (*by_client, *self._console_requests.waiting)

    def _ask_at_console(self, waiting: WaitingRequest, dispatch: Callable[[MachineEvent], None]) -> Pending:
        def decided(decision: InboxDecision | None) -> None:
            """Record a person's decision; None: there was none in time."""
            if decision is None:
                self._decided(waiting, "timeout", None, allowed=False, where="console")
                return
            self._decided(
                waiting,
                "person",
                decision.reason,
                allowed=decision.is_allowed,
                where=at_console(decision.by),
                new_rule=decision.new_rule,
                level=decision.level,
            )

        client = self.program or self.where
        return self._console_requests.ask(
            waiting, dispatch, decided, client=client, approval_session=self.session
        )

    def _before_asking(
        self, asked: WaitingRequest, decision: StepDecision
    ) -> _DecidedUnasked | Literal["client", "console"]:
        """What rules, approvals and settings decide, or who is asked."""
        action = asked.action
        if isinstance(decision, Allowed):
            self._decided(asked, decision.by, decision.reason, allowed=True)
            if decision.by == "mode":
                return _DecidedUnasked(Granted(), None)
            line = f"{in_one_line(action, 'may')} · {self._for_client(decision.why, decision.rules)}"
            note = ActivityNote(new_activity_id(), line, "other", "completed", text=f"\n\n✓ {escape(line)}\n")
            return _DecidedUnasked(Granted(), note)
        if isinstance(decision, RefusedByRule):
            self._decided(asked, "rule", decision.why, allowed=False)
            return _refused_unasked(action, self._for_client(decision.why, decision.rules))
        asks_client = action.permission_tool in self._permission_tools
        if not asks_client and (decided := self._unasked(asked)) is not None:
            return decided
        waiting = self._waiting
        size = asked.size + sum(each.size for each in waiting)
        if len(waiting) >= _MAX_OPEN or size > _MAX_OPEN_BYTES:
            self._decided(asked, "limit", None, allowed=False)
            reason = "Too many requests of this agent wait for a decision already."
            shown = f"{escape(in_one_line(action))}. It was refused, because too many of its requests wait already."
            return _DecidedUnasked(Refused(reason, by="no_one"), notice_part(shown))
        return "client" if asks_client else "console"

    def _unasked(self, asked: WaitingRequest) -> _DecidedUnasked | None:
        """The client offers no permission tool for this. None: a person at the console is asked."""
        action, ask, setting = asked.action, asked.ask, self._settings.permission
        decision = unasked(setting, needs_person=ask.needs_person, read=action.risk == "read")
        if decision == "allowed":
            self._decided(asked, "setting", f"permission = {setting}", allowed=True)
            words = f"This client cannot ask you, so {self._setting} allowed it."
            return _DecidedUnasked(Granted(), notice_part(escape(f"{in_one_line(action)}. {words}")))
        if decision == "console" and self._console_requests.is_reachable:
            return None
        why = ""
        if ask.because is not None:
            self._decided(asked, "unasked", f"{ask.because} {_NO_PERSON}", allowed=False)
            why = f"{self._for_client(ask.because, ask.rules)} {_NEEDS_PERSON}"
        elif ask.needs_person:
            self._decided(asked, "unasked", "it needs a person", allowed=False)
            why = f"{_NEEDS_PERSON} {self._without_person(action)}"
        elif decision == "console":
            self._decided(asked, "unasked", _NO_PERSON, allowed=False)
            why = f"By {self._setting} a person decides."
        else:
            self._decided(asked, "setting", f"permission = {setting}", allowed=False)
            why = f"It is refused by {self._setting}."
        unreachable = self._console_requests.why_unreachable if decision == "console" else ""
        if not (unreachable and self._console_requests.exists):
            # Where there is a console, that is the easier way.
            why = f"The client offers no tool {action.permission_tool}. {why}".rstrip()
        return _refused_unasked(action, why, unreachable)

    @property
    def agent_settings(self) -> AgentSettings:
        return self._settings

    @property
    def agent_name(self) -> str:
        return self._settings.name

    @property
    def _file(self) -> str:
        """The configuration file, as the client may see it."""
        file = self._settings.config_file
        return "the configuration" if file is None else str(file) if self.sees_paths else file.name

    @property
    def _setting(self) -> str:
        """The setting that decides where the client cannot be asked."""
        settings = self._settings
        place = f"[models.{settings.model_id}] of {self._file}"
        if settings.permission == "ask":
            # It is the default, so the file need not have it.
            return f'permission = "ask" (the default; {place} can have another)'
        return f'permission = "{settings.permission}" in {place}'

    def _without_person(self, action: Action) -> str:
        """What has to be changed so that an action needs no person."""
        if action.sensitive is not None:
            return f"Only a rule with sensitive = true in [[policy]] of {self._file} can allow it."
        return f"eligible in [tools] of {self._file} says so."

    def _for_client(self, text: str, rules: tuple[MatchedRule, ...]) -> str:
        return text if self.sees_paths else without_folders(text, rules)

    def take_decision(self, result: ToolResultPart) -> Granted | Refused:
        """What a client's result decides about the request that it answers. It is recorded before the agent gets it."""
        answer = verdict(self._permissions.grants, result)
        waiting = self._permissions.grants.waiting(result.call_id)
        if isinstance(waiting, WaitingRequest):
            is_by_user = isinstance(answer, Granted) or answer.by == "person"
            by: By = "person" if is_by_user else "timeout" if result.outcome == "timed_out" else "client"
            why = answer.reason if isinstance(answer, Refused) else None
            self._decided(waiting, by, why, allowed=isinstance(answer, Granted))
        return answer

    def answer(self, pending: Pending, answer: CallAnswer) -> str | None:
        """Respond to the agent. Returns a notice for the user, if there is one."""
        if pending.at_console:
            return self._console_requests.answer(pending, answer, self._respond)
        waiting = self._permissions.grants.close(pending.call_id)
        if not isinstance(waiting, WaitingRequest):
            return None
        return self._respond(waiting, answer)

    def _respond(self, waiting: WaitingRequest, answer: CallAnswer) -> str | None:
        notice_text = waiting.answer(answer)
        if isinstance(answer, Granted) and notice_text is not None:
            # The agent's own options did not allow what the person did.
            self._decided(waiting, "end", notice_text, allowed=False)
        elif not isinstance(answer, Granted | Refused):
            by: By = "timeout" if isinstance(answer, TimedOut) else "end"
            self._decided(waiting, by, None, allowed=False)
        match answer:
            case Refused(reason=reason, by="no_one"):
                return _unasked_notice(waiting.action, reason)
            case Refused(reason=reason, by="timeout"):
                # The reason is ours, and has the console's address in it: a link.
                return f"{escape(in_one_line(waiting.action))}. {reason} So it was refused."
            case _:
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
        waiting = self._console_requests.close(call_id) or self._permissions.grants.close(call_id)
        if isinstance(waiting, WaitingRequest):
            self._decided(waiting, "end", "the agent withdrew it", allowed=False)
            waiting.answer(TurnCancelled())

    def end_turn(self) -> None:
        """Forget the edits and commands that were approved in this turn."""
        self.turn += 1
        self.edits.clear()
        self.commands.clear()

    def close(self) -> None:
        """Close all requests, because the agent is gone: none can be answered, and none may be granted."""
        self.end_turn()
        for waiting in self._waiting:
            if self._console_requests.close(waiting.call_id) is None:
                self._permissions.grants.close(waiting.call_id)
            self._decided(waiting, "end", "the agent ended", allowed=False)

    def _decided(
        self,
        waiting: WaitingRequest,
        by: By,
        why: str | None,
        *,
        allowed: bool,
        where: str | None = None,
        new_rule: str | None = None,
        level: str = "once",
    ) -> None:
        self._permissions.record.decided(waiting.record_id, allowed=allowed, by=by, why=why)
        took = round(self._clock.now() - waiting.since, 3)
        self._record(
            PermissionDecided(waiting.call_id, allowed, by, where or self.where, took, why, new_rule, level)
        )


def _refused_unasked(action: Action, reason: str, unreachable: str = "") -> _DecidedUnasked:
    """`unreachable` is ours and holds a link, so it is shown as it is."""
    shown = f"{_unasked_notice(action, reason)} {unreachable}".rstrip()
    refused = Refused(f"{reason} {unreachable}".strip(), by="no_one")
    return _DecidedUnasked(refused, notice_part(shown))


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
            said = f"The user was not asked. {answer.reason}" if answer.by == "no_one" else answer.reason
            # `unasked`: the reason is not a person's words.
            remark: JsonObject = (
                {"reason": said} if answer.by == "person" else {"reason": said, "unasked": True}
            )
            selected["_meta"] = {"dragoman": remark}
        incoming.reply(selected)
    return choice.notice


def verdict(grants: Grants, result: ToolResultPart) -> Granted | Refused:
    """What a result says about the permission it answers: granted only if it carries the proof."""
    if not result.is_error and grants.redeem(result.call_id, result.text):
        return Granted()
    if result.outcome in UNASKED or result.outcome == "timed_out":
        return Refused(result.text, by="no_one")
    return Refused(result.text.removeprefix(_WITH_REASON) if result.text.startswith(_WITH_REASON) else None)
