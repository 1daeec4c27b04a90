"""The state machine of one conversation: an event in, a new state and commands out.

Two rules. Everything that decides what happens next in a conversation is in this file. And this file does nothing: it
has no clock, no process, no queue. The caller (`conversation`) executes the commands, in order, and feeds in the events.

Theory of operation
-------------------

Four things change independently, and a phase is a view of them:

- the *agent*: there is none (`parked`, or `dead` when its process exited), it is `starting`, or it is up;
- the *turn*: none, `running`, or `cancelling` (the cancel was sent, and the turn has not ended yet);
- the *reply*: the response that is open towards the consumer, if any. Several requests may listen to one reply; `Reply`
  handles that;
- the *pending* calls: what the agent waits for, tool calls and permission requests alike. A call is *gathered* when it
  has arrived, and *handed over* once the consumer has received it.

    phase        agent       turn         reply
    Starting     starting    -            open, or none if it was cancelled meanwhile
    Idle         up          none         none
    Streaming    up          running      open
    Awaiting     up          running      none: the consumer has calls, or the agent works on between two requests
    Cancelling   up          cancelling   none, or one that waits for the old turn to stop
    Parked       none        -            none
    Dead         none        -            none

The names of the seed, AwaitingToolPermission and AwaitingToolResult, are views of Awaiting: see `awaits_permission`.

A response ends with its calls. When the first call arrives, the machine waits for its siblings: for all that were
announced, and a moment for those that never are. Text that arrives in the meantime goes out before the calls. Text that
arrives later goes to the *backlog*, which is the start of the next reply of this conversation. Calls and permission
requests that arrive with no reply open are handed over in the next one, after the results it brings.

A permission request that a person is asked about *at the console* is pending, too, but the consumer never gets it. It ends
no reply: the turn waits, and `Decided` answers it. A consumer that cannot wait so long is *detached*: its reply ends, the
turn goes on, and what follows is the backlog.

A turn is cancelled in ACP's order: `session/cancel`, then `cancelled` for every open permission request, and
`interrupted` for every call that has no result by then. The next prompt waits for the stop reason, so that no output of
the old turn is taken for output of the new one. When the stop reason does not come in time, the agent is replaced.

A prompt that was never sent (it was cancelled while the agent started) stays in the queue, and goes to the agent with
the next one. Calls whose agent is gone are *orphaned*: the next agent receives their results in its prompt. A permission
is never passed on: the next agent asks again. The exit of a process is noticed late. So results that the agent was given
and has not *acknowledged* by any output also go into the next agent's prompt.

An agent may also turn out to be *unfit* for the prompt under way: it does not see the tools that the prompt is about, or
it still replays the history of an earlier turn. Then it is stopped, and a new run of it gets the prompt.

A request may *demand* something of its reply: an answer of a form, or a call. A reply with calls meets either. The caller
holds the text of such a reply back, and judges it when the agent has ended its turn (`ReplyVerdict`). If the demand is *unmet*,
the agent is asked for it once more, in the same reply. If it is unmet again, or if the reply ends in another way, the reply
fails. A queued prompt goes first: only the reply's last turn is judged.

What the user says while a turn runs waits for its end; an agent that can be *steered* gets it at once. Messages that the
agent rejects, or has not confirmed when the turn ends, wait like the rest.

An idle agent may have exited, and that shows only when it is prompted. When it exits without acknowledging the turn (no
text, announcement or call; our own notices do not count), another agent gets the prompt, once, and the user sees no
error. An agent that has just been started gets no second attempt: it would crash again.

A prompt contains more than the user's message: the transcript, and the consumer's context. An agent that exits in the
middle of a turn may not have stored it, and may resume its session without it; one that answers with nothing but an
error may not have read it. That content is then *taken back*, and sent again with the next prompt. The transcript is the
exception if the agent acknowledged the turn: its session has the conversation, and must not get it twice.

Every wait has a limit. The `gather` timers run while siblings are waited for, `grace` while a turn is cancelled, `human`
while the consumer has calls or the agent works on without a consumer, `idle` while nothing happens.

Every phase × event is in `TABLE`, with the phases it may lead to. What is not there is illegal: it raises, and changes
nothing. `docs/machine.md` is drawn from the table.

The caller may fail to execute a command. Then it is unknown which of the remaining commands took effect. `give_up` is
the step for that, from any phase: the conversation continues as if the agent were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import msgspec

from dragoman.backends.agent.machine.lost_results import lost_results
from dragoman.backends.agent.machine.types import (
    AgentExited,
    AgentStarted,
    AgentTurnEnded,
    AgentUnfit,
    Announced,
    AnswerPending,
    CallAnswer,
    Called,
    CallWithdrawn,
    ClearTimer,
    Decided,
    Discard,
    Emit,
    EndReply,
    Forget,
    Granted,
    Interrupted,
    Keep,
    MachineCommand,
    MachineEvent,
    Noticed,
    OpenReply,
    Pending,
    Prompt,
    Refused,
    Release,
    ReplyCancelled,
    ReplyDetached,
    ReplyEnd,
    ReplyVerdict,
    Requested,
    SendCancel,
    SendPrompt,
    SetTimer,
    Settle,
    Spoke,
    StartAgent,
    Steer,
    Steered,
    Steering,
    StopAgent,
    TakeBack,
    TimedOut,
    TimerPassed,
    TurnCancelled,
    TurnStopped,
    Unmet,
)
from dragoman.lm import LanguageModelError, Part, TextPart
from dragoman.lm.gfm import error_part, notice_part, plain
from dragoman.lm.parts import ToolResult

__all__ = ["PHASES", "TABLE", "IllegalEvent", "Phase", "State", "Step", "TableRow", "give_up", "handle"]

Phase: TypeAlias = Literal["Parked", "Starting", "Idle", "Streaming", "Awaiting", "Cancelling", "Dead"]
PHASES: tuple[Phase, ...] = get_args(Phase)
# For results that arrive when no call waits for them any more.
_TOO_LATE = notice_part("The agent ended its turn before these results arrived.")
# For a turn that went on without a consumer for too long.
_UNATTENDED = notice_part("The agent's turn was stopped: no request came for a long time.")


# State.

_WITHOUT_AGENT: Mapping[str, Phase] = {"none": "Parked", "dead": "Dead", "starting": "Starting"}


@dataclass(frozen=True, slots=True)
class State:
    agent: Literal["none", "dead", "starting", "up"] = "none"
    turn: Literal["none", "running", "cancelling"] = "none"
    reply: int | None = None
    # What the open reply lacks, as far as it is known, and whether the agent was asked for it once more.
    unmet: Unmet | None = None
    asked_again: bool = False
    pending: tuple[Pending, ...] = ()
    # Calls that the consumer has, of an agent that is gone.
    orphaned: tuple[Pending, ...] = ()
    # Calls the agent has announced and not made.
    announced: frozenset[str] = frozenset()
    # Siblings of a call are being waited for.
    gathering: bool = False
    # Prompts for the agent, in order: sent when no turn runs and a reply is open.
    queue: Prompt = ()
    # The prompt of the turn under way, if an idle agent got it and has not acknowledged it by any output.
    unacknowledged_prompt: Prompt = ()
    # The agent was prompted, and has sent no output of the turn yet.
    silent: bool = False
    # Results that the agent got in this reply and has not acknowledged, as a message for the next agent.
    unacknowledged_results: Prompt = ()
    # Whether the agent accepts messages in mid-turn, and the ones that it has neither accepted nor rejected yet.
    steers: bool = False
    steering: Steering | None = None
    # Whether the agent sent output since the last reply ended. It waits in the backlog for the next reply.
    has_backlog: bool = False
    # How a turn ended that no reply was open for: for the beginning of the next reply.
    notices: tuple[Part, ...] = ()

    # Derived from the rest: computed when a state is made, because every event reads it.
    phase: Phase = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "phase", self._phase())

    def _phase(self) -> Phase:
        if self.agent != "up":
            return _WITHOUT_AGENT[self.agent]
        if self.turn == "running":
            return "Awaiting" if self.reply is None else "Streaming"
        return "Cancelling" if self.turn == "cancelling" else "Idle"

    @property
    def awaits_permission(self) -> bool:
        return any(call.kind == "permission" for call in self.pending)

    @property
    def is_busy(self) -> bool:
        """Whether a reply, a turn or a call is open. Then the agent must not be parked."""
        return self.reply is not None or self.turn != "none" or bool(self.pending)


class IllegalEvent(Exception):
    """An event that cannot happen in this phase: a bug in the caller."""

    def __init__(self, phase: Phase, event: MachineEvent) -> None:
        super().__init__(f"{type(event).__name__} cannot happen while {phase}: {event}")
        self.phase = phase
        self.event = event


Step: TypeAlias = tuple[State, tuple[MachineCommand, ...]]


def handle(state: State, event: MachineEvent) -> Step:
    """One step. Raises `IllegalEvent`, having changed nothing, for what is not in the table."""
    phase = state.phase
    row = TABLE.get((phase, type(event)))
    if row is None:
        raise IllegalEvent(phase, event)
    do = _Transition(state)
    row.handler(do, event)
    after = phase if do.state is state else do.state.phase
    if after not in row.leads_to:
        raise AssertionError(f"{type(event).__name__} led from {phase} to {after}, which is not in the table")
    return do.state, tuple(do.commands)


def give_up(state: State) -> Step:
    """The step after a command that failed. The caller ends the replies: it is unknown here which are open."""
    do = _Transition(state)
    do.lose_agent()
    do.emit(
        StopAgent(),
        Discard(),
        ClearTimer("grace"),
        ClearTimer("idle"),
        reply=None,
        unmet=None,
        asked_again=False,
        unacknowledged_prompt=(),
        has_backlog=False,
    )
    return do.state, tuple(do.commands)


class _Transition(msgspec.Struct):
    """A step under way: the state it has come to, and the commands so far."""

    state: State
    commands: list[MachineCommand] = []

    def emit(self, *commands: MachineCommand, **changes: object) -> None:
        self.commands += commands
        # Most events are text, which changes nothing: a state is not copied for each of them.
        if changes and any(getattr(self.state, name) is not value for name, value in changes.items()):
            self.state = replace(self.state, **changes)  # type: ignore[arg-type]  # names are checked by `replace`

    def acknowledge(self) -> None:
        """The agent has sent output: it has received its prompt and its results."""
        if self.state.silent or self.state.unacknowledged_results:
            self.emit(silent=False, unacknowledged_prompt=(), unacknowledged_results=())

    def end_reply(self, end: ReplyEnd, error: LanguageModelError | None = None) -> None:
        if self.state.reply is not None:
            self.emit(EndReply(self.state.reply, end, error), reply=None, unmet=None, asked_again=False)

    def end_answer(self, *why: Part) -> None:
        """End the reply as complete, or as failed if it lacks what its request demands. `why` are its last parts."""
        self.emit(*map(Emit, why))
        unmet = self.state.unmet
        if unmet is None:
            self.end_reply("complete")
        else:
            self.end_reply("failed", _explained(unmet.error, why))

    def judge(self, verdict: ReplyVerdict | None) -> None:
        """Note whether the open reply meets its demand. A queued prompt has its answer still to come."""
        if verdict is None or verdict.reply != self.state.reply or self.state.queue:
            return
        self.emit(unmet=verdict.unmet)
        if verdict.unmet is None:
            self.emit(Settle(verdict.answer))

    def open_reply(self, event: Requested) -> bool:
        """Open a reply with the backlog and the notices. Returns whether there are notices."""
        self.emit(OpenReply(event.reply), reply=event.reply, unmet=event.unmet)
        if self.state.has_backlog and self.state.turn != "cancelling":
            self.emit(Release(), has_backlog=False)
        notices = (*self.state.notices, *event.notices)
        self.emit(*map(Emit, notices), notices=())
        return bool(notices)

    def stop_gathering(self) -> None:
        if self.state.gathering:
            self.emit(ClearTimer("gather"), ClearTimer("gather_limit"), gathering=False)

    def drop_pending(self, for_calls: CallAnswer, answers: Mapping[str, CallAnswer] | None = None) -> None:
        """Answer all pending calls, because their turn ends. A call whose result has arrived still gets the result."""
        self.stop_gathering()
        for call in self.state.pending:
            answer = (answers or {}).get(call.call_id)
            if call.kind == "permission":
                answer = for_calls if isinstance(for_calls, TimedOut) else TurnCancelled()
            elif not isinstance(answer, ToolResult):
                answer = for_calls
            self.emit(AnswerPending(call, answer))
        self.emit(pending=(), announced=frozenset())

    def cancel_turn(self, for_calls: CallAnswer, answers: Mapping[str, CallAnswer] | None = None) -> None:
        """Cancel the turn in ACP's order: the cancel first, then `cancelled` for what is open."""
        self.emit(
            SendCancel(),
            SetTimer("grace"),
            turn="cancelling",
            unacknowledged_prompt=(),
            unacknowledged_results=(),
        )
        self.stop_steering()
        self.drop_pending(for_calls, answers)

    def end_turn(self, error: LanguageModelError | None = None) -> None:
        """The agent ended its turn. After an error without other output, its session may not have the turn."""
        if error is not None and self.state.silent:
            self.emit(TakeBack())
        self.emit(turn="none", silent=False, unacknowledged_prompt=(), unacknowledged_results=())

    def lose_turn(self) -> None:
        """The agent is gone, possibly with everything of this turn that its session has not stored."""
        if self.state.turn != "none":
            self.emit(TakeBack(acknowledged=not self.state.silent), turn="none", silent=False)

    def lose_agent(self) -> None:
        """Drop the agent and its pending calls. Calls that the consumer has are orphaned."""
        self.stop_gathering()
        self.stop_steering()
        self.lose_turn()
        orphaned = tuple(call for call in self.state.pending if call.handed_over)
        self.emit(
            ClearTimer("human"),
            agent="dead",
            pending=(),
            orphaned=self.state.orphaned + orphaned,
            announced=frozenset(),
            queue=self.state.unacknowledged_results + self.state.queue,
            unacknowledged_results=(),
        )

    def deliver(self, answers: Mapping[str, CallAnswer]) -> None:
        """Answer every call that the consumer has. A call without a result is interrupted."""
        for call in self.state.pending:
            if call.handed_over:
                self.emit(AnswerPending(call, _fitting(call, answers.get(call.call_id))))
        self.emit(pending=tuple(call for call in self.state.pending if not call.handed_over))

    def mark_unacknowledged(self, given: tuple[Pending, ...], answers: Mapping[str, CallAnswer]) -> None:
        """Store the results that the agent was given until it acknowledges them: it may have exited before."""
        if self.state.phase == "Streaming" and any(
            isinstance(answers.get(call.call_id), ToolResult) for call in given
        ):
            self.emit(unacknowledged_results=(lost_results(given, answers),))

    def enqueue(self, prompt: Prompt, *, is_answered: bool = False) -> None:
        """Queue a prompt. If the reply would stay empty, emit a notice that says why."""
        self.emit(queue=self.state.queue + prompt)
        if not (self.state.queue or self.state.pending or is_answered):
            self.emit(Emit(_TOO_LATE))

    def steer_or_enqueue(self, prompt: Prompt) -> None:
        """Send a message into the running turn where the agent accepts that, but never before earlier messages."""
        state = self.state
        if prompt and state.steers and state.reply is not None and not (state.queue or state.steering):
            steering = Steering(state.reply, prompt)
            self.emit(Steer(steering), steering=steering)
        else:
            self.emit(queue=state.queue + prompt)

    def stop_steering(self) -> None:
        """Queue messages that the agent did not confirm for the next turn."""
        if self.state.steering is not None:
            self.emit(queue=self.state.steering.prompt + self.state.queue, steering=None)

    def advance(self) -> None:
        """Do what follows from the state alone: hand calls over, send the queued prompt, or become idle."""
        state = self.state
        if state.agent != "up" or state.turn == "cancelling" or state.reply is None or state.gathering:
            return
        waiting = [call for call in state.pending if _is_for_consumer(call)]
        if waiting:
            for call in waiting:
                self.emit(Emit(call.part))
            handed_over = tuple(
                msgspec.structs.replace(call, handed_over=True) if call in waiting else call
                for call in state.pending
            )
            self.emit(SetTimer("human"), pending=handed_over)
            self.end_reply("complete")
        elif state.turn == "none" and state.queue:
            self.emit(SendPrompt(state.queue), turn="running", queue=(), silent=True)
        elif state.turn == "none" and state.unmet is not None and not state.asked_again:
            self.emit(SendPrompt(state.unmet.prompt), turn="running", silent=True, asked_again=True)
        elif state.turn == "none":
            self.end_answer()
            self.emit(SetTimer("idle"))


