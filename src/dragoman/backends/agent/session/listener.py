"""The listener of one run of an agent: it turns the agent's messages into events for the conversation.

A listener belongs to one epoch. When the agent has been replaced, the conversation discards its events.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from dragoman.acp.link import TurnEnd
from dragoman.acp.messages import (
    CreateTerminal,
    FileRequest,
    OtherUpdate,
    PermissionRequest,
    SessionUpdate,
    TerminalRequest,
    ToolActivity,
)
from dragoman.backends.agent.machine.types import (
    AgentTurnEnded,
    Announced,
    CallAnswer,
    Called,
    CallWithdrawn,
    Granted,
    MachineEvent,
    Noticed,
    Pending,
    Refused,
    Spoke,
    Steered,
)
from dragoman.backends.agent.prompt.prompting import last_words
from dragoman.backends.agent.reply.announcements import Announcements
from dragoman.backends.agent.session.approved_edits import ApprovedEdits
from dragoman.backends.agent.session.file_requests import FileRequests
from dragoman.backends.agent.session.host import SessionHost
from dragoman.backends.agent.session.permission_requests import answer_agent
from dragoman.backends.agent.session.session import AgentSession
from dragoman.backends.agent.session.terminal_requests import TerminalRequests
from dragoman.backends.agent.toolserver import PendingCall
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL
from dragoman.jsonrpc import REQUEST_CANCELLED, Incoming
from dragoman.lm import (
    ActivityPart,
    LanguageModelError,
    Part,
    PlanPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)
from dragoman.lm.gfm import escape, notice_part

__all__ = ["AgentListener"]

_log = logging.getLogger(__name__)
_OVER = frozenset({"completed", "failed"})
# Kinds that an agent never gives to a call of a consumer's tool.
_CHANGES = frozenset({"edit", "delete", "move"})
# How long to wait for the exit of a crashed agent before a withdrawn call counts.
_CRASH_SECONDS = 0.25


def _is_more_than_words(block: object) -> bool:
    return not (isinstance(block, dict) and block.get("type") == "content")


class AgentListener:
    """Receives ACP messages and tool calls of one run of an agent."""

    def __init__(self, host: SessionHost, epoch: int) -> None:
        self._host = host
        self._epoch = epoch
        self.session: AgentSession | None = None
        # The session has been handed to the conversation.
        self.is_up = False
        # Of calls of the consumer's tools, by the names under which these are offered.
        self._announced = Announcements()
        # Permission requests that were granted as calls of the consumer's tools. A call that never arrives was not one.
        self._allowed: list[tuple[str, str]] = []
        # A person refused a request, and the agent has sent no text since.
        self._is_silenced = False
        # A usage that came while no reply was open.
        self._usage: UsagePart | None = None
        self._file_requests = FileRequests(host, self._dispatch)
        self._terminal_requests = TerminalRequests(host, self._dispatch)

    def _dispatch(self, event: MachineEvent) -> None:
        if (
            isinstance(event, CallWithdrawn)
            and self.session is not None
            and self.session.agent.peer.closed is not None
        ):
            # Not a withdrawal: the agent is gone, and `on_exit` handles its pending calls.
            return
        self._host.receive(self._epoch, event)

    # The connection.

    def on_update(self, update: SessionUpdate) -> None:
        session = self.session
        if session is None:
            return
        if session.may_send_history and session.is_stale(update.update):
            if self._host.is_current(self._epoch):
                self._host.on_stale_update(session)
            return
        if isinstance(update.update, ToolActivity):
            known = session.narrator.known(update.update)
            self._announce(session, known)
        if isinstance(update.update, OtherUpdate) and session.options.take(update.update):
            self._host.on_offer(session)
        for part in session.narrator.parts(update.update):
            if isinstance(part, UsagePart):
                # The next one replaces it, so it does not go to the backlog, but waits for a reply.
                self._usage = part
                self._host.on_usage(part)
                continue
            if self._is_silenced:
                self._is_silenced = isinstance(part, ThinkingPart | ActivityPart | PlanPart)
            self._host.receive(self._epoch, Spoke(part))
        if self._usage is not None:
            self._report_usage()

    def _report_usage(self) -> None:
        """Report the last usage, once a reply is open for it."""
        if self._usage is not None and self._host.is_streaming:
            part, self._usage = self._usage, None
            self._dispatch(Noticed(part))

    def _announce(self, session: AgentSession, activity: ToolActivity) -> None:
        key = activity.tool_call_id
        if activity.status in _OVER:
            if self._announced.end(key):
                self._dispatch(Announced(key, over=True))
            return
        tool = session.own_tool((activity,))
        # A call of the wait tool never reaches the consumer.
        if tool in (None, WAIT_TOOL):
            return
        if self._announced.announce(key, tool, activity.raw_input):
            self._dispatch(Announced(key))

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        session, host = self.session, self._host
        if session is None or not host.is_current(self._epoch) or host.is_cancelling:
            # A cancelled turn grants nothing.
            incoming.reply({"outcome": {"outcome": "cancelled"}})
            if session is not None and host.is_current(self._epoch):
                described = host.permission_requests.describe(
                    session.narrator.known(request.tool_call), request
                )
                host.permission_requests.record_cancelled(described)
            return
        requests = host.permission_requests
        known = session.narrator.known(request.tool_call)
        own = session.requested_tool(request.tool_call)
        is_again = any(key == request.tool_call.tool_call_id for key, _ in self._allowed)
        action = requests.describe(known, request)
        # A rule has the consumer's name of the tool. The agent may write it in a way of its own.
        refusal = None if own is None else requests.refusal_of_tool(action, _consumers_name(session, own))
        if (
            own is not None
            and requests.recognises
            and not is_again
            and refusal is None
            and self._is_only_a_call(session, own, known, request)
        ):
            # The consumer asks about its own tools. Asking twice would teach people to say yes.
            self._allowed.append((request.tool_call.tool_call_id, own))
            answer_agent(request, incoming, Granted())
            return
        if own is None and self._announced.end(known.tool_call_id):
            # It is not the announced call, so the machine need not wait for one.
            self._dispatch(Announced(known.tool_call_id, over=True))
        may_write = session.agent.link.offers_files and action.risk == "edit"
        named = ApprovedEdits.named(known) if may_write else {}

        def answer(given: CallAnswer) -> str | None:
            edits = host.client.edits
            if edits is not None and isinstance(given, Granted):
                # Before the agent has its answer, and writes.
                paths, diffs = requests.changed_paths(action), requests.changed_texts(action)
                edits.will_change(host.id, requests.agent_name, paths, diffs)
            notice_text = answer_agent(request, incoming, given)
            self._is_silenced = isinstance(given, Refused)
            if isinstance(given, Granted) and notice_text is None:
                requests.edits.add(named)
                if session.agent.link.offers_terminals:
                    requests.commands.add(action)
            return notice_text

        if own is not None and refusal is not None:
            # The agent's title names our tool server by an id that means nothing to a person.
            title = " ".join([_consumers_name(session, own), *action.paths[:1]])
            action = replace(action, title=title)
        requests.submit(action, incoming, answer, self._dispatch, refusal)

    def _is_only_a_call(
        self, session: AgentSession, own: str, known: ToolActivity, request: PermissionRequest
    ) -> bool:
        """Whether the request is only for a call of the consumer's tool.

        Such a request is granted without a question, so it must not contain a command or a change beside the call.
        """
        if (
            request.extra
            or known.kind in _CHANGES
            or any(_is_more_than_words(block) for block in known.content or ())
        ):
            return False
        if own == WAIT_TOOL:
            return True
        tool = _consumers_name(session, own)
        match known.raw_input:
            case {"server": _, "tool": _, **more}:
                return not more.keys() - {"arguments"} and self._host.permission_requests.takes(
                    tool, more.get("arguments")
                )
            case arguments:
                return self._host.permission_requests.takes(tool, arguments)

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        if self.session is None or not self._host.is_current(self._epoch):
            incoming.fail(REQUEST_CANCELLED, "This session has ended.")
        elif self._host.is_cancelling:
            incoming.fail(REQUEST_CANCELLED, "This turn has been cancelled.")
        else:
            self._file_requests.serve(request, incoming)

    def on_terminal(self, request: TerminalRequest, incoming: Incoming) -> None:
        if self.session is None or not self._host.is_current(self._epoch):
            incoming.fail(REQUEST_CANCELLED, "This session has ended.")
        elif self._host.is_cancelling and isinstance(request, CreateTerminal):
            incoming.fail(REQUEST_CANCELLED, "This turn has been cancelled.")
        else:
            self._terminal_requests.serve(request, incoming)

    def on_turn_end(self, end: TurnEnd) -> None:
        self._report_usage()
        self._terminal_requests.end()
        if self._host.is_current(self._epoch):
            self._host.permission_requests.end_turn()
            if (edits := self._host.client.edits) is not None:
                edits.turn_ended(self._host.id)
        words: tuple[Part, ...] = ()
        if self.session is not None:
            self.session.may_send_history = False
            late = self._host.uncollected(self.session)
            words = (*self.session.narrator.end_turn(), *(notice_part(text) for text in late))
        if self._allowed and not self._host.is_cancelling:
            words = (*words, notice_part(self._found_out()))
        if not isinstance(end, LanguageModelError):
            words = (*words, *last_words(end, silenced=self._is_silenced))
            if self.session is not None:
                words = (*words, *self.session.narrator.usage(end.usage))
        self._is_silenced = False
        self._announced.clear()
        # Calls that were granted in a cancelled turn had no time to arrive.
        self._allowed.clear()
        self._dispatch(AgentTurnEnded(words, end if isinstance(end, LanguageModelError) else None))

    def on_steered(self, reply: int, *, taken: bool) -> None:
        self._dispatch(Steered(reply, taken))

    def _found_out(self) -> str:
        """Stop trusting the agent, because a call that was granted as the consumer's never arrived. Returns a notice."""
        tools = ", ".join(sorted({tool for _, tool in self._allowed}))
        _log.warning("allowed as calls of %s, but they never arrived: %s", tools, sorted(self._allowed))
        self._host.permission_requests.recognises = False
        return (
            f"The agent was allowed to call {escape(tools)}, but did not call it here. From now on it is asked about every "
            "call in this conversation."
        )

    def on_closed(self) -> None:
        """The connection has ended. While the agent starts, the caller of `open_session` gets an error instead."""
        self._terminal_requests.end()
        if self.is_up and self.session is not None and self._host.is_current(self._epoch):
            if self._allowed and not self._host.is_cancelling:
                self._dispatch(Spoke(notice_part(self._found_out())))
            self._host.on_exit(self.session)

    # The tool server.

    def on_call(self, call: PendingCall) -> None:
        session = self.session
        if session is None:
            return
        offered = next(
            (name for name, tool in session.endpoint.offered_names.items() if tool == call.name), call.name
        )
        announced = self._announced.make(offered, call.arguments)
        self._has_come(offered, announced)
        part = ToolCallPart(self._host.new_call_id(), call.name, call.arguments)
        self._dispatch(Called(Pending(call.key, "call", part), announced))

    def on_waits(self) -> None:
        """The agent has called the wait tool with a ticket."""
        self._has_come(WAIT_TOOL)

    def _has_come(self, tool: str, key: str | None = None) -> None:
        """Remove the granted request of a call that has arrived, preferably the one with this key."""
        come = [each for each in self._allowed if each[1] == tool]
        if come:
            self._allowed.remove(next((each for each in come if each[0] == key), come[0]))

    def on_withdrawn(self, key: str) -> None:
        """The agent withdrew a call, or its connection to the tools broke.

        A crash closes both connections at once, in random order. A withdrawn call needs no result any more, but the result
        of a crashed agent's call goes to the next agent. So the event waits a moment for a crash.
        """
        self._host.tasks.soon(_CRASH_SECONDS, lambda: self._dispatch(CallWithdrawn(key)))


def _consumers_name(session: AgentSession, own: str) -> str:
    """The consumer's name of a tool that the agent knows by another."""
    return session.endpoint.offered_names.get(own, own)
