"""The state machine of one conversation: an event in, a new state and commands out.

Two rules. Everything that decides what happens next in a conversation is in this file. And this file does nothing: it
has no clock, no process, no queue; whoever runs it carries out the commands, in order, and brings the events.

Theory of operation
-------------------

Four things change independently, and a phase is a view of them:

- the *agent*: there is none (`parked`, or `dead` when it went by itself), it is `starting`, or it is up;
- the *turn*: none, `running`, or `cancelling` (told to stop, and not stopped yet);
- the *reply*: the response that is open towards the consumer, if any. Several requests may listen to one reply; that
  is not our concern here;
- the *pending* calls: what the agent waits for, tool calls and permission requests alike. A call is *gathered* when it
  has arrived, and *handed over* once the consumer has been given it.

    phase        agent       turn         reply
    Starting     starting    -            open, or none if it was cancelled meanwhile
    Idle         up          none         none
    Streaming    up          running      open
    Awaiting     up          running      none: the consumer has calls, or the agent works on between two requests
    Cancelling   up          cancelling   none, or one that waits for the old turn to stop
    Parked       none        -            none
    Dead         none        -            none

The names of the seed, AwaitingToolPermission and AwaitingToolResult, are views of Awaiting: `awaits_permission` tells.

A response ends with its calls. When the first call arrives, siblings are waited for: all that were announced, and a
moment for those that never are. Text that arrives in the meantime goes out before the calls; text that arrives later is
*kept*, and leads the next reply of this conversation. So are calls and permissions that arrive with no reply open:
they are handed over in the next one, after the results it brings.

A turn that must be cancelled is cancelled in ACP's order: `session/cancel`, then `cancelled` for every permission that
is open, and `interrupted` for every call, unless it has its result by then. The next prompt waits for the stop reason,
so that nothing of the old turn can be taken for the new one; when that does not come in time, the agent is replaced.

A prompt that the agent never heard (it was cancelled while the agent started) stays in the queue, and goes to the agent
with the next one. Calls whose agent is gone are *orphaned*: their results are told to the next agent in its prompt. A
permission never is: the next agent asks again. Nor does anybody see at once that a process has died: results that it was
given, and has shown no sign of, are *unproved*, and told to the next agent all the same.

An agent may also turn out to be *unfit* for the prompt under way, because it does not see the tools that the prompt is about
or still tells the history of an earlier turn. Then it is stopped, and another run of it is given the prompt.

What the user says while a turn runs waits for its end; an agent that can be *steered* gets it at once. What it does not
take, or has not said that it took when the turn is over, waits like the rest.

An agent that was idle may be gone, and nobody knows until it is prompted. When it goes without a sign of the turn (not
a word, an announcement or a call; what we say ourselves is none), the prompt is given to another one, once, and nobody is
told. One that has just been started has no such excuse: it would crash again.

A prompt tells more than the user's words: the transcript, and what the program says. An agent that goes in the middle of
a turn may not have kept it, and may take its session up again without it; one that answers with nothing but an error may
not have taken it in. What that prompt told is then *taken back*, and told again with the next. Not the transcript, if the
agent has shown a sign of the turn: its session knows the conversation, and would be told it like one that joins it.

Somebody always waits with a limit. The `gather` timers run while siblings are waited for, `grace` while a turn is
cancelled, `human` while the consumer has calls or the agent works on with nobody listening, `idle` while nothing happens.

Every phase × event is in `TABLE`, with the phases it may lead to. What is not there is illegal: it raises, and changes
nothing. `docs/machine.md` is drawn from the table.

Whoever carries the commands out may fail at one of them, and then it is not known what was done of the rest. `give_up` is
the step for that, from any phase: as if the agent were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import msgspec

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
    ReplyEnd,
    Requested,
    SendCancel,
    SendPrompt,
    SetTimer,
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
)
from dragoman.backends.agent.prompt.replay import lost_results
from dragoman.lm import LanguageModelError, TextPart
from dragoman.lm.gfm import error_text, notice
from dragoman.lm.parts import ToolResult

__all__ = ["PHASES", "TABLE", "IllegalEvent", "Phase", "State", "Step", "TableRow", "give_up", "handle"]

Phase: TypeAlias = Literal["Parked", "Starting", "Idle", "Streaming", "Awaiting", "Cancelling", "Dead"]
PHASES: tuple[Phase, ...] = get_args(Phase)
# The consumer brings results, and nobody waits for them any more.
_TOO_LATE = TextPart(notice("The agent ended its turn before these results arrived."))


# State.

_WITHOUT_AGENT: Mapping[str, Phase] = {"none": "Parked", "dead": "Dead", "starting": "Starting"}


@dataclass(frozen=True, slots=True)
class State:
    agent: Literal["none", "dead", "starting", "up"] = "none"
    turn: Literal["none", "running", "cancelling"] = "none"
    reply: int | None = None
    pending: tuple[Pending, ...] = ()
    # Calls that the consumer has, of an agent that is gone.
    orphaned: tuple[Pending, ...] = ()
    # Calls the agent has announced and not made.
    announced: frozenset[str] = frozenset()
    # Siblings of a call are being waited for.
    gathering: bool = False
    # Prompts for the agent, in order: sent when no turn runs and a reply is open.
    queue: Prompt = ()
    # The prompt of the turn under way, which an idle agent was given and has shown no sign of.
    unheard: Prompt = ()
    # The agent was prompted, and has shown no sign of the turn.
    silent: bool = False
    # Results that the agent was given in this reply and has shown no sign of, as words for the next one.
    unproved: Prompt = ()
    # Whether the agent takes words in mid-turn, and those of which it has not said what became of them.
    steers: bool = False
    steering: Steering | None = None
    # Whether the agent said anything since the last reply ended that nobody has seen.
    kept: bool = False

    # Follows from the rest: computed when a state is made, because it is asked for with every event.
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
        """Not to be parked: somebody waits for something."""
        return self.reply is not None or self.turn != "none" or bool(self.pending)


class IllegalEvent(Exception):
    """An event that cannot happen in this phase: a fault of whoever runs the machine."""

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
    """The step after a command that was not carried out. Replies are ended beside it: which are open, nobody knows here."""
    do = _Transition(state)
    do.lose_agent()
    do.emit(
        StopAgent(), Discard(), ClearTimer("grace"), ClearTimer("idle"), reply=None, unheard=(), kept=False
    )
    return do.state, tuple(do.commands)


class _Transition(msgspec.Struct):
    """A step under way: the state it has come to, and the commands so far."""

    state: State
    commands: list[MachineCommand] = []

    def emit(self, *commands: MachineCommand, **changes: object) -> None:
        self.commands += commands
        # Most events are words, which change nothing: a state is not copied for each of them.
        if changes and any(getattr(self.state, name) is not value for name, value in changes.items()):
            self.state = replace(self.state, **changes)  # type: ignore[arg-type]  # names are checked by `replace`

    def acknowledge(self) -> None:
        """The agent has what it was given."""
        if self.state.silent or self.state.unproved:
            self.emit(silent=False, unheard=(), unproved=())

    def end_reply(self, end: ReplyEnd, error: LanguageModelError | None = None) -> None:
        if self.state.reply is not None:
            self.emit(EndReply(self.state.reply, end, error), reply=None)

    def open_reply(self, event: Requested) -> None:
        self.emit(OpenReply(event.reply), reply=event.reply)
        if self.state.kept and self.state.turn != "cancelling":
            self.emit(Release(), kept=False)
        self.emit(*map(Emit, event.notices))

    def stop_gathering(self) -> None:
        if self.state.gathering:
            self.emit(ClearTimer("gather"), ClearTimer("gather_limit"), gathering=False)

    def drop_pending(self, for_calls: CallAnswer, answers: Mapping[str, CallAnswer] | None = None) -> None:
        """The turn that these were part of is over, or will be. A call that has its result gets it all the same."""
        self.stop_gathering()
        for call in self.state.pending:
            answer = (answers or {}).get(call.call_id)
            if call.kind == "permission":
                answer = TurnCancelled()
            elif not isinstance(answer, ToolResult):
                answer = for_calls
            self.emit(AnswerPending(call, answer))
        self.emit(pending=(), announced=frozenset())

    def cancel_turn(self, for_calls: CallAnswer, answers: Mapping[str, CallAnswer] | None = None) -> None:
        """ACP's order: the cancel first, then `cancelled` for what is open."""
        self.emit(SendCancel(), SetTimer("grace"), turn="cancelling", unheard=(), unproved=())
        self.stop_steering()
        self.drop_pending(for_calls, answers)

    def end_turn(self, error: LanguageModelError | None = None) -> None:
        """The agent's own end of it; with an error and nothing else, it may know nothing of the turn."""
        if error is not None and self.state.silent:
            self.emit(TakeBack())
        self.emit(turn="none", silent=False, unheard=(), unproved=())

    def lose_turn(self) -> None:
        """The agent is gone, and with it, it may be, all that it has not kept."""
        if self.state.turn != "none":
            self.emit(TakeBack(heard=not self.state.silent), turn="none", silent=False)

    def lose_agent(self) -> None:
        """What it waited for is gone with it; what the consumer has of it is orphaned."""
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
            queue=self.state.unproved + self.state.queue,
            unproved=(),
        )

    def deliver(self, answers: Mapping[str, CallAnswer]) -> None:
        """Every call that the consumer has gets its answer; one that came back without is interrupted."""
        for call in self.state.pending:
            if call.handed_over:
                self.emit(AnswerPending(call, _fitting(call, answers.get(call.call_id))))
        self.emit(pending=tuple(call for call in self.state.pending if not call.handed_over))

    def mark_unacknowledged(self, given: tuple[Pending, ...], answers: Mapping[str, CallAnswer]) -> None:
        """The agent was given results. Until it shows that it has them, it may have been gone."""
        if self.state.phase == "Streaming" and any(
            isinstance(answers.get(call.call_id), ToolResult) for call in given
        ):
            self.emit(unproved=(lost_results(given, answers),))

    def enqueue(self, prompt: Prompt, *, is_answered: bool = False) -> None:
        """Words for the agent. With none, and nothing else that can come of this reply, the consumer is told why."""
        self.emit(queue=self.state.queue + prompt)
        if not (self.state.queue or self.state.pending or is_answered):
            self.emit(Emit(_TOO_LATE))

    def say_in_turn(self, prompt: Prompt) -> None:
        """At once where that is possible, but never before what was said earlier."""
        state = self.state
        if prompt and state.steers and state.reply is not None and not (state.queue or state.steering):
            steering = Steering(state.reply, prompt)
            self.emit(Steer(steering), steering=steering)
        else:
            self.emit(queue=state.queue + prompt)

    def stop_steering(self) -> None:
        """What the agent did not say that it took is for the next turn."""
        if self.state.steering is not None:
            self.emit(queue=self.state.steering.prompt + self.state.queue, steering=None)

    def advance(self) -> None:
        """What follows from the state alone: hand calls over, send what is queued, or come to rest."""
        state = self.state
        if state.agent != "up" or state.turn == "cancelling" or state.reply is None or state.gathering:
            return
        waiting = [call for call in state.pending if not call.handed_over]
        if waiting:
            for call in waiting:
                self.emit(Emit(call.part))
            handed_over = tuple(msgspec.structs.replace(call, handed_over=True) for call in state.pending)
            self.emit(SetTimer("human"), pending=handed_over)
            self.end_reply("complete")
        elif state.turn == "none" and state.queue:
            self.emit(SendPrompt(state.queue), turn="running", queue=(), silent=True)
        elif state.turn == "none":
            self.end_reply("complete")
            self.emit(SetTimer("idle"))