def _explained(error: LanguageModelError, why: tuple[Part, ...]) -> LanguageModelError:
    """The error with the last words of the reply: a consumer may get nothing but the error."""
    words = [plain(part.value).strip() for part in why if isinstance(part, TextPart)]
    return LanguageModelError(error.kind, " ".join([error.message, *words])) if words else error


def _is_for_consumer(call: Pending) -> bool:
    """Whether the consumer is to get this call and has not got it yet."""
    return not (call.handed_over or call.at_console)


def _fitting(call: Pending, answer: CallAnswer | None) -> CallAnswer:
    """Return an answer of the right kind. For a permission anything but a proved grant is a refusal."""
    if call.kind == "permission":
        return answer if isinstance(answer, Granted | Refused) else Refused()
    return answer if isinstance(answer, ToolResult) else Interrupted()


# What each event does. The phase it is handled in stands in the table below.


def _ignore(do: _Transition, event: MachineEvent) -> None:
    """The event has no effect."""


def _start(do: _Transition, event: Requested) -> None:
    """The agent is started. Results for calls of an agent that is gone go into its prompt."""
    has_backlog, orphaned = do.state.has_backlog, do.state.orphaned
    for call in orphaned:
        # No agent receives it, but the call is settled; and no permission outlives the agent that requested it.
        answer = Refused() if call.kind == "permission" else _fitting(call, event.answers.get(call.call_id))
        do.emit(AnswerPending(call, answer))
    has_notices = do.open_reply(event)
    lost = (lost_results(orphaned, event.answers),) if event.answers and not event.cancels else ()
    do.emit(orphaned=())
    do.enqueue(lost + event.prompt, is_answered=has_backlog or has_notices)
    if do.state.queue:
        do.emit(StartAgent(), agent="starting")
    else:
        do.end_answer()


