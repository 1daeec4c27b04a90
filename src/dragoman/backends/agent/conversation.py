"""One conversation under way: it runs the machine, and executes the commands.

Everything that happens is an event, which passes through `dispatch` on one event loop in one order: the agent's output,
calls and permission requests, consumers' requests, timers. The machine decides what follows. A command is executed at
once or, where it takes time (starting and stopping an agent), by a task whose end is an event again. Each start of an
agent has an *epoch*; events of an earlier epoch are discarded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from dragoman.acp.launch import RunningAgent
from dragoman.backends.agent.conversation_journal import ConversationJournal, title_of
from dragoman.backends.agent.machine import machine
from dragoman.backends.agent.machine.tasks import Tasks
from dragoman.backends.agent.machine.timers import Timers
from dragoman.backends.agent.machine.types import (
    AgentExited,
    AgentStarted,
    AgentTurnEnded,
    AgentUnfit,
    AnswerPending,
    CallAnswer,
    ClearTimer,
    Discard,
    Emit,
    EndReply,
    Forget,
    Interrupted,
    Keep,
    MachineCommand,
    MachineEvent,
    Noticed,
    OpenReply,
    Pending,
    Release,
    ReplyCancelled,
    ReplyDetached,
    ReplyEnd,
    Requested,
    SendCancel,
    SendPrompt,
    SetTimer,
    Settle,
    StartAgent,
    Steer,
    Steering,
    StopAgent,
    TakeBack,
    TimedOut,
    Timer,
    TimerPassed,
    TurnCancelled,
    TurnStopped,
)
from dragoman.backends.agent.profile.observations import Observations
from dragoman.backends.agent.profile.offer import RememberedOffer
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.prompt.demands import Demand
from dragoman.backends.agent.prompt.session_context import SessionContext
from dragoman.backends.agent.reply.backlog import Backlog
from dragoman.backends.agent.reply.judging import judged, without_stop
from dragoman.backends.agent.reply.reply import Reply
from dragoman.backends.agent.reply.undelivered import UndeliveredResults
from dragoman.backends.agent.session.console_requests import ConsoleRequests
from dragoman.backends.agent.session.listener import AgentListener
from dragoman.backends.agent.session.opening import SessionPlan, open_session, wait_listed
from dragoman.backends.agent.session.permission_requests import PermissionRequests
from dragoman.backends.agent.session.session import AgentSession
from dragoman.backends.agent.toolserver import Endpoint, ToolServer
from dragoman.backends.agent.toolserver.naming import offered_names
from dragoman.clock import Clock, DeadlinePassed, within
from dragoman.conversations.identify import Identified
from dragoman.conversations.ids import CallName, IdSigner, MarkerName
from dragoman.conversations.records import Records, RequestKey, Scope
from dragoman.journal.agent_events import AgentLaunched, AgentStopped, CallSettled, ReplyEnded
from dragoman.journal.events import AnyEvent
from dragoman.journal.fold import ConversationState
from dragoman.journal.writer import Journals, JournalWriter
from dragoman.jsonrpc import ConnectionClosed
from dragoman.lm import (
    CancellationError,
    CancellationToken,
    JsonObject,
    LanguageModelError,
    Message,
    Part,
    Request,
    Sink,
    ToolDefinition,
    ToolResultPart,
    UsagePart,
    until_cancelled,
)
from dragoman.lm.activity_text import Activities
from dragoman.lm.client_services import ClientRegistry, ClientServices
from dragoman.lm.errors import ASK_OPERATOR
from dragoman.lm.foreign_items import ignored_files
from dragoman.lm.gfm import escape, notice_part
from dragoman.lm.parts import ToolResult
from dragoman.lm.request import ONE_SHOT_OPTION, STORE_OPTION
from dragoman.permissions.pipeline import PermissionServices

__all__ = ["Conversation", "ConversationStage", "SharedContext", "TakenOver"]

_log = logging.getLogger(__name__)

# asking: a person must decide. waiting: the consumer has calls. idle: an agent runs and does nothing. stored: no agent runs.
ConversationStage: TypeAlias = Literal["answering", "asking", "waiting", "idle", "stored"]

# How long a cancelled agent has to withdraw its calls, before they are answered. Most do in milliseconds.
_WITHDRAWAL_SECONDS = 1.0
_INTERRUPTED = "Error: The call was interrupted before it had a result."
_TRY_AGAIN = "Try again; if it fails again, please report it with what the log says."
_TIMED_OUT = "Error: The user did not decide about this call in time."
_NEW_TOOLS = "{name} does not look at changed tools while it runs, so it was restarted for them."
_OLD_WORDS = (
    "{name} was still sending an earlier part of this conversation, so it was restarted with a new session."
)
_TAKEN_OVER = "This answer has ended here: another process continues the conversation, or it was deleted or can no longer be stored."
_DETACHED = (
    "The agent still waits for a decision at {address}. This answer ends here. When a person has decided, "
    "send another message: the next answer begins with the rest of this one. (Conversation `{id}`)"
)
# The same for a reply that fails, because its request requires a form or a call. It leaves no answer in the history.
_DETACHED_UNMET = (
    "The agent still waits for a decision at {address}, and this answer ends here. When a person has decided, send the same "
    'messages and one more, for example "Go on.": the answer to that has what the request requires. Before the decision, '
    "another message ends the question. The same request again does not continue this one. To wait for the decision, use a "
    "stream, or a stored response of /v1/responses. (Conversation `{id}`)"
)
_STOPPED = "Stopped at the console."
_MIXED = "{name} mixed words of earlier turns into this answer."
_DETACH_AGAIN_SECONDS = 1.0
# How often what an agent says is stored while it speaks.
_PROGRESS_SECONDS = 1.0
# How long a reply stays in memory, without its agent, that its consumer may prove to be its own.
_PROVABLE_SECONDS = 600.0
# A call that the agent withdraws earlier than this did not hit a time limit.
_SHORTEST_LIMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SharedContext:
    """What all conversations of a model share."""

    settings: AgentSettings
    server: ToolServer
    tokens: IdSigner
    permissions: PermissionServices
    records: Records
    clock: Clock
    journals: Journals
    observations: Observations
    offer: RememberedOffer
    # Called when a conversation has become idle, and when another process has continued it.
    on_idle: Callable[[], None]
    on_lost: Callable[[str], None]
    clients: ClientRegistry = field(default_factory=ClientRegistry)


class TakenOver(Exception):
    """Another process has continued the conversation before the agent got the request: it has to be placed again."""


class Conversation:
    """A conversation in this process, with its agent, its open reply and its timers."""

    def __init__(
        self,
        id_: str,
        scope: Scope,
        shared: SharedContext,
        *,
        consumer_id: str | None = None,
        state: ConversationState | None = None,
        sequence: int = 0,
    ) -> None:
        """`state` and `sequence` are those of a stored conversation, which this process has claimed."""
        self.id = id_
        self.scope = scope
        self._consumer_id = consumer_id
        self.workspace = workspace = scope.workspace
        self._shared = shared
        self._settings = shared.settings
        writer = JournalWriter(
            shared.journals,
            id_,
            sequence,
            connection=scope.connection,
            on_lost=lambda: shared.on_lost(id_),
        )
        writer.note_claimed()
        self.journal = ConversationJournal(id_, scope, shared.records, writer, state)
        session = state.session if state is not None else None
        self._state = machine.State()
        self._events: deque[MachineEvent] = deque()
        self._busy = False
        self._session: AgentSession | None = None
        # The agent's session id, which outlives the process.
        self._session_id = session
        self._epoch = 0
        # How many side requests the agent serves now.
        self._lent = 0
        self._starting: asyncio.Task[None] | None = None
        # The prompt of the turn under way.
        self._prompt: tuple[Message, ...] = ()
        # How often the agent was restarted for the request under way.
        self._starts_over = 0
        # The values of options that the latest request wishes.
        self._wishes: JsonObject = {}
        # The function that sends the prompt, while the prompt waits until the agent has listed the tools.
        self._held: Callable[[], None] | None = None
        # Events of the agent that wait while the reply of the turn that has just ended is judged; None: none is judged.
        self._after_judging: list[Callable[[], None]] | None = None
        self.tasks = Tasks(id_, shared.clock)
        self._console_requests = ConsoleRequests(
            shared.permissions.inbox,
            id_,
            scope.connection,
            workspace,
            store=writer.flush,
            later=lambda seconds, call: self.tasks.soon(seconds, call).cancel,
            on_asked=self._limit_hold,
        )
        self.permission_requests = PermissionRequests(
            id_,
            workspace,
            shared.permissions,
            shared.settings,
            self.new_call_id,
            self._permission_event,
            shared.clock,
            self._console_requests,
        )
        # Of the latest request: whether it came over HTTP, and whether it says that no further one follows.
        self._is_over_http = False
        self._is_one_shot = False
        # Since when the agent is idle, by the clock.
        self._idle_since = 0.0
        # How long the consumer of the latest request waits while a person decides at the console.
        self._hold_seconds: float | None = None
        self._backlog = Backlog(self)
        # The activities that the consumer has received: a turn may span several replies.
        self._activities = Activities()
        self._undelivered = UndeliveredResults(shared.clock)
        self._replies: dict[int, Reply] = {}
        self._reply: Reply | None = None
        self._last_reply: Reply | None = None
        self._timers = Timers(shared.settings.timing, shared.clock, self._timer_passed)
        self._session_context = SessionContext(shared.settings.replay_tokens, is_known=session is not None)
        self._calls = self.journal.calls
        # Requests that are recorded, and that the machine has not received yet.
        self._arriving = 0
        # The session id, and whether the conversation was held, as last recorded.
        self._recorded_as: tuple[str | None, bool] = (session, True)

    @property
    def state(self) -> machine.State:
        return self._state

    @property
    def is_held(self) -> bool:
        """Whether this process must own it: something is under way, or the backlog has output for the next reply."""
        return self._state.is_busy or self._state.has_backlog or self._arriving > 0

    @property
    def model(self) -> str:
        return self.scope.model

    @property
    def folder(self) -> str:
        return self.workspace[0]

    @property
    def is_busy(self) -> bool:
        """Whether a request, a turn, a call or a side request is under way."""
        return self._state.is_busy or self._arriving > 0 or self.is_lent

    @property
    def connection(self) -> str:
        return self.scope.connection

    @property
    def program(self) -> str:
        """The program that sent the latest request, by its own name."""
        return self.permission_requests.program

    @property
    def stage(self) -> ConversationStage:
        """What it does now, for people."""
        if any(call.kind == "permission" for call in self._state.pending):
            return "asking"
        match self._state.phase:
            case "Starting" | "Streaming" | "Cancelling":
                return "answering"
            case "Awaiting":
                return "waiting" if self._state.pending else "answering"
            case "Idle":
                return "idle"
            case _:
                return "stored"

    @property
    def client(self) -> ClientServices:
        return self._shared.clients.of(self.scope.connection)

    @property
    def is_cancelling(self) -> bool:
        return self._state.turn == "cancelling"

    @property
    def is_streaming(self) -> bool:
        return self._state.phase == "Streaming"

    @property
    def has_agent(self) -> bool:
        return self._state.agent in ("starting", "up")

    @property
    def agent_pid(self) -> int | None:
        return self._session.agent.pid if self._session is not None else None

    @property
    def is_over(self) -> bool:
        """Whether the record is all that is left of it: no agent, nothing under way, and no reply to repeat."""
        last = self.journal.record.last
        ended_at = last.ended_at if last is not None else None
        is_old = ended_at is None or self._shared.clock.now() - ended_at > self._repeat_seconds
        return not self.is_held and not self.has_agent and is_old and not self.journal.writer.has_news

    @property
    def _repeat_seconds(self) -> float:
        """How long the last reply stays in memory for a retry: longer if the retry can be proved."""
        last, seconds = self.journal.record.last, self._settings.timing.retry
        has_key = (
            last is not None and last.request_key is not None and last.request_key.idempotency_key is not None
        )
        is_lost = last is not None and last.is_delivered is False
        return max(seconds, _PROVABLE_SECONDS) if has_key or is_lost else seconds

    @property
    def lendable(self) -> RunningAgent | None:
        """Its agent, if a side request may use it. Not while the agent waits: some agents then answer nothing else.

        Nor an agent that sees new tools only in a new process: the next request may have to end it.
        """
        waits = self._state.pending or self.is_cancelling or self._backlog.is_full
        if self._session is None or waits or not self._session.traits.lists_again:
            return None
        return self._session.agent

    @contextmanager
    def lending(self) -> Iterator[None]:
        """Count a side request that the agent serves. The agent is not idle then, and is not parked."""
        self._lent += 1
        try:
            yield
        finally:
            self._lent -= 1

    @property
    def is_lent(self) -> bool:
        return self._lent > 0

    @property
    def has_one_turn(self) -> bool:
        """Whether it has had one turn only, over HTTP: most such conversations never have a second."""
        last = self.journal.record.last
        return self._is_over_http and (last is None or last.turn == 1)

    @property
    def can_be_resumed(self) -> bool:
        """Whether parking its agent loses nothing. Any other agent gets only a transcript of what was said."""
        return self._session is not None and self._session.can_be_taken_up

    @property
    def may_rest_early(self) -> bool:
        """Whether its idle agent may be parked before its time when memory is short."""
        idle_seconds = self._shared.clock.now() - self._idle_since
        return self.can_be_resumed and (self.has_one_turn or idle_seconds >= self._settings.timing.one_turn)

    def _set_timer(self, timer: Timer) -> None:
        timing = self._settings.timing
        if timer != "idle":
            self._timers.set(timer)
            return
        self._idle_since = self._shared.clock.now()
        is_early = self.has_one_turn and self.can_be_resumed
        seconds = min(timing.one_turn, timing.idle) if is_early else timing.idle
        self._timers.set(timer, 0.0 if self._is_one_shot else seconds)

    def _timer_passed(self, timer: Timer) -> None:
        if timer == "idle" and self.is_lent:
            self._set_timer(timer)
        else:
            self.dispatch(TimerPassed(timer))

    async def wait_started(self) -> None:
        """Wait until its agent is up or has failed to start. Returns at once where none starts."""
        if self._state.phase == "Starting" and self._starting is not None:
            await asyncio.wait({self._starting})

    # The consumer's side.

    async def respond(
        self, request: Request, found: Identified, sink: Sink, token: CancellationToken
    ) -> None:
        """Answer a request that `identify` has found to belong here."""
        reply = self._repeatable() if found.kind == "retry" else None
        if reply is None:
            reply = await self._begin(request, found)
        number = reply.number
        try:
            await until_cancelled(
                reply.listen(sink, request.consumer.features, lambda: self.dispatch(ReplyCancelled(number))),
                token,
            )
        except CancellationError:
            # What was sent stays; nothing more is sent.
            return

    @property
    def repeats(self) -> bool:
        """Whether the same request gets the same reply again."""
        return self._repeatable() is not None

    def _repeatable(self) -> Reply | None:
        """The reply that the same request gets again. After a failure without content, the request is tried again."""
        last = next(reversed(self._replies.values()), None) or self._reply or self._last_reply
        return None if last is None or (last.error is not None and not last.has_spoken) else last

    async def _begin(self, request: Request, found: Identified) -> Reply:
        """Record the request, and pass it to the machine once it is stored: an agent never has a prompt that we forgot."""
        consumer = request.consumer
        request_key = RequestKey.by(request, found.history)
        self._session_context.update(request_key)
        new = (
            (*found.meanwhile, *found.prompt)
            if found.conversation == self.id
            else self._session_context.words
        )
        self._starts_over = 0
        self._wishes = request.options.model_configuration
        self._offer(request.options.tools)
        self.permission_requests.session = consumer.session or self.id
        self.permission_requests.where = consumer.name
        self.permission_requests.program = consumer.program
        self.permission_requests.sees_paths = consumer.sees_paths
        self.permission_requests.response_id = consumer.response_id
        self.permission_requests.is_live = consumer.is_live
        self._hold_seconds = consumer.hold_seconds
        self._is_over_http = consumer.name == "http"
        self._is_one_shot = request.options.model_options.get(ONE_SHOT_OPTION) is True
        journal = self.journal
        journal.store_content(stores=request.options.model_options.get(STORE_OPTION) is not False)
        if journal.record.last is None:
            parent = consumer.session if consumer.name == "terminal" else None
            journal.start(self._consumer_id, title_of(found), parent, consumer.program)
        number = journal.request(found, request_key, goes_on=found.kind in ("results", "results_and_prompt"))
        journal.settle_orphans(
            (call.call_id for call in self._state.pending),
            (result.call_id for result in found.results),
            is_over=found.kind != "results",
        )
        demand = self._demand_of(request)
        reply = Reply(number, consumer.features, self._settings.style, self, self._activities, demand)
        self._replies[number] = reply
        answers = {result.call_id: self._answer_of(result) for result in found.results}
        late = self._undelivered.brought(request.messages, found.unwanted)
        notices = tuple(notice_part(text) for text in late)
        self._arriving += 1
        journal.writer.hold(holds=True)
        try:
            await journal.writer.flush()
        finally:
            self._arriving -= 1
            if not journal.writer.is_lost:
                unmet = None if demand is None else demand.unanswered
                self.dispatch(Requested(number, answers, new, found.kind == "refusal", notices, unmet))
        if journal.writer.is_lost:
            raise TakenOver(self.id)
        return reply

    def _demand_of(self, request: Request) -> Demand | None:
        """What the request demands of its reply. The agent has names of its own for the functions."""
        form = request.options.answer_form
        tools = self.permission_requests.tools if request.options.tool_mode == "required" else ()
        functions = tuple(offered_names(tool.name for tool in tools).values())
        if form is None and not functions:
            return None
        return Demand(self._settings.name, form, functions, request.consumer.connection)

    def _answer_of(self, result: ToolResultPart) -> CallAnswer:
        pending = next((call for call in self._state.pending if call.call_id == result.call_id), None)
        if pending is not None and pending.kind == "permission":
            return self.permission_requests.take_decision(result)
        return ToolResult(result.content, is_error=result.is_error)

    def _offer(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Offer the agent exactly the tools of this request."""
        self.permission_requests.set_tools(tools)
        if self._session is not None:
            self._session.endpoint.set_tools(self.permission_requests.tools)

    # Events in, commands out.

    def dispatch(self, event: MachineEvent) -> None:
        self._events.append(event)
        if self._busy:
            # A command that is being executed caused it: it is handled afterwards.
            return
        self._busy = True
        before = self._state
        try:
            while self._events:
                self._state, commands = machine.handle(self._state, self._events.popleft())
                for command in commands:
                    self._carry_out(command)
            if self._state is not before and self._recorded_as != (self._known_session, self.is_held):
                # It became idle without a consumer, its backlog changed, or the agent has acknowledged a turn, so that
                # its session has the conversation.
                self._record_state()
        except Exception as fault:
            self._fail(fault)
        finally:
            self._busy = False

    def _carry_out(self, command: MachineCommand) -> None:
        match command:
            case Emit(part=part) if self._reply is not None:
                # As nearly all commands are.
                self._reply.report(part)
            case Emit(part=part):
                self._emit(part)
            case Settle(answer=answer) if self._reply is not None:
                self._reply.settle(answer)
            case Keep(part=part):
                self._backlog.add(part)
            case Release():
                for part in self._backlog.take():
                    self._emit(part)
            case Discard():
                self._backlog.take()
            case OpenReply(reply=number):
                self._reply = self._replies.pop(number)
                self.tasks.wait(self._record_progress(self._reply))
                self._emit(self._marker(number))
                self._limit_hold()
            case EndReply(reply=number, end=end, error=error):
                self._end_reply(number, end, error)
            case AnswerPending(pending=pending, answer=answer):
                self._answer(pending, answer)
            case Forget(pending=pending):
                self.journal.changed(CallSettled(pending.call_id))
                self._gave_up(pending)
            case SendPrompt(prompt=prompt):
                self._send_prompt(prompt)
            case TakeBack(acknowledged=acknowledged):
                self._session_context.take_back(acknowledged=acknowledged)
            case Steer(steering=steering):
                self._steer(steering)
            case SendCancel():
                self.permission_requests.end_turn()
                self._backlog.let_go()
                if self._held is not None:
                    # So that the agent's session has the prompt that was cancelled.
                    self._held()
                if self._session is not None:
                    self._session.cancel()
            case StartAgent():
                self._epoch += 1
                self._starting = self.tasks.work(self._start(self._epoch))
            case StopAgent():
                self._stop()
            case SetTimer(timer=timer):
                self._set_timer(timer)
            case ClearTimer(timer=timer):
                self._timers.clear(timer)

    def _fail(self, fault: Exception) -> None:
        """Handle a bug of ours: open replies fail, and the agent is stopped. The next request starts another one."""
        _log.error("conversation %s failed", self.id, exc_info=fault)
        self._busy = True
        cause = (
            f"Dragoman failed in this conversation, by a fault of its own: {type(fault).__name__}: {fault}."
        )
        public = f"Dragoman failed in this conversation, by a fault of its own. {ASK_OPERATOR}"
        error = LanguageModelError("internal", cause, hint=_TRY_AGAIN, public=public)
        replies = [*([self._reply] if self._reply is not None else []), *self._replies.values()]
        self._replies.clear()
        self._state, commands = machine.give_up(self._state)
        for command in commands:
            with self._logging_errors():
                self._carry_out(command)
        for reply in replies:
            self._reply = reply
            with self._logging_errors():
                self._end_reply(reply.number, "failed", error)
            self._reply, self._last_reply = None, reply
            if reply.end is None:
                reply.finish("failed", error)
                with self._logging_errors():
                    self.journal.changed(ReplyEnded(reply.number, "failed", issued=self._calls))
                reply.release()
        with self._logging_errors():
            self._record_state()
        # Events that the commands caused belong to an agent that has been stopped.
        self._events.clear()
        self._busy = False

    @contextmanager
    def _logging_errors(self) -> Iterator[None]:
        """Log an error in a cleanup step, so that the following steps still run."""
        try:
            yield
        except Exception:
            _log.exception("conversation %s failed once more", self.id)

    def _emit(self, part: Part) -> None:
        if self._reply is None:
            raise AssertionError("no reply is open")
        self._reply.report(part)

    def _marker(self, number: int) -> Part:
        last = self.journal.record.last
        turn = last.turn if last else 0
        return self._shared.tokens.marker(self._settings.model_id, MarkerName(self.id, turn, number))

    def _end_reply(self, number: int, end: ReplyEnd, error: LanguageModelError | None) -> None:
        reply = self._reply
        if reply is None or reply.number != number:
            raise AssertionError(f"reply {number} is not open")
        reply.show_held()
        if end == "complete":
            # Again as the last part: the editor drops what follows a Stop, and the last marker wins.
            reply.report(self._marker(number))
        reply.finish(end, error)
        self._reply, self._last_reply = None, reply
        pending = [call.call_id for call in self._state.pending if call.handed_over]
        why = None if error is None else self._sentence_of(error)
        if error is not None and why != error.sentence:
            # The operator's part of it.
            _log.warning("%s", error.sentence)
        self.journal.end(reply, end, error, why, pending, self._calls, self._shared.clock.now())
        self.tasks.work(self._release_when_stored(reply))

    async def _release_when_stored(self, reply: Reply) -> None:
        """Let the consumer see the end of a reply when that is stored, so that its next request is known after a crash."""
        try:
            await self.journal.writer.flush()
        finally:
            reply.release()

    async def _record_progress(self, reply: Reply) -> None:
        while reply.end is None:
            await self._shared.clock.sleep(_PROGRESS_SECONDS)
            if reply is self._reply:
                self.journal.collect(reply)
                await self.journal.writer.flush()

    def _limit_hold(self) -> None:
        """If a person is asked at the console, end the open reply when its consumer would wait too long for that."""
        is_asked = self._console_requests.since is not None
        if is_asked and self._hold_seconds is not None and self._reply is not None:
            self.tasks.wait(self._detach_when_late(self._reply, self._hold_seconds))

    async def _detach_when_late(self, reply: Reply, seconds: float) -> None:
        clock = self._shared.clock
        # A question that waited before this reply began does not count against it.
        began = clock.now()
        while reply is self._reply and (since := self._console_requests.since) is not None:
            left = max(since, began) + seconds - clock.now()
            if left <= 0:
                address = self._shared.permissions.inbox.address
                # The id tells two conversations apart that are equal so far.
                words = _DETACHED if reply.demand is None else _DETACHED_UNMET
                text = notice_part(words.format(address=address, id=self.id))
                self.dispatch(ReplyDetached(reply.number, (text,)))
            # It is ignored while the agent has not acknowledged what it was sent.
            await clock.sleep(max(left, _DETACH_AGAIN_SECONDS))

    def _record_state(self) -> None:
        """Record which session has the conversation, and own the journal for as long as something is under way."""
        session, held = self._known_session, self.is_held
        self._recorded_as = (session, held)
        self.journal.use_session(session)
        self.journal.writer.hold(holds=held)
        self.journal.writer.flush_soon()
        if not held:
            self._shared.on_idle()

    def _sentence_of(self, error: LanguageModelError) -> str:
        """What the journal says of a failure: as much as the consumer may know. It reads the journal at the console."""
        return error.sentence_for(sees_paths=self.permission_requests.sees_paths)

    def _permission_event(self, event: AnyEvent) -> None:
        if self._reply is not None:
            # What the agent said before it asked.
            self.journal.collect(self._reply)
        self.journal.happened(event)
        self.journal.writer.flush_soon()

    @property
    def _known_session(self) -> str | None:
        """The agent's session id, if the session has the conversation. An empty session must not be resumed."""
        is_new = self._session_context.was_new if self._state.silent else self._session_context.is_new
        return None if is_new else self._session_id

    # Towards the agent.

    def _send_prompt(self, prompt: tuple[Message, ...]) -> None:
        session = self._session
        if session is None:
            # The agent is gone, and an `AgentExited` event is about to follow.
            return
        self._prompt = prompt
        if self._reply is not None:
            # What was said so far is not the answer to this prompt.
            self._reply.show_held()
        composed = self._session_context.prompt(
            prompt,
            images=session.takes_images,
            demand=self._demanded,
            commands=frozenset(each.name for each in session.options.commands),
        )
        self._name_ignored(composed.left_out)
        for text in (*session.take_notices(), *composed.notices):
            # A prompt for another agent is composed again, and the user has seen its notices.
            if self._reply is None or notice_part(text) not in self._reply.said:
                self._notice(text)

        def send() -> None:
            self._held = None
            if session.options.differs(self._wishes):
                self.dispatch(AgentTurnEnded(error=session.options.changed(self._wishes)))
            else:
                session.prompt(composed.blocks)

        def withdraw() -> None:
            # Not even with a cancel behind it may a prompt reach a session in another mode than its user wants.
            self._held = None
            self.dispatch(AgentTurnEnded(error=session.options.unanswered(self._wishes)))

        if session.options.differs(self._wishes):
            self._held = withdraw
            self.tasks.wait(self._send_when_set(session, send, withdraw))
        else:
            self._send_when_fit(session, send)

    async def _send_when_set(
        self, session: AgentSession, send: Callable[[], None], withdraw: Callable[[], None]
    ) -> None:
        """Set the options that the request wishes, then send the prompt. It is not sent in another mode."""
        wishes = self._wishes
        setting = session.options.apply(session.agent.link, session.id, wishes)
        notices: tuple[str, ...] = ()
        problem: LanguageModelError | None = None
        try:
            notices = await within(setting, self._settings.timing.grace, self._shared.clock)
        except DeadlinePassed:
            problem = session.options.unanswered(wishes)
        except LanguageModelError as error:
            problem = error
        is_gone = problem is not None and isinstance(problem.__cause__, ConnectionClosed)
        if is_gone or self._session is not session or session.agent.has_exited:
            # An `AgentExited` event is about to follow.
            return
        self._shared.offer.note(options=session.options.offered)
        if self._held is not withdraw:
            return
        try:
            if problem is not None:
                self._held = None
                self.dispatch(AgentTurnEnded(error=problem))
                return
            for text in notices:
                self._notice(text)
            self._send_when_fit(session, send)
        except Exception as fault:
            self._fail(fault)

    def _send_when_fit(self, session: AgentSession, send: Callable[[], None]) -> None:
        """Send the prompt, now or when the agent has listed changed tools."""
        if not session.awaits_listing or self._starts_over:
            # An agent that was restarted for this prompt is not restarted twice.
            send()
        elif session.traits.lists_again is False:
            self._start_over(None if session.traits.is_known else _NEW_TOOLS)
        else:
            self._held = send
            self.tasks.wait(self._send_when_listed(session, send))

    @property
    def _demanded(self) -> str:
        """What the open reply must be, in words for the agent."""
        demand = self._reply.demand if self._reply is not None else None
        return demand.words if demand is not None else ""

    def _name_ignored(self, mime_types: tuple[str, ...]) -> None:
        """Report the files that the agent does not get, for programs. People see a notice."""
        if mime_types:
            self.dispatch(Noticed(ignored_files(mime_types)))

    def _notice(self, text: str) -> None:
        self.dispatch(Noticed(notice_part(text)))

    def _steer(self, steering: Steering) -> None:
        session = self._session
        if session is None:
            # The agent is gone, and an `AgentExited` event is about to follow.
            return
        composed = self._session_context.steer(
            steering.prompt, images=session.takes_images, demand=self._demanded
        )
        self._name_ignored(composed.left_out)
        for text in composed.notices:
            self._notice(text)
        session.steer(composed.blocks, steering.reply)

    async def _send_when_listed(self, session: AgentSession, send: Callable[[], None]) -> None:
        """Hold the prompt until the agent has listed changed tools. An agent that does not list them is restarted."""
        timing = self._settings.timing
        seconds = timing.list_again if session.traits.lists_again else timing.list_again_unsure
        has_listed = await wait_listed(session.endpoint, seconds, self._settings, self._shared.clock)
        if self._session is not session or session.agent.has_exited:
            return
        session.learn(lists_again=has_listed)
        if self._held is not send:
            return
        try:
            if has_listed or not self._may_start_over:
                # Output of its last turn has arrived in this one: the prompt goes with the tools that the agent knows.
                send()
            else:
                self._start_over(_NEW_TOOLS)
        except Exception as fault:
            self._fail(fault)

    @property
    def _may_start_over(self) -> bool:
        return self._state.phase == "Streaming" and self._state.silent

    def _start_over(self, why: str | None) -> None:
        """Restart the agent for the prompt under way."""
        self._held = None
        self._starts_over += 1
        if why is not None:
            self._notice(why.format(name=escape(self._settings.name)))
        self.dispatch(AgentUnfit(self._prompt))

    def on_stale_update(self, session: AgentSession) -> None:
        """The agent sent an update of an earlier turn. Later updates cannot be separated from the answer."""
        session.learn(history="unusable")
        self._session_id = None
        if self._may_start_over:
            self._start_over(_OLD_WORDS)
            return
        hint = "Ask again: it will be started in a new session, with what was said before."
        error = LanguageModelError("agent_failed", _MIXED.format(name=self._settings.name), hint=hint)
        self._stop()
        self.dispatch(AgentExited(error))

    def _answer(self, pending: Pending, answer: CallAnswer) -> None:
        self.journal.changed(CallSettled(pending.call_id))
        if isinstance(answer, TimedOut) and pending.kind == "call":
            self._undelivered.timed_out(pending)
        elif isinstance(answer, Interrupted | TurnCancelled) and not self.is_cancelling:
            self._undelivered.passed_over(pending)
        if pending.kind == "permission":
            text = self.permission_requests.answer(pending, answer)
            if text is not None:
                self._notice(text)
            return
        if self._session is not None and isinstance(answer, Interrupted) and self.is_cancelling:
            # After the agent has had time to withdraw it. A result that crosses the withdrawal answers an unknown
            # request: Qwen Code then treats the connection as broken, and drops its tools.
            self.tasks.soon(_WITHDRAWAL_SECONDS, partial(_answer_late, self._session.endpoint, pending.key))
        elif self._session is not None:
            is_taken = self._session.endpoint.answer(pending.key, _result_of(answer))
            lost = (
                self._undelivered.answered(pending, is_taken=is_taken)
                if isinstance(answer, ToolResult)
                else None
            )
            if lost is not None:
                self._notice(lost)

    def _gave_up(self, pending: Pending) -> None:
        """The agent no longer waits for a call that the consumer has."""
        waited = self._undelivered.given_up(pending)
        session = self._session
        # A limit only if no request ended the wait. For an agent in the catalogue the limit is known already.
        is_limit = self._state.phase == "Awaiting" and not self._settings.traits.is_known
        if session is not None and is_limit and pending.kind == "call" and waited >= _SHORTEST_LIMIT_SECONDS:
            session.learn(tool_limit_seconds=waited)

    def on_offer(self, session: AgentSession) -> None:
        self._shared.offer.note(options=session.options.offered, commands=session.options.commands)

    def on_usage(self, usage: UsagePart) -> None:
        if usage.context_size:
            self._shared.offer.note(context_size=usage.context_size)

    def new_call_id(self) -> str:
        self._calls += 1
        call_id = self._shared.tokens.call_id(CallName(self.id, self._calls))
        self._undelivered.made(call_id)
        return call_id

    def uncollected(self, session: AgentSession) -> Iterator[str]:
        """Notices for the end of a turn, about answers that its agent never fetched."""
        return self._undelivered.uncollected(session.endpoint.is_uncollected)

    @property
    def _offers_files(self) -> bool:
        """Whether the agent may take files from us: by its setting, else if the client has them and the agent can."""
        if self._settings.fs is not None:
            return self._settings.fs
        return self.client.files is not None and self._settings.traits.takes_client_files

    async def _start(self, epoch: int) -> None:
        listener = AgentListener(self, epoch)
        words, answer = (self._session_context.last_text(role) for role in ("user", "assistant"))
        plan = SessionPlan(
            self.workspace,
            self.permission_requests.tools,
            self._session_id,
            words,
            answer,
            self._offers_files,
            self.client.terminals is not None,
        )
        try:
            shared = self._shared
            session = await open_session(
                self._settings,
                shared.server,
                plan,
                listener,
                shared.clock,
                shared.observations,
                shared.offer,
            )
        except Exception as error:
            if not isinstance(error, LanguageModelError):
                _log.exception("%s could not be started", self._settings.name)
                message = f"{self._settings.name} could not be started"
                public = f"{message}. {ASK_OPERATOR}"
                error = LanguageModelError("internal", f"{message}: {error}", public=public)
            if epoch == self._epoch:
                self.dispatch(AgentExited(error))
            return
        if epoch != self._epoch:
            await session.close()
            return
        if session.agent.peer.closed is not None:
            # It exited after the last answer of its start.
            await self._report_exit_and_close(session, epoch)
            return
        listener.is_up = True
        self._session, self._session_id = session, session.id
        self._activities.reset()
        self._undelivered.agent_started()
        try:
            if session.is_new:
                self._session_context.begin()
            info = session.agent.link.info.agent_info
            self.journal.happened(
                AgentLaunched(
                    self._settings.name,
                    info.version if info else None,
                    session.agent.pid,
                    session.id,
                    session.is_new,
                )
            )
            self._record_state()
            session.endpoint.set_tools(self.permission_requests.tools)
        except Exception as fault:
            self._fail(fault)
            return
        self.tasks.wait(self._let_finish(session))
        self.dispatch(AgentStarted(session.steers))

    async def _let_finish(self, session: AgentSession) -> None:
        """Resume reading when the process exits: while reading is paused, its exit would go unnoticed."""
        await session.agent.exited()
        if self._session is session:
            self._backlog.let_go()

    def on_exit(self, session: AgentSession) -> None:
        """The agent exited. All of its output has been read; the reason comes from its process."""
        if self._after_judging is not None:
            # Its turn had ended before: the answer may be complete.
            self._after_judging.append(lambda: self.on_exit(session) if self._session is session else None)
            return
        self._epoch += 1
        self._session = self._held = None
        self.permission_requests.close()
        self._end_edits()
        if self._reply is None:
            # No consumer waits for the reason, and the next request must not wait for it.
            self.dispatch(AgentExited(LanguageModelError("agent_failed", f"{self._settings.name} ended.")))
            self.tasks.work(self._report_exit_and_close(session, None))
        else:
            self.tasks.work(self._report_exit_and_close(session, self._epoch))

    async def _report_exit_and_close(self, session: AgentSession, epoch: int | None) -> None:
        try:
            error = await session.agent.explain_exit()
            self.journal.happened(AgentStopped(self._sentence_of(error)))
            self.journal.writer.flush_soon()
            _log.warning("%s", error.sentence)
            if epoch == self._epoch:
                self.dispatch(AgentExited(error))
        except Exception as fault:
            if epoch == self._epoch:
                self._fail(fault)
        finally:
            await session.close()

    def _stop(self) -> None:
        self._epoch += 1
        if self._starting is not None and self._starting is not asyncio.current_task():
            self._starting.cancel()
        session, self._session, self._held = self._session, None, None
        self.permission_requests.close()
        self._end_edits()
        if session is not None:
            self.journal.happened(AgentStopped())
            self.journal.writer.flush_soon()
            self.tasks.work(session.close())

    def _end_edits(self) -> None:
        """The agent is gone, and with it the turn under way."""
        if (edits := self.client.edits) is not None:
            edits.turn_ended(self.id)

    def is_current(self, epoch: int) -> bool:
        return epoch == self._epoch

    def receive(self, epoch: int, event: MachineEvent) -> None:
        if epoch != self._epoch:
            return
        if self._after_judging is not None:
            self._after_judging.append(lambda: self.receive(epoch, event))
        elif isinstance(event, AgentTurnEnded) and event.error is None and self._is_to_be_judged:
            self._after_judging = []
            # It ends with the reply, which closing the conversation ends.
            self.tasks.work(self._judge(epoch, event))
        else:
            self.dispatch(event)

    @property
    def _is_to_be_judged(self) -> bool:
        return self.is_streaming and self._reply is not None and self._reply.demand is not None

    async def _judge(self, epoch: int, event: AgentTurnEnded) -> None:
        """Judge the open reply, and only then let the turn end. What the agent does meanwhile comes after that."""
        reply = self._reply
        if reply is None or reply.demand is None:
            raise AssertionError("no reply is to be judged")
        try:
            verdict = await reply.while_open(
                judged(reply.demand, reply.number, reply.held_text, event.last_words)
            )
            words = event.last_words
            if verdict is not None and verdict.unmet is not None:
                words = tuple(map(without_stop, words))
            event = AgentTurnEnded(words, verdict=verdict)
        except Exception as fault:
            self._fail(fault)
        waiting, self._after_judging = self._after_judging or [], None
        if epoch == self._epoch:
            self.dispatch(event)
        for each in waiting:
            each()

    # Flow: a consumer that is behind holds its agent.

    def pause_reading(self, by: object) -> None:
        # A process that has exited leaves only what is in the pipe.
        if self._session is not None and not self._session.agent.has_exited:
            self._session.agent.peer.pause_reading(by)

    def resume_reading(self, by: object) -> None:
        if self._session is not None:
            self._session.agent.peer.resume_reading(by)

    # The end.

    def stop_turn(self) -> None:
        """Cancel the turn under way, because a person at the console wants that."""
        self.dispatch(TurnStopped(notice_part(_STOPPED)))

    def park(self) -> None:
        """Stop the agent as if the idle timer had passed."""
        self._timers.clear("idle")
        self.dispatch(TimerPassed("idle"))

    def forget(self) -> None:
        """Stop the agent and drop the record, because a person has deleted the conversation."""
        self._shared.on_lost(self.id)

    async def retire(self) -> None:
        """Close it without storing anything more, because another process continues the conversation."""
        self.journal.writer.stop()
        self.journal.forget_records()
        if self._reply is not None:
            self._reply.finish(
                "failed", LanguageModelError("unavailable", _TAKEN_OVER, hint="Send it again.")
            )
            self._reply.release()
        await self.close()

    async def close(self) -> None:
        """End the agent and every wait. Requests that are open settle as cut off."""
        if self._reply is not None:
            self.dispatch(ReplyCancelled(self._reply.number))
        self._timers.clear_all()
        self.tasks.end_waits()
        self._stop()
        await self.tasks.until_done()
        await self.journal.writer.close()


def _answer_late(endpoint: Endpoint, key: str) -> None:
    endpoint.answer(key, _result_of(Interrupted()))


def _result_of(answer: CallAnswer) -> ToolResult:
    """The result of a tool call for the agent."""
    if isinstance(answer, ToolResult):
        return answer
    return ToolResult.error(_TIMED_OUT if isinstance(answer, TimedOut) else _INTERRUPTED)