def _fitting(call: Pending, answer: CallAnswer | None) -> CallAnswer:
    """An answer of the right kind. For a permission anything but a proved grant is a refusal."""
    if call.kind == "permission":
        return answer if isinstance(answer, Granted | Refused) else Refused()
    return answer if isinstance(answer, ToolResult) else Interrupted()


# What each event does. The phase it is handled in stands in the table below.


def _ignore(do: _Transition, event: MachineEvent) -> None:
    """Nothing follows from it."""


def _start(do: _Transition, event: Requested) -> None:
    """The agent is started. Calls of one that is gone get their results through the next one's prompt."""
    is_told, orphaned = do.state.kept or bool(event.notices), do.state.orphaned
    for call in orphaned:
        # Nobody is there to hear it, but it is settled; and no permission outlives the agent that asked for it.
        answer = Refused() if call.kind == "permission" else _fitting(call, event.answers.get(call.call_id))
        do.emit(AnswerPending(call, answer))
    do.open_reply(event)
    lost = (lost_results(orphaned, event.answers),) if event.answers and not event.cancels else ()
    do.emit(orphaned=())
    do.enqueue(lost + event.prompt, is_answered=is_told)
    if do.state.queue:
        do.emit(StartAgent(), agent="starting")
    else:
        do.end_reply("complete")