def _replace_request(do: _Transition, event: Requested) -> None:
    """A newer request while the agent starts or stops: it wins, and includes the prompts that were not sent yet."""
    do.end_reply("cut")
    do.enqueue(event.prompt, is_answered=do.open_reply(event))


def _begin(do: _Transition, event: Requested) -> None:
    """The backlog goes out first. Then calls that the consumer does not have are handed over, or the prompt is sent."""
    do.emit(ClearTimer("idle"), ClearTimer("human"))
    given = tuple(call for call in do.state.pending if call.handed_over)
    is_answered = do.state.has_backlog or bool(given)
    do.deliver(event.answers)
    has_notices = do.open_reply(event)
    do.enqueue(event.prompt, is_answered=is_answered or has_notices)
    prompt = do.state.queue
    do.advance()
    if do.state.turn == "running" and not is_answered:
        do.emit(unacknowledged_prompt=prompt)
    do.mark_unacknowledged(given, event.answers)


def _interrupt(do: _Transition, event: Requested) -> None:
    """Another request while one streams: the newer wins."""
    do.end_reply("cut")
    do.cancel_turn(Interrupted(), event.answers)
    do.open_reply(event)
    do.emit(queue=do.state.queue + event.prompt)


def _continue(do: _Transition, event: Requested) -> None:
    """Results go to their calls and the turn goes on, or the request cancels the turn."""
    do.emit(ClearTimer("human"))
    if event.cancels:
        _interrupt(do, event)
        return
    given = tuple(call for call in do.state.pending if call.handed_over)
    do.deliver(event.answers)
    do.open_reply(event)
    do.steer_or_enqueue(event.prompt)
    do.advance()
    do.mark_unacknowledged(given, event.answers)


