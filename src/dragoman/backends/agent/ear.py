"""What one run of an agent says, turned into events for its conversation.

An ear belongs to one epoch: when the agent it listens to has been replaced, it hears nothing more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dragoman.backends.agent.acp.link import TurnEnd
from dragoman.backends.agent.acp.messages import FileRequest, PermissionRequest, SessionUpdate, ToolActivity
from dragoman.backends.agent.announcements import Announcements
from dragoman.backends.agent.asking import Decided, Question, answer_agent
from dragoman.backends.agent.changes import ApprovedEdits
from dragoman.backends.agent.filing import Filing
from dragoman.backends.agent.prompting import last_words
from dragoman.backends.agent.toolserver import PendingCall
from dragoman.backends.agent.toolserver.naming import WAIT_TOOL
from dragoman.backends.agent.vocabulary import (
    Announced,
    CallAnswer,
    Called,
    Event,
    Granted,
    Noticed,
    Pending,
    Refused,
    Spoke,
    Steered,
    TurnEnded,
    Withdrawn,
)
from dragoman.jsonrpc import REQUEST_CANCELLED, Incoming
from dragoman.lm import (
    ActivityPart,
    LanguageModelError,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)
from dragoman.lm.gfm import escape, notice

if TYPE_CHECKING:
    from dragoman.backends.agent.conversation import Conversation
    from dragoman.backends.agent.session import Session

__all__ = ["Ear"]

_log = logging.getLogger(__name__)
_OVER = frozenset({"completed", "failed"})
# Kinds that an agent never gives to a call of a consumer's tool.
_CHANGES = frozenset({"edit", "delete", "move"})
# How long to wait for the exit of a crashed agent before a withdrawn call counts.
_CRASH_SECONDS = 0.25


def _is_more_than_words(block: object) -> bool:
    return not (isinstance(block, dict) and block.get("type") == "content")


class Ear:
    def __init__(self, conversation: Conversation, epoch: int) -> None:
        self._conversation = conversation
        self._epoch = epoch
        self.session: Session | None = None
        # The session has been handed to the conversation.
        self.is_up = False
        # Of calls of the consumer's tools, by the names under which these are offered.
        self._announced = Announcements()
        # Calls that we allowed because they are the consumer's own. One that never arrives was something else.
        self._allowed: list[tuple[str, str]] = []
        # A person refused something, and the agent has not said a word since.
        self._is_silenced = False
        self._filing = Filing(conversation, self._tell)

    def _tell(self, event: Event) -> None:
        if (
            isinstance(event, Withdrawn)
            and self.session is not None
            and self.session.agent.peer.closed is not None
        ):
            # Nobody gave it up: the agent is gone, and `lost` tells what becomes of what it waited for.
            return
        if self._conversation.hears(self._epoch):
            self._conversation.dispatch(event)

    # The connection.

    def on_update(self, update: SessionUpdate) -> None:
        session = self.session
        if session is None:
            return
        if session.suspects_history and session.tells_history(update.update):
            if self._conversation.hears(self._epoch):
                self._conversation.heard_history(session)
            return
        if isinstance(update.update, ToolActivity):
            self._announce(session, session.narrator.known(update.update))
        for part in session.narrator.parts(update.update):
            if isinstance(part, UsagePart):
                # It says nothing of the answer, and the next one replaces it: nobody need hear of it later.
                if self._conversation.state.phase == "Streaming":
                    self._tell(Noticed(part))
                continue
            if self._is_silenced:
                self._is_silenced = isinstance(part, ThinkingPart | ActivityPart | PlanPart)
            self._tell(Spoke(part))

    def _announce(self, session: Session, activity: ToolActivity) -> None:
        key = activity.tool_call_id
        if activity.status in _OVER:
            if self._announced.end(key):
                self._tell(Announced(key, over=True))
            return
        tool = session.own_tool((activity,))
        # Whoever only waits makes no call that the consumer would see.
        if tool in (None, WAIT_TOOL):
            return
        if self._announced.announce(key, tool, activity.raw_input):
            self._tell(Announced(key))

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        session, conversation = self.session, self._conversation
        if session is None or not conversation.hears(self._epoch) or conversation.state.turn == "cancelling":
            # A cancelled turn grants nothing.
            incoming.reply({"outcome": {"outcome": "cancelled"}})
            return
        known = session.narrator.known(request.tool_call)
        own = session.asked_tool(request.tool_call)
        is_again = any(key == request.tool_call.tool_call_id for key, _ in self._allowed)
        if (
            own is not None
            and conversation.recognises
            and not is_again
            and self._is_only_a_call(session, own, known, request)
        ):
            # The consumer asks about its own tools. Asking twice would teach people to say yes.
            self._allowed.append((request.tool_call.tool_call_id, own))
            answer_agent(request, incoming, Granted())
            return
        if own is None and self._announced.end(known.tool_call_id):
            # It is not what it was announced as: nobody need wait for that.
            self._tell(Announced(known.tool_call_id, over=True))
        action = conversation.described(known, request)
        may_write = session.agent.link.offers_files and action.risk == "edit"
        named = ApprovedEdits.named(known) if may_write else {}

        def answer(decision: CallAnswer) -> str | None:
            told = answer_agent(request, incoming, decision)
            self._is_silenced = isinstance(decision, Refused)
            if isinstance(decision, Granted) and told is None:
                conversation.asking.edits.add(named)
            return told

        question = Question(
            f"permission:{incoming.id!r}", action, conversation.new_call_id(), answer, len(incoming.params)
        )
        asked = conversation.asking.ask(question, conversation.permission_tools)
        if isinstance(asked, Decided):
            told = answer(asked.answer)
            self._tell(Spoke(asked.shown))
            if told:
                self._tell(Spoke(TextPart(notice(told))))
            return
        conversation.asking.hand_over(asked, incoming, self._tell)

    def _is_only_a_call(
        self, session: Session, own: str, known: ToolActivity, request: PermissionRequest
    ) -> bool:
        """Whether the request is for a call of the consumer's tool, and has nothing in it that is not part of that.

        Such a request is granted without a question, so a command or a change that stands beside the tool's name must
        not come along.
        """
        if (
            request.extra
            or known.kind in _CHANGES
            or any(_is_more_than_words(block) for block in known.content or ())
        ):
            return False
        if own == WAIT_TOOL:
            return True
        tool = session.endpoint.offered_names.get(own, own)
        match known.raw_input:
            case {"server": _, "tool": _, **more}:
                return not more.keys() - {"arguments"} and self._conversation.offers(
                    tool, more.get("arguments")
                )
            case arguments:
                return self._conversation.offers(tool, arguments)

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        if self.session is None or not self._conversation.hears(self._epoch):
            incoming.fail(REQUEST_CANCELLED, "This session has ended.")
        elif self._conversation.state.turn == "cancelling":
            incoming.fail(REQUEST_CANCELLED, "This turn has been cancelled.")
        else:
            self._filing.serve(request, incoming)

    def on_turn_end(self, end: TurnEnd) -> None:
        if self._conversation.hears(self._epoch):
            self._conversation.asking.end_turn()
        words: tuple[Part, ...] = ()
        if self.session is not None:
            self.session.suspects_history = False
            late = self._conversation.uncollected(self.session)
            words = (*self.session.narrator.end_turn(), *(TextPart(notice(text)) for text in late))
        if self._allowed and self._conversation.state.turn != "cancelling":
            words = (*words, TextPart(notice(self._found_out())))
        if not isinstance(end, LanguageModelError):
            words = (*words, *last_words(end, silenced=self._is_silenced))
            if self.session is not None:
                words = (*words, *self.session.narrator.usage(end.usage))
        self._is_silenced = False
        self._announced.clear()
        # What was allowed in a turn that we cancelled had no time to arrive.
        self._allowed.clear()
        self._tell(TurnEnded(words, end if isinstance(end, LanguageModelError) else None))

    def on_steered(self, reply: int, *, taken: bool) -> None:
        self._tell(Steered(reply, taken))

    def _found_out(self) -> str:
        """A call that was allowed as the consumer's own, and was not."""
        tools = ", ".join(sorted({tool for _, tool in self._allowed}))
        _log.warning("allowed as calls of %s, but they never arrived: %s", tools, sorted(self._allowed))
        self._conversation.recognises = False
        return (
            f"The agent was allowed to call {escape(tools)}, but did not call it here. From now on it is asked about every "
            "call in this conversation."
        )

    def on_closed(self) -> None:
        """The connection has ended. While the agent starts, whoever starts it hears of that from its own requests."""
        if self.is_up and self.session is not None and self._conversation.hears(self._epoch):
            if self._allowed and self._conversation.state.turn != "cancelling":
                self._tell(Spoke(TextPart(notice(self._found_out()))))
            self._conversation.lost(self.session)

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
        part = ToolCallPart(self._conversation.new_call_id(), call.name, call.arguments)
        self._tell(Called(Pending(call.key, "call", part), announced))

    def on_waits(self) -> None:
        """The agent has come back with a ticket, as it was allowed to."""
        self._has_come(WAIT_TOOL)

    def _has_come(self, tool: str, key: str | None = None) -> None:
        """Best the one that was allowed under this very id."""
        come = [each for each in self._allowed if each[1] == tool]
        if come:
            self._allowed.remove(next((each for each in come if each[0] == key), come[0]))

    def on_withdrawn(self, key: str) -> None:
        """The agent gave a call up, or its connection to the tools broke.

        An agent that crashes loses both connections at once, and which loss is noticed first is chance. But a call that is
        withdrawn needs no result any more, while that of a crash goes to the next agent: so the crash is waited for.
        """
        self._conversation.tasks.soon(_CRASH_SECONDS, lambda: self._tell(Withdrawn(key)))