def _replace_request(do: _Transition, event: Requested) -> None:
    """A newer request while the agent starts or stops: it wins, and takes along what was not heard yet."""
    do.end_reply("cut")
    do.open_reply(event)
    do.enqueue(event.prompt, is_answered=bool(event.notices))


def _begin(do: _Transition, event: Requested) -> None:
    """What was kept leads; then calls that nobody has seen yet are handed over, or the prompt is sent."""
    do.emit(ClearTimer("idle"), ClearTimer("human"))
    given = tuple(call for call in do.state.pending if call.handed_over)
    is_answered = do.state.kept or bool(given)
    do.deliver(event.answers)
    do.open_reply(event)
    do.enqueue(event.prompt, is_answered=is_answered or bool(event.notices))
    prompt = do.state.queue
    do.advance()
    if do.state.turn == "running" and not is_answered:
        do.emit(unheard=prompt)
    do.mark_unacknowledged(given, event.answers)


def _interrupt(do: _Transition, event: Requested) -> None:
    """Another request while one streams: the newer wins."""
    do.end_reply("cut")
    do.cancel_turn(Interrupted(), event.answers)
    do.open_reply(event)
    do.emit(queue=do.state.queue + event.prompt)


def _continue(do: _Transition, event: Requested) -> None:
    """Results go to their calls, and the turn goes on; or the turn is not wanted any more."""
    do.emit(ClearTimer("human"))
    if event.cancels:
        _interrupt(do, event)
        return
    given = tuple(call for call in do.state.pending if call.handed_over)
    do.deliver(event.answers)
    do.open_reply(event)
    do.say_in_turn(event.prompt)
    do.advance()
    do.mark_unacknowledged(given, event.answers)