def _cancel_unsent(do: _Transition, event: ReplyCancelled) -> None:
    """The prompt was not sent to the agent: there is nothing to cancel."""
    if event.reply == do.state.reply:
        do.end_reply("cut")


def _cancel(do: _Transition, event: ReplyCancelled) -> None:
    """The reply settles at once; the turn stops when it stops."""
    if event.reply == do.state.reply:
        do.end_reply("cut")
        do.cancel_turn(Interrupted())


def _started(do: _Transition, event: AgentStarted) -> None:
    """The queued prompt is sent."""
    do.emit(agent="up", turn="none", steers=event.steers)
    if do.state.reply is None:
        do.emit(SetTimer("idle"))
    do.advance()


def _exited(do: _Transition, event: AgentExited) -> None:
    """The reply fails. Calls that the consumer has are orphaned; the others are dropped."""
    do.lose_agent()
    do.end_reply("failed", event.error)


def _exited_streaming(do: _Transition, event: AgentExited) -> None:
    """The reply fails. If the agent exited without output of the turn, another one is started for the prompt."""
    if do.state.unacknowledged_prompt:
        do.lose_turn()
        do.emit(
            StartAgent(),
            agent="starting",
            # At the console only: a request between two turns was open when the prompt was sent.
            pending=(),
            queue=do.state.unacknowledged_prompt + do.state.queue,
            unacknowledged_prompt=(),
        )
    else:
        _exited(do, event)


