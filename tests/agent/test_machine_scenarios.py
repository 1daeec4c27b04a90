"""Scenarios as lists of events: what the machine does with each, exactly."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dragoman.backends.agent.machine.machine import Phase, State, handle
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
    Refused,
    Release,
    ReplyCancelled,
    ReplyDetached,
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
    TurnStopped,
)
from dragoman.lm import LanguageModelError, Message, TextPart, ToolCallPart, user
from dragoman.lm.parts import NoticePart, ToolResult

GONE = LanguageModelError("agent_failed", "The agent is gone.", hint="Try again.")
LOOK = Pending("k1", "call", ToolCallPart("dg_1", "look", {}))
TOUCH = Pending("k2", "call", ToolCallPart("dg_2", "touch", {}))
SMELL = Pending("k3", "call", ToolCallPart("dg_3", "smell", {}))
MAY_I = Pending("p1", "permission", ToolCallPart("dg_p1", "dragoman-agent-action-execute", {}))
MAY_WE = Pending("p2", "permission", ToolCallPart("dg_p2", "dragoman-agent-action-edit", {}))
SEEN = ToolResult((TextPart("seen"),))
FELT = ToolResult((TextPart("felt"),))
TOO_LATE = Emit(NoticePart("\n\n*The agent ended its turn before these results arrived.*\n\n"))


def says(*texts: str) -> tuple[Message, ...]:
    return tuple(user(text) for text in texts)


def given(pending: Pending) -> Pending:
    return Pending(pending.key, pending.kind, pending.part, handed_over=True)


def text(value: str) -> Spoke:
    return Spoke(TextPart(value))


def emit(value: str) -> Emit:
    return Emit(TextPart(value))


class Machine:
    def __init__(self, *events: MachineEvent) -> None:
        self.state = State()
        for event in events:
            self(event)

    def __call__(self, event: MachineEvent) -> list[MachineCommand]:
        self.state, commands = handle(self.state, event)
        return list(commands)

    @property
    def phase(self) -> Phase:
        return self.state.phase


def streaming() -> Machine:
    return Machine(Requested(1, prompt=says("one")), AgentStarted())


def awaiting(*calls: Pending) -> Machine:
    machine = streaming()
    for call in calls:
        machine(Called(call))
    machine(TimerPassed("gather"))
    assert machine.phase == "Awaiting"
    return machine


def idle() -> Machine:
    machine = streaming()
    machine(AgentTurnEnded())
    return machine


def test_a_turn_from_its_prompt_to_its_end() -> None:
    machine = Machine()
    phases = [machine.phase]
    assert machine(Requested(1, prompt=says("one"))) == [OpenReply(1), StartAgent()]
    phases.append(machine.phase)
    assert machine(AgentStarted()) == [SendPrompt(says("one"))]
    phases.append(machine.phase)
    assert phases == ["Parked", "Starting", "Streaming"]
    assert machine(text("First.")) == [emit("First.")]
    assert machine(AgentTurnEnded((TextPart("\nThat is all."),))) == [
        Emit(TextPart("\nThat is all.")),
        EndReply(1, "complete"),
        SetTimer("idle"),
    ]
    assert machine.phase == "Idle"
    assert machine(Requested(2, prompt=says("two"))) == [
        ClearTimer("idle"),
        ClearTimer("human"),
        OpenReply(2),
        SendPrompt(says("two")),
    ]
    assert machine.state == State(
        agent="up", turn="running", reply=2, unacknowledged_prompt=says("two"), silent=True
    )
    machine(text("Second."))
    assert machine.state == State(agent="up", turn="running", reply=2)


# Tools.


def test_t1_a_call_ends_the_response_and_its_result_goes_on() -> None:
    machine = streaming()
    assert machine(Called(LOOK)) == [SetTimer("gather_limit"), SetTimer("gather")]
    assert machine(TimerPassed("gather")) == [
        ClearTimer("gather"),
        ClearTimer("gather_limit"),
        Emit(LOOK.part),
        SetTimer("human"),
        EndReply(1, "complete"),
    ]
    assert (machine.phase, machine.state.pending) == ("Awaiting", (given(LOOK),))
    assert machine(Requested(2, {"dg_1": SEEN})) == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), SEEN),
        OpenReply(2),
    ]
    assert machine(text("I see.")) == [emit("I see.")]
    assert machine(AgentTurnEnded()) == [EndReply(2, "complete"), SetTimer("idle")]


def test_t2_text_in_the_gather_window_goes_before_the_calls_and_later_text_leads_the_next_response() -> None:
    machine = streaming()
    machine(text("Before. "))
    machine(Called(LOOK))
    assert machine(text("Between.")) == [emit("Between.")]
    machine(TimerPassed("gather"))
    assert machine(text("Behind.")) == [Keep(TextPart("Behind."))]
    assert machine(Requested(2, {"dg_1": SEEN})) == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), SEEN),
        OpenReply(2),
        Release(),
    ]
    assert machine(text("And on.")) == [emit("And on.")]
    assert not machine.state.has_backlog


@pytest.mark.parametrize("announced", [True, False])
def test_t3_two_calls_within_the_window_go_into_one_response(announced: bool) -> None:  # noqa: FBT001
    machine = streaming()
    if announced:
        machine(Announced("a"))
        machine(Announced("b"))
        assert machine(Called(LOOK, "a")) == [SetTimer("gather_limit"), SetTimer("gather")]
        last = machine(Called(TOUCH, "b"))
    else:
        machine(Called(LOOK))
        # The window begins anew with each; the limit does not.
        assert machine(Called(TOUCH)) == [SetTimer("gather")]
        last = machine(TimerPassed("gather_limit"))
    assert last == [
        ClearTimer("gather"),
        ClearTimer("gather_limit"),
        Emit(LOOK.part),
        Emit(TOUCH.part),
        SetTimer("human"),
        EndReply(1, "complete"),
    ]
    assert machine(Requested(2, {"dg_1": SEEN, "dg_2": FELT}))[1:3] == [
        AnswerPending(given(LOOK), SEEN),
        AnswerPending(given(TOUCH), FELT),
    ]


def test_t3_everything_announced_has_come_so_nobody_is_waited_for() -> None:
    machine = streaming()
    machine(Announced("a"))
    assert machine(Called(LOOK, "a")) == [Emit(LOOK.part), SetTimer("human"), EndReply(1, "complete")]


def test_t3_a_call_that_was_announced_and_thought_better_of_is_not_waited_for() -> None:
    machine = streaming()
    machine(Announced("a"))
    machine(Announced("b"))
    machine(Announced("b", over=True))
    assert machine(Called(LOOK, "a"))[-1] == EndReply(1, "complete")


def test_t4_results_in_any_order_each_to_its_own_call() -> None:
    machine = awaiting(LOOK, TOUCH)
    commands = machine(Requested(2, {"dg_2": FELT, "dg_1": SEEN}))
    assert commands == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), SEEN),
        AnswerPending(given(TOUCH), FELT),
        OpenReply(2),
    ]


def test_t5_calls_without_a_result_end_as_interrupted_and_the_turn_goes_on() -> None:
    machine = awaiting(LOOK, TOUCH, SMELL)
    commands = machine(Requested(2, {"dg_2": FELT}))
    assert commands == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), Interrupted()),
        AnswerPending(given(TOUCH), FELT),
        AnswerPending(given(SMELL), Interrupted()),
        OpenReply(2),
    ]
    assert (machine.phase, machine.state.pending) == ("Streaming", ())


def test_t6_a_result_for_a_call_that_is_settled_goes_nowhere() -> None:
    machine = awaiting(LOOK)
    machine(Requested(2, {"dg_1": SEEN}))
    machine(Called(TOUCH))
    machine(TimerPassed("gather"))
    assert AnswerPending(given(LOOK), SEEN) not in machine(Requested(3, {"dg_1": FELT, "dg_2": FELT}))


def test_t9_text_with_a_result_is_prompted_once_when_the_turn_ends() -> None:
    machine = awaiting(LOOK)
    assert machine(Requested(2, {"dg_1": SEEN}, says("and hurry"))) == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), SEEN),
        OpenReply(2),
    ]
    # In whichever request is open then.
    machine(Called(TOUCH))
    machine(TimerPassed("gather"))
    machine(Requested(3, {"dg_2": FELT}))
    assert machine(AgentTurnEnded()) == [SendPrompt(says("and hurry"))]
    assert (machine.phase, machine.state.reply, machine.state.queue) == ("Streaming", 3, ())
    assert machine(AgentTurnEnded()) == [EndReply(3, "complete"), SetTimer("idle")]


def test_t16_a_withdrawn_call_is_closed_and_its_late_result_goes_nowhere() -> None:
    machine = awaiting(LOOK, TOUCH)
    assert machine(CallWithdrawn("k1")) == [Forget(given(LOOK))]
    assert machine.state.pending == (given(TOUCH),)
    assert machine(Requested(2, {"dg_1": SEEN, "dg_2": FELT})) == [
        ClearTimer("human"),
        AnswerPending(given(TOUCH), FELT),
        OpenReply(2),
    ]


def test_t16_withdrawn_before_it_was_handed_over_it_is_never_seen() -> None:
    machine = streaming()
    machine(Called(LOOK))
    machine(Called(TOUCH))
    assert machine(CallWithdrawn("k1")) == []
    assert machine(CallWithdrawn("k2")) == [ClearTimer("gather"), ClearTimer("gather_limit")]
    assert machine(AgentTurnEnded()) == [EndReply(1, "complete"), SetTimer("idle")]


def test_t16_all_withdrawn_while_nobody_listens_still_has_a_limit() -> None:
    machine = awaiting(LOOK)
    assert machine(CallWithdrawn("k1")) == [Forget(given(LOOK))]
    machine(Called(TOUCH))
    assert machine(TimerPassed("human")) == [
        SendCancel(),
        SetTimer("grace"),
        AnswerPending(TOUCH, TimedOut()),
    ]


def test_t24_calls_and_permissions_with_no_request_open_lead_the_next_response() -> None:
    machine = awaiting(LOOK)
    assert machine(text("Meanwhile.")) == [Keep(TextPart("Meanwhile."))]
    assert machine(Called(TOUCH)) == []
    assert machine(Called(MAY_I)) == []
    assert machine(Requested(2, {"dg_1": SEEN})) == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), SEEN),
        OpenReply(2),
        Release(),
        Emit(TOUCH.part),
        Emit(MAY_I.part),
        SetTimer("human"),
        EndReply(2, "complete"),
    ]
    assert machine.phase == "Awaiting"


def test_t24_a_call_outside_any_turn_waits_for_somebody_but_not_for_ever() -> None:
    machine = idle()
    assert machine(Called(LOOK)) == []
    assert machine(TimerPassed("idle")) == [SetTimer("human")]
    assert machine.phase == "Idle"
    assert machine(TimerPassed("human")) == [AnswerPending(LOOK, TimedOut()), SetTimer("idle")]
    assert machine(TimerPassed("idle")) == [StopAgent()]
    # A request arrives in time.
    machine = idle()
    machine(Called(LOOK))
    assert machine(Requested(2, prompt=says("two"))) == [
        ClearTimer("idle"),
        ClearTimer("human"),
        OpenReply(2),
        Emit(LOOK.part),
        SetTimer("human"),
        EndReply(2, "complete"),
    ]
    assert machine(Requested(3, {"dg_1": SEEN}))[2:] == [
        AnswerPending(given(LOOK), SEEN),
        OpenReply(3),
        SendPrompt(says("two")),
    ]
    # Or brings its result, and has nothing to say.
    machine = idle()
    machine(Called(LOOK))
    machine(Requested(2))
    assert machine(Requested(3, {"dg_1": SEEN}))[2:] == [
        AnswerPending(given(LOOK), SEEN),
        OpenReply(3),
        EndReply(3, "complete"),
        SetTimer("idle"),
    ]


# Permissions.


@pytest.mark.parametrize("answer", [Granted(), Refused("no")])
def test_p1_p2_a_decision_goes_to_the_agent_and_the_turn_goes_on(answer: CallAnswer) -> None:
    machine = awaiting(MAY_I)
    assert machine.state.awaits_permission
    assert machine(Requested(2, {"dg_p1": answer})) == [
        ClearTimer("human"),
        AnswerPending(given(MAY_I), answer),
        OpenReply(2),
    ]
    assert machine.state == State(agent="up", turn="running", reply=2)


@pytest.mark.parametrize("answer", [SEEN, Interrupted(), TimedOut(), TurnCancelled(), None])
def test_p3_anything_but_a_grant_is_a_refusal(answer: CallAnswer | None) -> None:
    answers: Mapping[str, CallAnswer] = {} if answer is None else {"dg_p1": answer}
    assert AnswerPending(given(MAY_I), Refused()) in awaiting(MAY_I)(Requested(2, answers))


@pytest.mark.parametrize("answer", [Granted(), Refused(), TurnCancelled(), TimedOut()])
def test_p3_a_decision_is_no_result(answer: CallAnswer) -> None:
    assert AnswerPending(given(LOOK), Interrupted()) in awaiting(LOOK)(Requested(2, {"dg_1": answer}))


def test_p4_a_new_message_instead_of_an_answer() -> None:
    machine = awaiting(MAY_I)
    assert machine(Requested(2, prompt=says("no, this"), cancels=True)) == [
        ClearTimer("human"),
        SendCancel(),
        SetTimer("grace"),
        AnswerPending(given(MAY_I), TurnCancelled()),
        OpenReply(2),
    ]
    assert machine.phase == "Cancelling"
    assert machine(AgentTurnEnded((TextPart("Stopped."),))) == [
        ClearTimer("grace"),
        Discard(),
        SendPrompt(says("no, this")),
    ]
    assert (machine.phase, machine.state.reply) == ("Streaming", 2)


def test_p8_two_permissions_and_a_call_at_once() -> None:
    machine = streaming()
    for call in (MAY_I, LOOK, MAY_WE):
        machine(Called(call))
    assert machine(TimerPassed("gather"))[2:] == [
        Emit(MAY_I.part),
        Emit(LOOK.part),
        Emit(MAY_WE.part),
        SetTimer("human"),
        EndReply(1, "complete"),
    ]
    assert machine(Requested(2, {"dg_p1": Refused(), "dg_1": SEEN, "dg_p2": Granted()}))[1:4] == [
        AnswerPending(given(MAY_I), Refused()),
        AnswerPending(given(LOOK), SEEN),
        AnswerPending(given(MAY_WE), Granted()),
    ]


def test_p22_silence_until_the_deadline_is_no_denial() -> None:
    machine = awaiting(LOOK, MAY_I)
    assert machine(TimerPassed("human")) == [
        SendCancel(),
        SetTimer("grace"),
        AnswerPending(given(LOOK), TimedOut()),
        AnswerPending(given(MAY_I), TimedOut()),
    ]
    assert machine.phase == "Cancelling"
    # A request that arrives now gets a notice that it is too late.
    assert machine(Requested(2, {"dg_1": SEEN})) == [OpenReply(2), TOO_LATE]
    assert machine(AgentTurnEnded()) == [
        ClearTimer("grace"),
        Discard(),
        EndReply(2, "complete"),
        SetTimer("idle"),
    ]


@pytest.mark.parametrize("phase", ["Idle", "Parked", "Dead"])
def test_p22_a_result_after_the_deadline_is_told_to_be_too_late(phase: Phase) -> None:
    machine = awaiting(LOOK)
    machine(TimerPassed("human"))
    machine(AgentTurnEnded())
    if phase == "Parked":
        machine(TimerPassed("idle"))
    if phase == "Dead":
        machine(AgentExited(GONE))
    assert machine.phase == phase
    answers: Mapping[str, CallAnswer] = {} if phase == "Dead" else {"dg_1": SEEN}
    commands = machine(Requested(2, {} if phase == "Parked" else answers))
    assert [it for it in commands if not isinstance(it, ClearTimer | SetTimer)] == [
        OpenReply(2),
        TOO_LATE,
        EndReply(2, "complete"),
    ]
    assert machine.phase == phase


def test_p24_a_withdrawn_permission_grants_nothing() -> None:
    machine = awaiting(MAY_I)
    machine(CallWithdrawn("p1"))
    assert machine(Requested(2, {"dg_p1": Granted()})) == [ClearTimer("human"), OpenReply(2)]


def test_p25_what_ran_before_the_stop_has_run() -> None:
    machine = awaiting(LOOK, TOUCH, MAY_I)
    answers: dict[str, CallAnswer] = {"dg_1": SEEN, "dg_p1": Granted()}
    assert machine(Requested(2, answers, says("instead"), cancels=True)) == [
        ClearTimer("human"),
        SendCancel(),
        SetTimer("grace"),
        AnswerPending(given(LOOK), SEEN),
        AnswerPending(given(TOUCH), Interrupted()),
        # A turn that is cancelled has no use for a permission.
        AnswerPending(given(MAY_I), TurnCancelled()),
        OpenReply(2),
    ]


# Cancel.


def test_c1_while_the_agent_starts() -> None:
    machine = Machine(Requested(1, prompt=says("one")))
    assert machine(ReplyCancelled(1)) == [EndReply(1, "cut")]
    assert machine.phase == "Starting"
    assert machine(AgentStarted()) == [SetTimer("idle")]
    # What was not heard yet is heard with the next prompt.
    assert machine(Requested(2, prompt=says("two")))[-1] == SendPrompt(says("one", "two"))


def test_c1_and_a_new_prompt_while_it_still_starts() -> None:
    machine = Machine(Requested(1, prompt=says("one")))
    machine(ReplyCancelled(1))
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2)]
    assert machine(AgentStarted()) == [SendPrompt(says("one", "two"))]


def test_c1_a_newer_request_wins_while_the_agent_starts() -> None:
    machine = Machine(Requested(1, prompt=says("one")))
    assert machine(Requested(2, prompt=says("two"))) == [EndReply(1, "cut"), OpenReply(2)]


@pytest.mark.parametrize("words", [(), ("Fir",)], ids=["C2 before the first token", "C3 in mid-stream"])
def test_c2_c3_the_response_settles_at_once(words: tuple[str, ...]) -> None:
    machine = streaming()
    for word in words:
        machine(text(word))
    assert machine(ReplyCancelled(1)) == [EndReply(1, "cut"), SendCancel(), SetTimer("grace")]
    assert machine.phase == "Cancelling"
    # Once is enough.
    assert machine(ReplyCancelled(1)) == []
    assert machine(AgentTurnEnded()) == [ClearTimer("grace"), Discard(), SetTimer("idle")]
    assert machine(Requested(2, prompt=says("two")))[-1] == SendPrompt(says("two"))


def test_c3_cancelling_what_has_ended_cancels_nothing() -> None:
    machine = idle()
    assert machine(ReplyCancelled(1)) == []
    machine(Requested(2, prompt=says("two")))
    assert machine(ReplyCancelled(1)) == []
    assert machine.phase == "Streaming"


@pytest.mark.parametrize("call", [LOOK, MAY_I], ids=["C4 a result", "C5 a permission"])
def test_c4_c5_stopped_while_something_is_awaited(call: Pending) -> None:
    """The reply ended with the call, so the stop shows in the next request only."""
    machine = awaiting(call)
    assert machine(ReplyCancelled(1)) == []
    commands = machine(Requested(2, prompt=says("two"), cancels=True))
    assert commands[1:3] == [SendCancel(), SetTimer("grace")]
    assert commands[3] == AnswerPending(given(call), Interrupted() if call is LOOK else TurnCancelled())
    assert machine(AgentTurnEnded())[-1] == SendPrompt(says("two"))


def test_c6_in_the_gather_window_no_call_follows() -> None:
    machine = streaming()
    machine(Called(LOOK))
    machine(Called(MAY_I))
    assert machine(ReplyCancelled(1)) == [
        EndReply(1, "cut"),
        SendCancel(),
        SetTimer("grace"),
        ClearTimer("gather"),
        ClearTimer("gather_limit"),
        AnswerPending(LOOK, Interrupted()),
        AnswerPending(MAY_I, TurnCancelled()),
    ]
    assert machine(TimerPassed("gather")) == []
    # A sibling that comes late is turned away.
    assert machine(Called(TOUCH)) == [AnswerPending(TOUCH, Interrupted())]
    assert machine(Called(MAY_WE)) == [AnswerPending(MAY_WE, TurnCancelled())]


def test_c7_an_agent_that_does_not_stop_is_replaced() -> None:
    machine = streaming()
    machine(ReplyCancelled(1))
    machine(Requested(2, prompt=says("two")))
    assert machine(TimerPassed("grace")) == [TakeBack(), StopAgent(), Discard(), StartAgent()]
    assert machine.phase == "Starting"
    assert machine(AgentStarted()) == [SendPrompt(says("two"))]
    # No request waits: the agent is only stopped.
    machine = streaming()
    machine(ReplyCancelled(1))
    assert machine(TimerPassed("grace")) == [TakeBack(), StopAgent(), Discard()]
    assert machine.phase == "Parked"
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2), StartAgent()]


def test_c8_a_new_prompt_waits_for_the_old_turns_end() -> None:
    machine = streaming()
    assert machine(Requested(2, prompt=says("two"))) == [
        EndReply(1, "cut"),
        SendCancel(),
        SetTimer("grace"),
        OpenReply(2),
    ]
    assert machine(Requested(3, prompt=says("three"))) == [EndReply(2, "cut"), OpenReply(3)]
    assert machine(AgentTurnEnded()) == [ClearTimer("grace"), Discard(), SendPrompt(says("two", "three"))]
    assert machine.state.reply == 3


def test_c9_nothing_of_the_old_turn_is_credited_to_the_new_one() -> None:
    machine = awaiting(LOOK)
    machine(text("Kept of the old turn."))
    machine(Requested(2, prompt=says("two"), cancels=True))
    for event in (text("Old."), Called(TOUCH), Announced("old"), CallWithdrawn("k1"), TimerPassed("gather")):
        commands = machine(event)
        assert not any(isinstance(command, Emit | Keep | Release) for command in commands), event
    assert machine(AgentTurnEnded((TextPart("Old words."),), GONE)) == [
        ClearTimer("grace"),
        Discard(),
        SendPrompt(says("two")),
    ]
    assert machine.state == State(agent="up", turn="running", reply=2, silent=True)
    assert machine(text("New.")) == [emit("New.")]


# Faults.


def test_f2_exit_during_the_start() -> None:
    machine = Machine(Requested(1, prompt=says("one")))
    assert machine(AgentExited(GONE)) == [ClearTimer("human"), EndReply(1, "failed", GONE)]
    assert machine.phase == "Dead"
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2), StartAgent()]
    assert machine(AgentStarted()) == [SendPrompt(says("one", "two"))]


def test_f2_exit_during_a_start_that_nobody_waits_for() -> None:
    machine = Machine(Requested(1, prompt=says("one")), ReplyCancelled(1))
    assert machine(AgentExited(GONE)) == [ClearTimer("human")]
    assert machine.phase == "Dead"


@pytest.mark.parametrize("words", [(), ("Fir",)], ids=["F3 in the first turn", "F5 in mid-stream"])
def test_f3_f5_a_crash_fails_the_reply_and_the_next_prompt_starts_anew(words: tuple[str, ...]) -> None:
    machine = streaming()
    for word in words:
        assert machine(text(word)) == [emit(word)]
    machine(Called(LOOK))
    assert machine(AgentExited(GONE)) == [
        ClearTimer("gather"),
        ClearTimer("gather_limit"),
        TakeBack(acknowledged=True),
        ClearTimer("human"),
        EndReply(1, "failed", GONE),
    ]
    assert machine.state == State(agent="dead")
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2), StartAgent()]


def test_f3_a_crash_without_a_sign_of_the_first_turn_takes_everything_back() -> None:
    machine = streaming()
    machine(Noticed(TextPart("The agent cannot take image/png.")))
    assert machine(AgentExited(GONE)) == [TakeBack(), ClearTimer("human"), EndReply(1, "failed", GONE)]


def test_f4_a_crash_while_idle_is_nobodys_failure() -> None:
    machine = idle()
    machine(text("Late words."))
    assert machine(AgentExited(GONE)) == [ClearTimer("human")]
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2), Release(), StartAgent()]


def test_f4_late_words_and_nothing_to_say() -> None:
    machine = idle()
    machine(text("Late words."))
    machine(AgentExited(GONE))
    assert machine(Requested(2)) == [OpenReply(2), Release(), EndReply(2, "complete")]


def test_f6_a_crash_while_a_result_is_awaited() -> None:
    machine = awaiting(LOOK, TOUCH)
    machine(Called(SMELL))
    assert machine(AgentExited(GONE)) == [TakeBack(acknowledged=True), ClearTimer("human")]
    assert machine.state == State(agent="dead", orphaned=(given(LOOK), given(TOUCH)))
    assert machine(Requested(2, {"dg_1": SEEN})) == [
        AnswerPending(given(LOOK), SEEN),
        AnswerPending(given(TOUCH), Interrupted()),
        OpenReply(2),
        StartAgent(),
    ]
    (sent,) = machine(AgentStarted())
    assert isinstance(sent, SendPrompt)
    (message,) = sent.prompt
    assert message.text == (
        "You were restarted while you waited. The tool look returned:\n\nseen\n\n"
        "The call of the tool touch was interrupted.\n\nGo on from there."
    )
    assert machine.state.orphaned == ()


def test_f6_the_history_went_on_without_the_orphans() -> None:
    machine = awaiting(LOOK)
    machine(AgentExited(GONE))
    machine(Requested(2, {"dg_1": SEEN}, says("two"), cancels=True))
    assert machine(AgentStarted()) == [SendPrompt(says("two"))]


def test_f6_a_second_crash_loses_no_result_and_tells_none_twice() -> None:
    machine = awaiting(LOOK)
    machine(AgentExited(GONE))
    machine(Requested(2, {"dg_1": SEEN}))
    assert machine(AgentExited(GONE)) == [ClearTimer("human"), EndReply(2, "failed", GONE)]
    assert machine(Requested(3)) == [OpenReply(3), StartAgent()]
    (sent,) = machine(AgentStarted())
    assert isinstance(sent, SendPrompt)
    assert [message.text.count("seen") for message in sent.prompt] == [1]


def test_f6_results_given_to_an_agent_that_is_gone_by_then_are_told_to_the_next_one() -> None:
    """The exit of a process is noticed late: results may arrive before that."""
    machine = awaiting(LOOK, MAY_I)
    machine(Requested(2, {"dg_1": SEEN, "dg_p1": Granted()}, says("and then?")))
    assert machine(AgentExited(GONE)) == [
        TakeBack(acknowledged=True),
        ClearTimer("human"),
        EndReply(2, "failed", GONE),
    ]
    machine(Requested(3, prompt=says("go on")))
    (sent,) = machine(AgentStarted())
    assert isinstance(sent, SendPrompt)
    assert [message.text for message in sent.prompt] == [
        (
            "You were restarted while you waited. The tool look returned:\n\nseen\n\n"
            "A permission was asked for; if it is still needed, ask again.\n\nGo on from there."
        ),
        "and then?",
        "go on",
    ]


@pytest.mark.parametrize(
    "sign",
    [text("I see."), Announced("k9"), Called(TOUCH), ReplyCancelled(2)],
    ids=lambda sign: type(sign).__name__,
)
def test_f6_results_that_the_agent_has_shown_to_have_are_not_told_again(sign: MachineEvent) -> None:
    machine = awaiting(LOOK)
    machine(Requested(2, {"dg_1": SEEN}))
    machine(sign)
    machine(AgentExited(GONE))
    machine(Requested(3, prompt=says("go on")))
    assert machine(AgentStarted()) == [SendPrompt(says("go on"))]


def test_f6_results_of_calls_that_we_have_forgotten_are_told_too() -> None:
    machine = Machine(Requested(1, {"dg_1": SEEN, "dg_p1": Granted()}), AgentStarted())
    assert machine.phase == "Streaming"
    assert "The call dg_1 returned:" in Machine(Requested(1, {"dg_1": SEEN})).state.queue[0].text
    assert "dg_p1" not in Machine(Requested(1, {"dg_1": SEEN, "dg_p1": Granted()})).state.queue[0].text


def test_f7_a_crash_while_a_permission_is_awaited_uses_no_approval() -> None:
    machine = awaiting(MAY_I)
    machine(AgentExited(GONE))
    assert machine(Requested(2, {"dg_p1": Granted()})) == [
        AnswerPending(given(MAY_I), Refused()),
        OpenReply(2),
        StartAgent(),
    ]
    (sent,) = machine(AgentStarted())
    assert isinstance(sent, SendPrompt)
    assert sent.prompt[0].text == (
        "You were restarted while you waited. A permission was asked for; if it is still needed, ask again.\n\n"
        "Go on from there."
    )
    # It is asked for again.
    machine(Called(MAY_WE))
    assert Emit(MAY_WE.part) in machine(TimerPassed("gather"))


def test_f8_a_failed_prompt_fails_its_turn_and_the_session_lives() -> None:
    machine = streaming()
    machine(Called(LOOK))
    assert machine(AgentTurnEnded(error=GONE)) == [
        ClearTimer("gather"),
        ClearTimer("gather_limit"),
        AnswerPending(LOOK, Interrupted()),
        EndReply(1, "failed", GONE),
        SetTimer("idle"),
    ]
    assert machine.phase == "Idle"
    assert machine(Requested(2, prompt=says("two")))[-1] == SendPrompt(says("two"))


@pytest.mark.parametrize("machine", [streaming(), idle()], ids=["the first", "a later one"])
def test_f8_what_a_prompt_told_that_is_answered_with_an_error_alone_is_told_again(machine: Machine) -> None:
    if machine.phase == "Idle":
        machine(Requested(2, prompt=says("two")))
    reply = machine.state.reply
    assert reply is not None
    machine(Noticed(TextPart("The agent cannot take image/png.")))
    assert machine(AgentTurnEnded(error=GONE)) == [
        TakeBack(),
        EndReply(reply, "failed", GONE),
        SetTimer("idle"),
    ]
    # What has spoken has heard.
    machine(Requested(3, prompt=says("three")))
    machine(text("Third."))
    assert TakeBack() not in machine(AgentTurnEnded(error=GONE))
    machine(Requested(4, prompt=says("four")))
    assert TakeBack() not in machine(AgentTurnEnded())
    machine(Requested(5, prompt=says("five")))
    machine(ReplyCancelled(5))
    assert TakeBack() in machine(AgentTurnEnded(error=GONE))


def test_f8_a_prompt_that_fails_with_nobody_listening_is_told_in_the_next_reply() -> None:
    machine = awaiting(LOOK)
    assert machine(AgentTurnEnded(error=GONE)) == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), Interrupted()),
        Keep(NoticePart("\n\n**Error:** The agent is gone. Try again.\n\n")),
        SetTimer("idle"),
    ]
    assert machine(Requested(2, {"dg_1": SEEN})) == [
        ClearTimer("idle"),
        ClearTimer("human"),
        OpenReply(2),
        Release(),
        EndReply(2, "complete"),
        SetTimer("idle"),
    ]


def test_f8_a_crash_while_cancelling_is_a_stop() -> None:
    machine = streaming()
    machine(ReplyCancelled(1))
    assert machine(AgentExited(GONE)) == [TakeBack(), ClearTimer("grace"), Discard()]
    assert machine.phase == "Dead"
    machine = streaming()
    machine(Requested(2, prompt=says("two")))
    assert machine(AgentExited(GONE)) == [TakeBack(), ClearTimer("grace"), Discard(), StartAgent()]
    assert machine(AgentStarted()) == [SendPrompt(says("two"))]


# Buffering and lifetime.


def test_b1_text_between_requests_is_first_in_the_next_response() -> None:
    machine = awaiting(LOOK)
    for word in ("One. ", "Two."):
        assert machine(text(word)) == [Keep(TextPart(word))]
    commands = machine(Requested(2, {"dg_1": SEEN}))
    assert commands[-2:] == [OpenReply(2), Release()]
    machine = idle()
    assert machine(text("Late.")) == [Keep(TextPart("Late."))]
    assert machine(Requested(2, prompt=says("two")))[-3:] == [
        OpenReply(2),
        Release(),
        SendPrompt(says("two")),
    ]


def test_b2_a_turn_that_ended_between_requests_does_not_answer_the_next_prompt() -> None:
    machine = awaiting(LOOK)
    machine(CallWithdrawn("k1"))
    machine(text("I did without."))
    assert machine(AgentTurnEnded((TextPart("Bye."),))) == [
        ClearTimer("human"),
        Keep(TextPart("Bye.")),
        SetTimer("idle"),
    ]
    assert machine.phase == "Idle"
    commands = machine(Requested(2, {}, says("two")))
    assert commands[-3:] == [OpenReply(2), Release(), SendPrompt(says("two"))]
    assert machine.state.reply == 2
    assert machine(AgentTurnEnded()) == [EndReply(2, "complete"), SetTimer("idle")]


def test_b4_idle_for_long_is_parked_and_a_later_request_starts_again() -> None:
    machine = idle()
    assert machine(TimerPassed("human")) == [SetTimer("idle")]
    assert machine(TimerPassed("idle")) == [StopAgent()]
    assert machine.phase == "Parked"
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2), StartAgent()]


def test_b5_waiting_for_a_person_is_not_idleness() -> None:
    machine = awaiting(MAY_I)
    assert machine.state.is_busy
    assert machine(TimerPassed("idle")) == []
    assert machine.phase == "Awaiting"
    assert not idle().state.is_busy
    # A timer that passes late is no reason either.
    machine = streaming()
    assert machine(TimerPassed("idle")) == []
    assert machine(TimerPassed("human")) == []


# An idle agent that is gone when it is prompted.


def test_f4_an_idle_agent_that_is_gone_when_it_is_prompted_is_replaced_and_nobody_is_told() -> None:
    machine = idle()
    machine(Requested(2, prompt=says("two")))
    assert machine(AgentExited(GONE)) == [TakeBack(), StartAgent()]
    assert machine.state == State(agent="starting", reply=2, queue=says("two"))
    assert machine(AgentStarted()) == [SendPrompt(says("two"))]
    assert machine(text("Second.")) == [emit("Second.")]


def test_f4_what_we_say_ourselves_is_no_sign_of_the_agent() -> None:
    notice = Noticed(TextPart("The agent cannot take image/png."))
    machine = idle()
    machine(Requested(2, prompt=says("two")))
    assert machine(notice) == [Emit(notice.part)]
    assert machine(AgentExited(GONE)) == [TakeBack(), StartAgent()]
    machine = awaiting(LOOK)
    machine(Requested(2, {"dg_1": SEEN}))
    machine(notice)
    machine(AgentExited(GONE))
    assert [message.text[:18] for message in machine.state.queue] == ["You were restarted"]


def test_f3_the_agent_that_replaces_it_has_no_excuse() -> None:
    machine = idle()
    machine(Requested(2, prompt=says("two")))
    machine(AgentExited(GONE))
    machine(AgentStarted())
    assert EndReply(2, "failed", GONE) in machine(AgentExited(GONE))
    assert machine.phase == "Dead"


def test_f3_nor_has_one_that_was_started_for_the_prompt() -> None:
    machine = streaming()
    assert EndReply(1, "failed", GONE) in machine(AgentExited(GONE))


@pytest.mark.parametrize("sign", [text("Well"), Announced("a"), Called(LOOK), Called(MAY_I)])
def test_f5_after_a_sign_of_the_turn_its_crash_is_told(sign: MachineEvent) -> None:
    machine = idle()
    machine(Requested(2, prompt=says("two")))
    machine(sign)
    assert EndReply(2, "failed", GONE) in machine(AgentExited(GONE))


def test_f4_what_the_reply_began_with_is_not_said_to_an_agent_that_does_not_know_of_it() -> None:
    """The backlog is in this reply and in no history yet: another agent could not continue from it."""
    machine = idle()
    machine(text("By the way."))
    machine(Requested(2, prompt=says("two")))
    assert EndReply(2, "failed", GONE) in machine(AgentExited(GONE))


def test_f4_a_request_that_is_cancelled_meanwhile_is_not_prompted_again() -> None:
    machine = idle()
    machine(Requested(2, prompt=says("two")))
    machine(ReplyCancelled(2))
    assert machine.phase == "Cancelling"
    assert StartAgent() not in machine(AgentExited(GONE))
    assert machine.state.queue == ()


def test_f4_a_newer_request_while_the_replacement_starts_wins_and_takes_the_prompt_along() -> None:
    machine = idle()
    machine(Requested(2, prompt=says("two")))
    machine(AgentExited(GONE))
    assert EndReply(2, "cut") in machine(Requested(3, prompt=says("three")))
    assert machine(AgentStarted()) == [SendPrompt(says("two", "three"))]


# Words in mid-turn, for an agent that can be steered.


def steered() -> Machine:
    machine = Machine(Requested(1, prompt=says("one")), AgentStarted(steers=True), Called(LOOK))
    machine(TimerPassed("gather"))
    assert machine(Requested(2, {"dg_1": SEEN}, says("and hurry"))) == [
        ClearTimer("human"),
        AnswerPending(given(LOOK), SEEN),
        OpenReply(2),
        Steer(Steering(2, says("and hurry"))),
    ]
    return machine


def test_t9_an_agent_that_can_be_steered_has_the_text_at_once_and_never_again() -> None:
    machine = steered()
    assert machine(Steered(2, taken=True)) == []
    assert machine(AgentTurnEnded()) == [EndReply(2, "complete"), SetTimer("idle")]


def test_t9_what_it_does_not_take_is_prompted_when_the_turn_ends() -> None:
    machine = steered()
    assert machine(Steered(2, taken=False)) == []
    assert machine(AgentTurnEnded()) == [SendPrompt(says("and hurry"))]


def test_t9_a_turn_that_ends_before_it_said_what_became_of_the_text_leaves_it_to_the_next() -> None:
    machine = steered()
    assert machine(AgentTurnEnded()) == [SendPrompt(says("and hurry"))]
    # The answer comes late, and is about nothing any more.
    assert machine(Steered(2, taken=False)) == []
    assert machine(AgentTurnEnded()) == [EndReply(2, "complete"), SetTimer("idle")]


def test_t9_more_text_while_the_first_is_on_its_way_waits_behind_it() -> None:
    machine = steered()
    machine(Called(TOUCH))
    machine(TimerPassed("gather"))
    machine(Requested(3, {"dg_2": FELT}, says("really")))
    assert (machine.state.steering, machine.state.queue) == (Steering(2, says("and hurry")), says("really"))
    machine(Steered(2, taken=False))
    assert machine(AgentTurnEnded()) == [SendPrompt(says("and hurry", "really"))]


def test_t9_text_of_a_turn_that_is_cancelled_or_crashes_is_not_lost() -> None:
    for event in (ReplyCancelled(2), AgentExited(GONE)):
        machine = steered()
        machine(event)
        assert (machine.state.steering, machine.state.queue[-1:]) == (None, says("and hurry"))


def test_t26_a_prompt_that_this_run_of_the_agent_cannot_take_goes_to_another_one() -> None:
    machine = streaming()
    assert machine(AgentUnfit(says("one"))) == [TakeBack(acknowledged=False), StopAgent(), StartAgent()]
    assert (machine.phase, machine.state.reply) == ("Starting", 1)
    assert machine(AgentStarted()) == [SendPrompt(says("one"))]
    # Words of the agent's are a sign: from here on it is past that.
    machine(text("so"))
    assert machine(AgentUnfit(says("one"))) == []
    assert machine.phase == "Streaming"


def test_t26_results_and_words_that_the_agent_may_not_have_had_go_to_the_next_one_too() -> None:
    machine = idle()
    # It asks for something outside a turn, and has its result together with the next prompt.
    machine(Called(LOOK))
    machine(Requested(2))
    machine(Requested(3, {LOOK.call_id: SEEN}, says("one")))
    assert (machine.phase, bool(machine.state.unacknowledged_results)) == ("Streaming", True)
    machine(AgentUnfit(says("one")))
    assert [message.text.partition(" ")[0] for message in machine.state.queue][1:] == ["one"]
    assert len(machine.state.queue) == 2
    assert machine.state.unacknowledged_results == ()


def test_t26_a_turn_that_is_cancelled_is_given_to_nobody_else() -> None:
    machine = streaming()
    machine(ReplyCancelled(1))
    assert machine(AgentUnfit(says("one"))) == []
    assert machine.phase == "Cancelling"


def test_t6_what_became_of_late_results_is_said_first_and_is_an_answer() -> None:
    machine = idle()
    late = TextPart("too late")
    assert machine(Requested(2, notices=(late,))) == [
        ClearTimer("idle"),
        ClearTimer("human"),
        OpenReply(2),
        Emit(late),
        EndReply(2, "complete"),
        SetTimer("idle"),
    ]


AT_CONSOLE = Pending(
    "p3", "permission", ToolCallPart("dg_p3", "dragoman-agent-action-execute", {}), at_console=True
)
BYE = TextPart("bye")


def test_w1_a_question_for_the_console_ends_no_reply_and_its_answer_goes_to_the_agent() -> None:
    machine = streaming()
    machine(text("so"))
    assert machine(Called(AT_CONSOLE)) == []
    assert (machine.phase, machine.state.reply) == ("Streaming", 1)
    assert machine(Decided("p3", Granted())) == [AnswerPending(AT_CONSOLE, Granted())]
    assert machine.state.pending == ()
    # A second decision finds nothing.
    assert machine(Decided("p3", Granted())) == []


def test_w1_a_call_beside_a_question_for_the_console_is_handed_over_alone() -> None:
    machine = streaming()
    machine(text("so"))
    machine(Called(AT_CONSOLE))
    machine(Called(LOOK))
    assert machine(TimerPassed("gather"))[-2:] == [SetTimer("human"), EndReply(1, "complete")]
    assert machine.state.pending == (AT_CONSOLE, given(LOOK))
    assert AnswerPending(given(LOOK), SEEN) in machine(Requested(2, {LOOK.call_id: SEEN}))
    assert machine.phase == "Streaming"
    assert [call.key for call in machine.state.pending] == ["p3"]


def test_w1_a_consumer_that_waits_no_longer_leaves_the_turn_and_gets_the_rest_later() -> None:
    machine = streaming()
    machine(text("so"))
    machine(Called(AT_CONSOLE))
    assert machine(ReplyDetached(1, (BYE,))) == [
        SetTimer("human"),
        Emit(BYE),
        EndReply(1, "complete"),
    ]
    assert machine.phase == "Awaiting"
    # The time for a person at the console is not this timer's.
    assert machine(TimerPassed("human")) == [SetTimer("human")]
    # After the decision the agent has that time to work on.
    assert machine(Decided("p3", Granted())) == [AnswerPending(AT_CONSOLE, Granted()), SetTimer("human")]
    machine(text("the rest"))
    assert machine(Requested(2, prompt=says("on")))[1:3] == [OpenReply(2), Release()]


def test_w1_a_consumer_is_not_left_while_the_agent_may_not_have_what_it_was_sent() -> None:
    machine = idle()
    machine(Called(AT_CONSOLE))
    machine(Requested(2, prompt=says("one")))
    assert machine(ReplyDetached(2, (BYE,))) == []
    machine(text("so"))
    assert machine(ReplyDetached(2, (BYE,)))[-1] == EndReply(2, "complete")


def test_a_turn_that_nobody_waits_for_is_stopped_and_the_next_reply_says_so() -> None:
    machine = streaming()
    machine(text("so"))
    machine(ReplyDetached(1, ()))
    assert machine(TimerPassed("human"))[:1] == [SendCancel()]
    machine(AgentTurnEnded())
    assert any("was stopped" in str(command) for command in machine(Requested(2, prompt=says("on"))))
    assert machine.state.notices == ()


@pytest.mark.parametrize("is_open", [True, False])
def test_a_person_stops_a_turn_and_the_consumer_learns_it_once(is_open: bool) -> None:  # noqa: FBT001
    machine = streaming()
    machine(text("so"))
    machine(Called(AT_CONSOLE))
    if not is_open:
        machine(ReplyDetached(1, ()))
    commands = machine(TurnStopped(BYE))
    assert (Emit(BYE) in commands) == is_open
    assert AnswerPending(AT_CONSOLE, TurnCancelled()) in commands
    machine(AgentTurnEnded())
    assert (Emit(BYE) in machine(Requested(2, prompt=says("on")))) != is_open