def _cancel_unsent(do: _Transition, event: ReplyCancelled) -> None:
    """The agent has not heard of it: nothing is to be cancelled."""
    if event.reply == do.state.reply:
        do.end_reply("cut")


def _cancel(do: _Transition, event: ReplyCancelled) -> None:
    """The reply settles at once; the turn stops when it stops."""
    if event.reply == do.state.reply:
        do.end_reply("cut")
        do.cancel_turn(Interrupted())


def _started(do: _Transition, event: AgentStarted) -> None:
    """What was queued in the meantime is sent."""
    do.emit(agent="up", turn="none", steers=event.steers)
    if do.state.reply is None:
        do.emit(SetTimer("idle"))
    do.advance()


def _exited(do: _Transition, event: AgentExited) -> None:
    """The reply fails. What the agent waited for is gone with it; what the consumer has of it is orphaned."""
    do.lose_agent()
    do.end_reply("failed", event.error)


def _exited_streaming(do: _Transition, event: AgentExited) -> None:
    """The reply fails, unless the agent went without a sign of the turn: then another one is started for it."""
    if do.state.unheard:
        do.lose_turn()
        do.emit(StartAgent(), agent="starting", queue=do.state.unheard + do.state.queue, unheard=())
    else:
        _exited(do, event)


def _start_over(do: _Transition, event: AgentUnfit) -> None:
    """Another run of the agent is given the prompt, and the reply stays open. One that has shown life is past that."""
    if do.state.silent:
        do.lose_turn()
        queue = do.state.unproved + event.prompt + do.state.queue
        do.emit(StopAgent(), StartAgent(), agent="starting", queue=queue, unheard=(), unproved=())