def _start_over(do: _Transition, event: AgentUnfit) -> None:
    """A new run of the agent gets the prompt, and the reply stays open; ignored once the agent has sent output."""
    if do.state.silent:
        do.lose_turn()
        # What asks for an answer once more belongs to this reply alone, so it is not queued: it is sent anew.
        prompt = () if do.state.asked_again else event.prompt
        queue = do.state.unacknowledged_results + prompt + do.state.queue
        do.emit(
            StopAgent(),
            StartAgent(),
            agent="starting",
            asked_again=False,
            pending=(),
            queue=queue,
            unacknowledged_prompt=(),
            unacknowledged_results=(),
        )


def _exited_cancelling(do: _Transition, _event: AgentExited) -> None:
    """The agent has stopped, as it was asked to."""
    do.lose_turn()
    do.emit(ClearTimer("grace"), Discard(), agent="dead", has_backlog=False)
    _restart_if_wanted(do)


def _restart_if_wanted(do: _Transition) -> None:
    if do.state.reply is not None:
        do.emit(StartAgent(), agent="starting")


def _emit(do: _Transition, event: Spoke) -> None:
    """Into the open reply."""
    do.commands.append(Emit(event.part))
    if do.state.silent or do.state.unacknowledged_results:
        do.acknowledge()


