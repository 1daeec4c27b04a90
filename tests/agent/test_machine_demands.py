"""A reply that must have a form or end with a call: the agent is asked for it once more, then the reply fails."""

from __future__ import annotations

import pytest

from agent.test_machine_scenarios import LOOK, Machine, emit, says, text
from dragoman.backends.agent.machine.types import (
    AgentExited,
    AgentStarted,
    AgentTurnEnded,
    AgentUnfit,
    Called,
    Emit,
    EndReply,
    MachineCommand,
    OpenReply,
    ReplyCancelled,
    ReplyDetached,
    ReplyVerdict,
    Requested,
    SendCancel,
    SendPrompt,
    SetTimer,
    Settle,
    StartAgent,
    Steered,
    StopAgent,
    TakeBack,
    TimerPassed,
    TurnStopped,
    Unmet,
)
from dragoman.lm import LanguageModelError, TextPart
from dragoman.lm.parts import ToolResult

ERROR = LanguageModelError("agent_failed", "It is not JSON.")
EARLY = Unmet(says("answer now"), LanguageModelError("agent_failed", "It ended before."))
UNMET = Unmet(says("again"), ERROR)
GONE = LanguageModelError("agent_failed", "The agent is gone.")
BYE = TextPart("\n\n*Stopped at the console.*\n\n")
ANSWER = (TextPart("{}"),)
_WRONG = AgentTurnEnded(verdict=ReplyVerdict(1, unmet=UNMET))
_RIGHT = AgentTurnEnded(verdict=ReplyVerdict(1, ANSWER))


def demanding() -> Machine:
    return Machine(Requested(1, prompt=says("one"), unmet=EARLY), AgentStarted())


def asked_again() -> Machine:
    machine = demanding()
    machine(text("prose"))
    assert machine(_WRONG) == [SendPrompt(says("again"))]
    assert machine.phase == "Streaming"
    return machine


def _end(commands: list[MachineCommand]) -> EndReply:
    (end,) = [command for command in commands if isinstance(command, EndReply)]
    return end


def test_an_answer_that_has_its_form_settles_the_reply_before_the_last_words() -> None:
    last = TextPart("usage")
    ended = AgentTurnEnded((last,), verdict=ReplyVerdict(1, ANSWER))
    assert demanding()(ended) == [
        Settle(ANSWER),
        Emit(last),
        EndReply(1, "complete"),
        SetTimer("idle"),
    ]


def test_an_answer_without_its_form_is_asked_for_once_more_in_the_same_reply() -> None:
    machine = asked_again()
    assert machine(text("{}")) == [emit("{}")]
    assert machine(_RIGHT) == [Settle(ANSWER), EndReply(1, "complete"), SetTimer("idle")]


def test_the_second_answer_without_its_form_fails_the_reply() -> None:
    machine = asked_again()
    assert machine(_WRONG) == [EndReply(1, "failed", ERROR), SetTimer("idle")]
    assert machine.phase == "Idle"


def test_the_next_request_has_another_try_of_its_own() -> None:
    machine = asked_again()
    machine(_WRONG)
    machine(Requested(2, prompt=says("two"), unmet=EARLY))
    assert machine(AgentTurnEnded(verdict=ReplyVerdict(2, unmet=UNMET))) == [SendPrompt(says("again"))]


@pytest.mark.parametrize("is_again", [False, True])
def test_a_call_meets_the_demand_of_its_reply_and_the_next_reply_has_its_own(is_again: bool) -> None:  # noqa: FBT001
    machine = asked_again() if is_again else demanding()
    machine(Called(LOOK))
    commands = machine(TimerPassed("gather"))
    assert Emit(LOOK.part) in commands
    assert _end(commands) == EndReply(1, "complete")
    results = {LOOK.call_id: ToolResult((TextPart("seen"),))}
    machine(Requested(2, results, unmet=EARLY))
    assert machine(AgentTurnEnded(verdict=ReplyVerdict(2, unmet=UNMET))) == [SendPrompt(says("again"))]


def test_a_reply_whose_turn_was_over_already_asks_for_the_answer() -> None:
    """The agent gave up on the call, and its answer went to the backlog unjudged."""
    machine = demanding()
    machine(Called(LOOK))
    machine(TimerPassed("gather"))
    machine(text("It takes too long."))
    machine(AgentTurnEnded())
    assert machine.phase == "Idle"
    commands = machine(Requested(2, {LOOK.call_id: ToolResult(())}, unmet=EARLY))
    assert SendPrompt(says("answer now")) in commands
    assert machine(AgentTurnEnded(verdict=ReplyVerdict(2, unmet=UNMET)))[0] == EndReply(2, "failed", ERROR)