def _exited_cancelling(do: _Transition, _event: AgentExited) -> None:
    """It was to stop, and has."""
    do.lose_turn()
    do.emit(ClearTimer("grace"), Discard(), agent="dead", kept=False)
    _restart_if_wanted(do)


def _restart_if_wanted(do: _Transition) -> None:
    if do.state.reply is not None:
        do.emit(StartAgent(), agent="starting")


def _emit(do: _Transition, event: Spoke) -> None:
    """Into the open reply."""
    do.commands.append(Emit(event.part))
    if do.state.silent or do.state.unproved:
        do.acknowledge()


def _notice(do: _Transition, event: Noticed) -> None:
    """Into the open reply. The agent has shown nothing by it."""
    do.emit(Emit(event.part))


def _keep(do: _Transition, event: Spoke | Noticed) -> None:
    """Nobody listens: it leads the next reply."""
    do.emit(Keep(event.part), kept=True)


def _announce(do: _Transition, event: Announced) -> None:
    """A call to wait for, or no longer."""
    announced = do.state.announced - {event.key} if event.over else do.state.announced | {event.key}
    do.emit(announced=announced)
    do.acknowledge()


def _gather(do: _Transition, event: Called) -> None:
    """Siblings are waited for, but not when everything that was announced has come."""
    announced = do.state.announced - {event.announced}
    do.emit(pending=(*do.state.pending, event.pending), announced=announced)
    do.acknowledge()
    if event.announced is not None and not announced:
        # Everything that was announced has come.
        do.stop_gathering()
        do.advance()
        return
    if not do.state.gathering:
        do.emit(SetTimer("gather_limit"))
    do.emit(SetTimer("gather"), gathering=True)


def _queue_call(do: _Transition, event: Called) -> None:
    """Nobody listens: it leads the next reply."""
    do.emit(pending=(*do.state.pending, event.pending), announced=do.state.announced - {event.announced})


def _turn_away(do: _Transition, event: Called) -> None:
    """Its turn is over, whatever it wanted."""
    do.emit(
        AnswerPending(event.pending, TurnCancelled() if event.pending.kind == "permission" else Interrupted())
    )


def _withdraw(do: _Transition, event: CallWithdrawn) -> None:
    """A result that comes later goes nowhere."""
    for call in do.state.pending:
        if call.key == event.key and call.handed_over:
            do.emit(Forget(call))
    do.emit(pending=tuple(call for call in do.state.pending if call.key != event.key))
    if all(call.handed_over for call in do.state.pending):
        do.stop_gathering()


def _turn_ended(do: _Transition, event: AgentTurnEnded) -> None:
    """The reply ends with the turn, unless more was said to the agent in the meantime."""
    do.stop_steering()
    do.drop_pending(Interrupted())
    do.emit(*(Emit(part) for part in event.last_words))
    do.end_turn(event.error)
    if event.error is not None:
        do.end_reply("failed", event.error)
        do.emit(SetTimer("idle"))
    do.advance()