def _notice(do: _Transition, event: Noticed) -> None:
    """Into the open reply. A notice is not output of the agent."""
    do.emit(Emit(event.part))


def _keep(do: _Transition, event: Spoke | Noticed) -> None:
    """No reply is open: the part goes to the backlog, for the next reply."""
    do.emit(Keep(event.part), has_backlog=True)


def _announce(do: _Transition, event: Announced) -> None:
    """The machine waits for an announced call, or no longer does."""
    announced = do.state.announced - {event.key} if event.over else do.state.announced | {event.key}
    do.emit(announced=announced)
    do.acknowledge()


def _gather(do: _Transition, event: Called) -> None:
    """The machine waits for siblings of the call, unless every announced call has arrived."""
    announced = do.state.announced - {event.announced}
    do.emit(pending=(*do.state.pending, event.pending), announced=announced)
    do.acknowledge()
    if event.pending.at_console:
        return
    if event.announced is not None and not announced:
        # Every announced call has arrived.
        do.stop_gathering()
        do.advance()
        return
    if not do.state.gathering:
        do.emit(SetTimer("gather_limit"))
    do.emit(SetTimer("gather"), gathering=True)


def _queue_call(do: _Transition, event: Called) -> None:
    """No reply is open: the call is handed over in the next one."""
    do.emit(pending=(*do.state.pending, event.pending), announced=do.state.announced - {event.announced})


def _turn_away(do: _Transition, event: Called) -> None:
    """The turn of the call is over: it is answered as cancelled or interrupted."""
    do.emit(
        AnswerPending(event.pending, TurnCancelled() if event.pending.kind == "permission" else Interrupted())
    )


def _withdraw(do: _Transition, event: CallWithdrawn) -> None:
    """The call is removed. A result that arrives later is discarded."""
    for call in do.state.pending:
        if call.key == event.key and call.handed_over:
            do.emit(Forget(call))
    do.emit(pending=tuple(call for call in do.state.pending if call.key != event.key))
    if not any(map(_is_for_consumer, do.state.pending)):
        do.stop_gathering()


def _decided(do: _Transition, event: Decided) -> None:
    """The agent gets the answer. Ignored if its request is no longer pending."""
    for call in do.state.pending:
        if call.key == event.key and call.at_console:
            do.emit(AnswerPending(call, event.answer))
            do.emit(pending=tuple(other for other in do.state.pending if other is not call))
            if do.state.phase == "Awaiting":
                # The agent works on without a consumer: from now on it has that time.
                do.emit(SetTimer("human"))


def _detach(do: _Transition, event: ReplyDetached) -> None:
    """The reply ends, and the turn goes on. Gathered calls are handed over in the next reply.

    Ignored until the agent has acknowledged what it was sent: the prompt and results of an open reply can be sent again.
    """
    has_acknowledged = not (do.state.silent or do.state.unacknowledged_results)
    if event.reply == do.state.reply and has_acknowledged:
        do.stop_gathering()
        do.emit(SetTimer("human"))
        do.end_answer(*event.parts)


def _stop_unsent(do: _Transition, event: TurnStopped) -> None:
    """A reply whose prompt was not sent ends with a notice. The prompt goes to the agent with the next one."""
    if do.state.reply is not None:
        do.end_answer(event.part)


def _stop_streaming(do: _Transition, event: TurnStopped) -> None:
    """The reply ends with a notice, and the turn is cancelled."""
    do.end_answer(event.part)
    do.cancel_turn(Interrupted())


def _stop_awaiting(do: _Transition, event: TurnStopped) -> None:
    """The turn is cancelled. No reply is open, so the notice waits for the next one."""
    do.emit(ClearTimer("human"), notices=(event.part,))
    do.cancel_turn(Interrupted())


def _turn_ended(do: _Transition, event: AgentTurnEnded) -> None:
    """The reply ends with the turn, unless another prompt was queued, or the agent is asked for what the reply lacks."""
    do.stop_steering()
    do.drop_pending(Interrupted())
    do.judge(event.verdict)
    do.emit(*map(Emit, event.last_words))
    do.end_turn(event.error)
    if event.error is not None:
        do.end_reply("failed", event.error)
        do.emit(SetTimer("idle"))
    do.advance()


def _turn_ended_unseen(do: _Transition, event: AgentTurnEnded) -> None:
    """No reply is open: the last parts of the turn go to the backlog, for the next reply."""
    do.emit(ClearTimer("human"))
    do.stop_steering()
    do.drop_pending(Interrupted())
    words = event.last_words
    if event.error is not None:
        words = (*words, error_part(event.error))
    do.end_turn(event.error)
    do.emit(
        *(Keep(part) for part in words), SetTimer("idle"), has_backlog=do.state.has_backlog or bool(words)
    )