def test_a_queued_prompt_goes_first_and_its_answer_is_the_one_that_is_judged() -> None:
    machine = demanding()
    machine(Called(LOOK))
    machine(TimerPassed("gather"))
    machine(Requested(2, {LOOK.call_id: ToolResult(())}, says("and this"), unmet=EARLY))
    for verdict in (ReplyVerdict(2, unmet=UNMET), ReplyVerdict(2, ANSWER)):
        after = Machine()
        after.state = machine.state
        assert after(AgentTurnEnded(verdict=verdict)) == [SendPrompt(says("and this"))]
        ended = after(AgentTurnEnded(verdict=ReplyVerdict(2, ANSWER)))
        assert ended == [Settle(ANSWER), EndReply(2, "complete"), SetTimer("idle")]


def test_a_steered_message_that_was_not_taken_goes_first_too() -> None:
    machine = Machine(Requested(1, prompt=says("one")), AgentStarted(steers=True), Called(LOOK))
    machine(TimerPassed("gather"))
    machine(Requested(2, {LOOK.call_id: ToolResult(())}, says("and this"), unmet=EARLY))
    machine(Steered(2, taken=False))
    assert machine(AgentTurnEnded(verdict=ReplyVerdict(2, ANSWER))) == [SendPrompt(says("and this"))]


def test_the_verdict_on_another_reply_is_none_on_this_one() -> None:
    machine = demanding()
    machine(text("prose"))
    machine(ReplyDetached(1, (BYE,)))
    machine(Requested(2, unmet=EARLY))
    assert machine(AgentTurnEnded(verdict=ReplyVerdict(1, ANSWER))) == [SendPrompt(says("answer now"))]


def test_a_reply_that_ends_early_fails_and_says_why() -> None:
    """A consumer may get nothing but the error."""
    for event in (TurnStopped(BYE), ReplyDetached(1, (BYE,))):
        for machine, message in ((demanding(), "It ended before."), (asked_again(), "It is not JSON.")):
            machine(text("prose"))
            commands = machine(event)
            assert Emit(BYE) in commands
            end = _end(commands)
            assert (end.reply, end.end) == (1, "failed")
            assert end.error is not None
            assert end.error.message == f"{message} Stopped at the console."


def test_a_reply_that_is_stopped_before_its_prompt_was_sent_fails() -> None:
    machine = Machine(Requested(1, prompt=says("one"), unmet=EARLY))
    assert _end(machine(TurnStopped(BYE))).end == "failed"
    assert machine.state.queue == says("one")


def test_a_cancel_during_either_asking_leaves_nothing_for_the_next_prompt() -> None:
    for machine in (demanding(), asked_again()):
        machine(text("prose"))
        commands = machine(ReplyCancelled(1))
        assert _end(commands) == EndReply(1, "cut")
        assert SendCancel() in commands
        # It was judged in the meantime, but its turn is cancelled.
        machine(_WRONG)
        assert SendPrompt(says("two")) in machine(Requested(2, prompt=says("two")))
        assert machine(AgentTurnEnded()) == [EndReply(2, "complete"), SetTimer("idle")]


def test_an_agent_that_exits_while_it_is_asked_again_fails_the_reply() -> None:
    machine = asked_again()
    commands = machine(AgentExited(GONE))
    assert _end(commands) == EndReply(1, "failed", GONE)
    assert TakeBack(acknowledged=False) in commands
    assert machine(Requested(2, prompt=says("two"))) == [OpenReply(2), StartAgent()]
    assert machine(AgentStarted()) == [SendPrompt(says("two"))]


def test_an_agent_that_exits_silently_gets_its_prompt_again_and_the_demand_holds() -> None:
    machine = demanding()
    machine(_RIGHT)
    machine(Requested(2, prompt=says("two"), unmet=EARLY))
    assert StartAgent() in machine(AgentExited(GONE))
    assert machine(AgentStarted()) == [SendPrompt(says("two"))]
    assert machine(AgentTurnEnded(verdict=ReplyVerdict(2, unmet=UNMET))) == [SendPrompt(says("again"))]


def test_an_error_of_the_agent_is_the_error_of_the_reply() -> None:
    for machine in (demanding(), asked_again()):
        assert _end(machine(AgentTurnEnded(error=GONE))) == EndReply(1, "failed", GONE)


def test_an_unfit_agent_is_asked_again_after_its_restart_and_no_other_reply_is() -> None:
    machine = asked_again()
    commands = machine(AgentUnfit(says("again")))
    assert commands[-2:] == [StopAgent(), StartAgent()]
    after = Machine()
    after.state = machine.state
    assert machine(AgentStarted()) == [SendPrompt(says("again"))]
    assert machine(_WRONG)[0] == EndReply(1, "failed", ERROR)
    # Another request in the meantime gets none of it.
    after(Requested(2, prompt=says("two")))
    assert after(AgentStarted()) == [SendPrompt(says("two"))]