def _turn_ended_unseen(do: _Transition, event: AgentTurnEnded) -> None:
    """Nobody listens: its end is kept for the next reply."""
    do.emit(ClearTimer("human"))
    do.stop_steering()
    do.drop_pending(Interrupted())
    words = event.last_words
    if event.error is not None:
        words = (*words, TextPart(error_text(event.error)))
    do.end_turn(event.error)
    do.emit(*(Keep(part) for part in words), SetTimer("idle"), kept=do.state.kept or bool(words))


def _steered(do: _Transition, event: Steered) -> None:
    """The turn has the words, or they wait for its end."""
    if do.state.steering is None or do.state.steering.reply != event.reply:
        # Too late: they are on their way with the next prompt.
        return
    if event.taken:
        do.emit(steering=None)
    else:
        do.stop_steering()


def _turn_stopped(do: _Transition, event: AgentTurnEnded) -> None:
    """The old turn is over, and nothing of it reaches anybody; now the next may begin."""
    do.end_turn(event.error)
    do.emit(ClearTimer("grace"), Discard(), kept=False)
    if do.state.reply is None:
        do.emit(SetTimer("idle"))
    do.advance()


def _timer_streaming(do: _Transition, event: TimerPassed) -> None:
    """Siblings had their time."""
    if event.timer in ("gather", "gather_limit"):
        do.stop_gathering()
        do.advance()


def _timer_awaiting(do: _Transition, event: TimerPassed) -> None:
    """A person had their time: as a cancelled turn."""
    if event.timer == "human":
        do.cancel_turn(TimedOut())


def _timer_cancelling(do: _Transition, event: TimerPassed) -> None:
    """The turn does not stop: the agent is replaced."""
    if event.timer == "grace":
        do.lose_turn()
        do.emit(StopAgent(), Discard(), agent="none", kept=False)
        _restart_if_wanted(do)


def _timer_idle(do: _Transition, event: TimerPassed) -> None:
    """Parked, unless the agent asked for something outside a turn: a person has their time for that."""
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
    ("Dead", Requested): _row(_start, "Starting", "Dead"),
    ("Dead", ReplyCancelled): _row(_ignore, "Dead"),
    ("Dead", TimerPassed): _row(_ignore, "Dead"),
    ("Dead", CallWithdrawn): _row(_ignore, "Dead"),
    ("Starting", Requested): _row(_replace_request, "Starting"),
    ("Starting", ReplyCancelled): _row(_cancel_unsent, "Starting"),
    ("Starting", AgentStarted): _row(_started, "Idle", "Streaming"),
    ("Starting", AgentExited): _row(_exited, "Dead"),
    ("Starting", Spoke): _row(_ignore, "Starting"),
    ("Starting", Noticed): _row(_ignore, "Starting"),
    ("Starting", Announced): _row(_ignore, "Starting"),
    ("Starting", Called): _row(_turn_away, "Starting"),
    ("Starting", CallWithdrawn): _row(_ignore, "Starting"),
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
    ("Idle", TimerPassed): _row(_timer_idle, "Idle", "Parked"),
    ("Streaming", Requested): _row(_interrupt, "Cancelling"),
    ("Streaming", ReplyCancelled): _row(_cancel, "Cancelling", "Streaming"),
    ("Streaming", AgentExited): _row(_exited_streaming, "Dead", "Starting"),
    ("Streaming", Spoke): _row(_emit, "Streaming"),
    ("Streaming", Noticed): _row(_notice, "Streaming"),
    ("Streaming", Announced): _row(_announce, "Streaming"),
    ("Streaming", Called): _row(_gather, "Streaming", "Awaiting"),
    ("Streaming", CallWithdrawn): _row(_withdraw, "Streaming"),
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
    ("Cancelling", AgentTurnEnded): _row(_turn_stopped, "Idle", "Streaming"),
    ("Cancelling", AgentUnfit): _row(_ignore, "Cancelling"),
    ("Cancelling", Steered): _row(_ignore, "Cancelling"),
    ("Cancelling", TimerPassed): _row(_timer_cancelling, "Cancelling", "Parked", "Starting"),
}