def _steered(do: _Transition, event: Steered) -> None:
    """The turn has the message, or the message waits for the end of the turn."""
    if do.state.steering is None or do.state.steering.reply != event.reply:
        # Too late: the message goes with the next prompt.
        return
    if event.taken:
        do.emit(steering=None)
    else:
        do.stop_steering()


def _turn_stopped(do: _Transition, event: AgentTurnEnded) -> None:
    """The old turn is over and its backlog is discarded; the next turn may begin."""
    do.end_turn(event.error)
    do.emit(ClearTimer("grace"), Discard(), has_backlog=False)
    if do.state.reply is None:
        do.emit(SetTimer("idle"))
    do.advance()


def _timer_streaming(do: _Transition, event: TimerPassed) -> None:
    """The time to wait for siblings is over."""
    if event.timer in ("gather", "gather_limit"):
        do.stop_gathering()
        do.advance()


def _timer_awaiting(do: _Transition, event: TimerPassed) -> None:
    """The time for a person to decide is over: the turn is cancelled. At the console, a person has a time limit of its own."""
    if event.timer != "human":
        return
    if any(call.at_console for call in do.state.pending):
        do.emit(SetTimer("human"))
        return
    if not do.state.pending:
        do.emit(notices=(_UNATTENDED,))
    do.cancel_turn(TimedOut())


def _timer_cancelling(do: _Transition, event: TimerPassed) -> None:
    """The turn does not stop: the agent is replaced."""
    if event.timer == "grace":
        do.lose_turn()
        do.emit(StopAgent(), Discard(), agent="none", has_backlog=False)
        _restart_if_wanted(do)


def _timer_idle(do: _Transition, event: TimerPassed) -> None:
    """The agent is parked. With a permission request open, the person first gets the `human` time to decide."""
    if event.timer == "human":
        do.drop_pending(TimedOut())
        do.emit(SetTimer("idle"))
    elif event.timer == "idle" and do.state.pending:
        do.emit(SetTimer("human"))
    elif event.timer == "idle":
        do.emit(StopAgent(), agent="none")


@dataclass(frozen=True, slots=True)
class TableRow:
    handler: Callable[[_Transition, MachineEvent], None]
    leads_to: frozenset[Phase]


def _row(handler: Callable[..., None], *leads_to: Phase) -> TableRow:
    return TableRow(handler, frozenset(leads_to))


TABLE: Mapping[tuple[Phase, type[MachineEvent]], TableRow] = {
    ("Parked", Requested): _row(_start, "Starting", "Parked"),
    ("Parked", ReplyCancelled): _row(_ignore, "Parked"),
    ("Parked", TimerPassed): _row(_ignore, "Parked"),
    ("Parked", CallWithdrawn): _row(_ignore, "Parked"),
    ("Parked", Decided): _row(_ignore, "Parked"),
    ("Parked", ReplyDetached): _row(_ignore, "Parked"),
    ("Parked", TurnStopped): _row(_ignore, "Parked"),
    ("Dead", Requested): _row(_start, "Starting", "Dead"),
    ("Dead", ReplyCancelled): _row(_ignore, "Dead"),
    ("Dead", TimerPassed): _row(_ignore, "Dead"),
    ("Dead", CallWithdrawn): _row(_ignore, "Dead"),
    ("Dead", Decided): _row(_ignore, "Dead"),
    ("Dead", ReplyDetached): _row(_ignore, "Dead"),
    ("Dead", TurnStopped): _row(_ignore, "Dead"),
    ("Starting", Requested): _row(_replace_request, "Starting"),
    ("Starting", ReplyCancelled): _row(_cancel_unsent, "Starting"),
    ("Starting", AgentStarted): _row(_started, "Idle", "Streaming"),
    ("Starting", AgentExited): _row(_exited, "Dead"),
    ("Starting", Spoke): _row(_ignore, "Starting"),
    ("Starting", Noticed): _row(_ignore, "Starting"),
    ("Starting", Announced): _row(_ignore, "Starting"),
    ("Starting", Called): _row(_turn_away, "Starting"),
    ("Starting", CallWithdrawn): _row(_ignore, "Starting"),
    ("Starting", Decided): _row(_ignore, "Starting"),
    ("Starting", ReplyDetached): _row(_ignore, "Starting"),
    ("Starting", TurnStopped): _row(_stop_unsent, "Starting"),
    ("Starting", TimerPassed): _row(_ignore, "Starting"),
    ("Idle", Requested): _row(_begin, "Streaming", "Idle"),
    ("Idle", ReplyCancelled): _row(_ignore, "Idle"),
    ("Idle", AgentExited): _row(_exited, "Dead"),
    ("Idle", Spoke): _row(_keep, "Idle"),
    ("Idle", Noticed): _row(_keep, "Idle"),
    ("Idle", Announced): _row(_ignore, "Idle"),
    ("Idle", Called): _row(_queue_call, "Idle"),
    ("Idle", Steered): _row(_ignore, "Idle"),
    ("Idle", CallWithdrawn): _row(_withdraw, "Idle"),
    ("Idle", Decided): _row(_decided, "Idle"),
    ("Idle", ReplyDetached): _row(_ignore, "Idle"),
    ("Idle", TurnStopped): _row(_ignore, "Idle"),
    ("Idle", TimerPassed): _row(_timer_idle, "Idle", "Parked"),
    ("Streaming", Requested): _row(_interrupt, "Cancelling"),
    ("Streaming", ReplyCancelled): _row(_cancel, "Cancelling", "Streaming"),
    ("Streaming", AgentExited): _row(_exited_streaming, "Dead", "Starting"),
    ("Streaming", Spoke): _row(_emit, "Streaming"),
    ("Streaming", Noticed): _row(_notice, "Streaming"),
    ("Streaming", Announced): _row(_announce, "Streaming"),
    ("Streaming", Called): _row(_gather, "Streaming", "Awaiting"),
    ("Streaming", CallWithdrawn): _row(_withdraw, "Streaming"),
    ("Streaming", Decided): _row(_decided, "Streaming"),
    ("Streaming", ReplyDetached): _row(_detach, "Awaiting", "Streaming"),
    ("Streaming", TurnStopped): _row(_stop_streaming, "Cancelling"),
    ("Streaming", AgentTurnEnded): _row(_turn_ended, "Idle", "Streaming"),
    ("Streaming", AgentUnfit): _row(_start_over, "Starting", "Streaming"),
    ("Streaming", Steered): _row(_steered, "Streaming"),
    ("Streaming", TimerPassed): _row(_timer_streaming, "Streaming", "Awaiting"),
    ("Awaiting", Requested): _row(_continue, "Streaming", "Awaiting", "Cancelling"),
    ("Awaiting", ReplyCancelled): _row(_ignore, "Awaiting"),
    ("Awaiting", AgentExited): _row(_exited, "Dead"),
    ("Awaiting", Spoke): _row(_keep, "Awaiting"),
    ("Awaiting", Noticed): _row(_keep, "Awaiting"),
    ("Awaiting", Announced): _row(_announce, "Awaiting"),
    ("Awaiting", Called): _row(_queue_call, "Awaiting"),
    ("Awaiting", CallWithdrawn): _row(_withdraw, "Awaiting"),
    ("Awaiting", Decided): _row(_decided, "Awaiting"),
    ("Awaiting", ReplyDetached): _row(_ignore, "Awaiting"),
    ("Awaiting", TurnStopped): _row(_stop_awaiting, "Cancelling"),
    ("Awaiting", AgentTurnEnded): _row(_turn_ended_unseen, "Idle"),
    ("Awaiting", Steered): _row(_steered, "Awaiting"),
    ("Awaiting", TimerPassed): _row(_timer_awaiting, "Awaiting", "Cancelling"),
    ("Cancelling", Requested): _row(_replace_request, "Cancelling"),
    ("Cancelling", ReplyCancelled): _row(_cancel_unsent, "Cancelling"),
    ("Cancelling", AgentExited): _row(_exited_cancelling, "Dead", "Starting"),
    ("Cancelling", Spoke): _row(_ignore, "Cancelling"),
    ("Cancelling", Noticed): _row(_ignore, "Cancelling"),
    ("Cancelling", Announced): _row(_ignore, "Cancelling"),
    ("Cancelling", Called): _row(_turn_away, "Cancelling"),
    ("Cancelling", CallWithdrawn): _row(_ignore, "Cancelling"),
    ("Cancelling", Decided): _row(_ignore, "Cancelling"),
    ("Cancelling", ReplyDetached): _row(_ignore, "Cancelling"),
    ("Cancelling", TurnStopped): _row(_stop_unsent, "Cancelling"),
    ("Cancelling", AgentTurnEnded): _row(_turn_stopped, "Idle", "Streaming"),
    ("Cancelling", AgentUnfit): _row(_ignore, "Cancelling"),
    ("Cancelling", Steered): _row(_ignore, "Cancelling"),
    ("Cancelling", TimerPassed): _row(_timer_cancelling, "Cancelling", "Parked", "Starting"),
}
