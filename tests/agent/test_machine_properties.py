"""The machine of a conversation, searched: a world that obeys its commands, and checks that they make sense.

The world is a simple model of the truth: what the agent was asked and what it still waits for, what the consumer was
given, which prompts were heard. After every step the invariants hold.
"""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman.backends.agent.machine.machine import State, handle
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
    StopAgent,
    TakeBack,
    TimedOut,
    Timer,
    TimerPassed,
    TurnCancelled,
    TurnStopped,
    Unmet,
)
from dragoman.lm import LanguageModelError, Message, Part, TextPart, ToolCallPart, user
from dragoman.lm.parts import ToolResult
from searching import examples

_GONE = LanguageModelError("agent_failed", "The agent is gone.")
_AGAIN = "again, please"
_UNMET = Unmet((user(_AGAIN),), LanguageModelError("agent_failed", "It does not have the form."))


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = State()
        self.numbers = count(1)
        # The consumer's side.
        self.open_reply: int | None = None
        self.ended: dict[int, str] = {}
        self.opened: list[int] = []
        self.given: dict[str, Pending] = {}
        # Whether the open reply must have a form, has been asked for once more, and has it; and whether it has calls.
        self.demands = self.asked_again = self.is_settled = self.has_calls = False
        self.asked_times = 0
        self.demanding: set[int] = set()
        # Of those, the ones whose agent is gone.
        self.orphaned: dict[str, Pending] = {}
        self.received_by_consumer: list[str] = []
        # The agent's side.
        self.agent = "none"
        self.turn = False
        self.cancel_sent = False
        self.waits_for: dict[str, Pending] = {}
        self.announced: set[str] = set()
        self.prompts_heard: list[str] = []
        self.prompts_said: list[str] = []
        self.last_prompt: tuple[Message, ...] = ()
        # What an agent that was idle was given, and has shown no sign of.
        self.unacknowledged_prompt: list[str] = []
        self.is_asking = False
        # Whether it has sent no output of the turn, and whether the prompt's context is to be sent again.
        self.silent = False
        self.taken_back = False
        # Whether it was given results, and has shown no sign of them.
        self.unacknowledged_results = False
        # Words that it was given in mid-turn, and has not said what became of.
        self.steers = False
        self.steered: dict[int, list[str]] = {}
        # Text that must reach the consumer, in order: said in a turn that was not cancelled.
        self.due: list[str] = []
        self.backlog: list[str] = []
        self.unsettled_text: list[str] = []
        self.timers: set[Timer] = set()
        self.approved: set[str] = set()
        # What a person's stop at the console is to tell the consumer, and what it was told.
        self.stops_due: list[str] = []
        self.stops_told: list[str] = []

    # The one place where events go in and commands are obeyed.

    def event(self, event: MachineEvent) -> None:
        before = self.state
        self.state, commands = handle(before, event)
        for command in commands:
            self.obey(command)

    def obey(self, command: MachineCommand) -> None:
        match command:
            case StartAgent():
                assert self.agent == "none", "started twice"
                self.agent = "starting"
            case StopAgent():
                assert self.agent == "up"
                assert self.taken_back or not self.turn, "the prompt of a stopped turn is lost"
                self.agent, self.turn, self.cancel_sent = "none", False, False
                self.waits_for.clear()
                self.announced.clear()
            case SendPrompt(prompt=prompt):
                assert self.agent == "up"
                assert not self.turn, "prompted while a turn runs"
                assert self.open_reply is not None, "prompted without a reply"
                assert prompt
                self.turn = self.silent = True
                self.taken_back = False
                texts = [_as_said(message.text) for message in prompt]
                if _AGAIN in texts:
                    assert texts == [_AGAIN], "the demand was mixed with other words"
                    assert self.demands, "asked again for what was not demanded"
                    self.asked_again = True
                    self.asked_times += 1
                    assert self.asked_times == 1, "asked again twice"
                else:
                    self.prompts_heard += texts
                self.last_prompt = prompt
                self.unacknowledged_prompt = texts if self.is_asking and texts != [_AGAIN] else []
            case TakeBack(acknowledged=acknowledged):
                assert not self.taken_back, "taken back twice"
                assert not (acknowledged and self.silent), "the agent has shown nothing"
                self.taken_back = True
            case Steer(steering=steering):
                assert self.steers
                assert self.turn, "steered what does not run"
                self.steered[steering.reply] = [message.text for message in steering.prompt]
            case SendCancel():
                assert self.turn, "cancelled what does not run"
                assert not self.cancel_sent, "cancelled twice"
                self.cancel_sent = True
            case AnswerPending(pending=pending, answer=answer):
                self.answered(pending, answer)
            case Forget(pending=pending):
                del self.given[pending.call_id]
            case OpenReply(reply=reply):
                assert self.open_reply is None, "two replies open"
                self.open_reply = reply
                self.opened.append(reply)
                self.asked_times = 0
                self.asked_again = self.is_settled = self.has_calls = False
                self.demands = reply in self.demanding
            case Emit(part=part):
                assert self.open_reply is not None, "emitted into nothing"
                self.emitted(part)
            case Settle():
                assert self.open_reply is not None
                assert self.demands, "settled what was not demanded"
                assert not self.is_settled, "settled twice"
                self.is_settled = True
            case Keep(part=part):
                assert isinstance(part, TextPart)
                self.backlog.append(part.value)
            case Release():
                assert self.open_reply is not None
                self.received_by_consumer += [text for text in self.backlog if text.startswith("text")]
                self.backlog = []
            case Discard():
                self.backlog = []
            case EndReply(reply=reply, end=end, error=error):
                assert reply == self.open_reply, "ended a reply that is not open"
                assert reply not in self.ended, "ended twice"
                assert (error is not None) == (end == "failed")
                if self.demands and end == "complete":
                    assert self.is_settled or self.has_calls, "a reply without its form counts as complete"
                if self.is_settled:
                    assert end == "complete", "an answer that has its form is lost"
                self.ended[reply] = end
                self.open_reply = None
            case SetTimer(timer=timer):
                self.timers.add(timer)
            case ClearTimer(timer=timer):
                self.timers.discard(timer)

    def answered(self, pending: Pending, answer: CallAnswer) -> None:
        if self.orphaned.pop(pending.call_id, None) is None:
            known = self.waits_for.pop(pending.key, None)
            assert known is not None, f"answered {pending.key}, which the agent does not wait for"
        else:
            assert not isinstance(answer, Granted), "a permission outlived its agent"
        self.given.pop(pending.call_id, None)
        if pending.kind == "permission":
            assert isinstance(answer, Granted | Refused | TurnCancelled | TimedOut)
            if isinstance(answer, Granted):
                assert pending.call_id in self.approved, "granted without approval"
            if isinstance(answer, TurnCancelled | TimedOut):
                assert self.cancel_sent or not self.turn, "a permission cancelled while its turn goes on"
        else:
            assert not isinstance(answer, Granted | Refused | TurnCancelled)

    def emitted(self, part: Part) -> None:
        if isinstance(part, ToolCallPart):
            pending = next(call for call in self.waits_for.values() if call.call_id == part.call_id)
            assert not pending.at_console, "the consumer got what a person elsewhere is asked"
            assert part.call_id not in self.given, "a call was handed over twice"
            self.has_calls = True
            self.given[part.call_id] = pending
        elif isinstance(part, TextPart) and part.value.startswith("text"):
            self.received_by_consumer.append(part.value)
        elif isinstance(part, TextPart) and part.value.startswith("stopped"):
            self.stops_told.append(part.value)

    # The consumer.

    @rule(says=st.booleans(), cancels=st.booleans(), demands=st.booleans(), data=st.data())
    def request(self, says: bool, cancels: bool, demands: bool, data: st.DataObject) -> None:  # noqa: FBT001
        answers: dict[str, CallAnswer] = {}
        known = self.given | self.orphaned
        if known:
            for call_id in data.draw(st.lists(st.sampled_from(sorted(known)), unique=True)):
                if known[call_id].kind == "permission":
                    granted = data.draw(st.booleans())
                    if granted:
                        self.approved.add(call_id)
                    answers[call_id] = Granted() if granted else Refused()
                else:
                    answers[call_id] = ToolResult((TextPart("result"),))
        if self.orphaned and answers and not cancels:
            self.prompts_said.append("restarted")
        prompt: tuple[Message, ...] = ()
        if says:
            text = f"prompt {next(self.numbers)}"
            self.prompts_said.append(text)
            prompt = (user(text),)
        self.is_asking = self.state.phase == "Idle" and not self.backlog and not self.given
        returns = any(isinstance(answer, ToolResult) for answer in answers.values()) and bool(self.given)
        goes_on = self.state.phase == "Idle" or (self.state.phase == "Awaiting" and not cancels)
        number = next(self.numbers)
        if demands:
            self.demanding.add(number)
        unmet = _UNMET if demands else None
        self.event(Requested(number, answers, prompt, cancels=cancels, unmet=unmet))
        self.is_asking = False
        self.unacknowledged_results = returns and goes_on and self.state.phase == "Streaming"

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        reply = data.draw(st.sampled_from(self.opened[-2:]))
        was_open = reply == self.open_reply
        self.event(ReplyCancelled(reply))
        if was_open:
            self.unacknowledged_results = False
            assert self.ended[reply] == "cut", "a cancelled reply settles at once"

    # The agent.

    def shown_life(self) -> None:
        self.unacknowledged_prompt, self.unacknowledged_results = [], False
        # What is left of a turn that was cancelled may be of the one before it.
        self.silent = self.silent and self.cancel_sent

    @precondition(lambda self: self.agent == "starting")
    @rule(succeeds=st.booleans(), steers=st.booleans())
    def start(self, succeeds: bool, steers: bool) -> None:  # noqa: FBT001
        self.steered.clear()
        self.steers = steers
        if succeeds:
            self.agent = "up"
            self.event(AgentStarted(steers))
        else:
            self.agent = "none"
            self.event(AgentExited(_GONE))

    @precondition(lambda self: self.agent == "up")
    @rule()
    def speak(self) -> None:
        text = f"text {next(self.numbers)}"
        self.shown_life()
        if not self.cancel_sent:
            self.unsettled_text.append(text)
        self.event(Spoke(TextPart(text)))

    @precondition(lambda self: self.agent == "up")
    @rule()
    def notice(self) -> None:
        """A notice of ours: it does not show that the agent is there."""
        text = f"text {next(self.numbers)}"
        if not self.cancel_sent:
            self.unsettled_text.append(text)
        self.event(Noticed(TextPart(text)))

    @precondition(lambda self: self.turn and not self.cancel_sent)
    @rule()
    def announce(self) -> None:
        key = f"key{next(self.numbers)}"
        self.shown_life()
        self.announced.add(key)
        self.event(Announced(key))

    @precondition(lambda self: self.turn and self.announced)
    @rule(data=st.data())
    def think_better_of_it(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.announced)))
        self.announced.discard(key)
        self.event(Announced(key, over=True))

    @precondition(lambda self: self.agent == "up" and len(self.waits_for) < 5)
    @rule(permission=st.booleans(), expected=st.booleans(), data=st.data())
    def call(self, permission: bool, expected: bool, data: st.DataObject) -> None:  # noqa: FBT001
        number = next(self.numbers)
        self.shown_life()
        key = f"key{number}"
        announced = None
        if expected and self.announced:
            announced = data.draw(st.sampled_from(sorted(self.announced)))
            self.announced.discard(announced)
        kind = "permission" if permission else "call"
        pending = Pending(key, kind, ToolCallPart(f"dg_{number}", "tool", {}))  # type: ignore[arg-type]
        self.waits_for[key] = pending
        self.event(Called(pending, announced))
        if self.cancel_sent:
            assert key not in self.waits_for, "a call of a cancelled turn was left waiting"

    @precondition(lambda self: self.agent == "up" and len(self.waits_for) < 5)
    @rule()
    def ask_at_console(self) -> None:
        number = next(self.numbers)
        self.shown_life()
        reply = self.open_reply
        call = ToolCallPart(f"dg_{number}", "tool", {})
        pending = Pending(f"key{number}", "permission", call, at_console=True)
        self.waits_for[pending.key] = pending
        self.event(Called(pending))
        if self.cancel_sent:
            assert pending.key not in self.waits_for, "a request of a cancelled turn was left waiting"
        assert self.open_reply == reply, "the reply does not end with a question for the console"

    @precondition(lambda self: any(call.at_console for call in self.waits_for.values()))
    @rule(granted=st.booleans(), data=st.data())
    def decide_at_console(self, granted: bool, data: st.DataObject) -> None:  # noqa: FBT001
        keys = sorted(key for key, call in self.waits_for.items() if call.at_console)
        pending = self.waits_for[data.draw(st.sampled_from(keys))]
        if granted:
            self.approved.add(pending.call_id)
        self.event(Decided(pending.key, Granted() if granted else Refused()))
        assert pending.key not in self.waits_for, "a decision did not reach the agent"

    @rule(granted=st.booleans())
    def decide_what_is_not_open(self, granted: bool) -> None:  # noqa: FBT001
        before = self.state
        keys = [call.key for call in before.pending if not call.at_console]
        for key in ("unknown", *keys):
            self.event(Decided(key, Granted() if granted else Refused()))
        assert self.state is before

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        reply = data.draw(st.sampled_from(self.opened[-2:]))
        was_acknowledged = self.turn and not self.cancel_sent and not self.silent
        is_open = reply == self.open_reply
        text = f"text {next(self.numbers)}"
        turn, waits_for = self.turn, dict(self.waits_for)
        if is_open and was_acknowledged and not self.unacknowledged_results:
            self.unsettled_text.append(text)
        self.event(ReplyDetached(reply, (TextPart(text),)))
        assert (self.turn, self.waits_for) == (turn, waits_for), "the turn goes on"
        if is_open and was_acknowledged and not self.unacknowledged_results:
            assert self.ended[reply] == ("failed" if self.demands else "complete")

    @rule()
    def stop_turn(self) -> None:
        was_running = self.turn and not self.cancel_sent
        reply = self.open_reply
        self.unacknowledged_prompt, self.unacknowledged_results = (
            ([], False) if was_running else (self.unacknowledged_prompt, self.unacknowledged_results)
        )
        text = f"stopped {next(self.numbers)}"
        if was_running or reply is not None:
            self.stops_due.append(text)
        self.event(TurnStopped(TextPart(text)))
        assert self.cancel_sent or not was_running
        assert self.open_reply is None
        if reply is not None:
            assert self.ended[reply] == ("failed" if self.demands else "complete")

    @precondition(lambda self: self.waits_for)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.waits_for)))
        pending = self.waits_for.pop(key)
        self.event(CallWithdrawn(key))
        assert pending.call_id not in self.given, "a withdrawn call is still open"

    @precondition(lambda self: self.agent == "up" and self.steered)
    @rule(taken=st.booleans(), data=st.data())
    def take_words(self, taken: bool, data: st.DataObject) -> None:  # noqa: FBT001
        reply = data.draw(st.sampled_from(sorted(self.steered)))
        texts = self.steered.pop(reply)
        if taken and self.state.steering is not None and self.state.steering.reply == reply:
            self.prompts_heard += texts
        self.event(Steered(reply, taken))

    @precondition(lambda self: self.turn)
    @rule(fails=st.booleans(), meets=st.booleans(), data=st.data())
    def end_turn(self, fails: bool, meets: bool, data: st.DataObject) -> None:  # noqa: FBT001
        verdict = None
        if self.opened and not fails:
            # The reply that was judged may have ended in the meantime.
            judged = data.draw(st.sampled_from(self.opened[-2:]))
            if judged in self.demanding:
                verdict = ReplyVerdict(judged, (TextPart("{}"),) if meets else (), None if meets else _UNMET)
        reply, demands, again = self.open_reply, self.demands, self.asked_again
        cancelled, silent = self.cancel_sent, self.silent
        self.unacknowledged_prompt, self.unacknowledged_results = [], False
        self.turn, self.cancel_sent, self.silent = False, False, False
        self.announced.clear()
        if cancelled:
            self.unsettled_text = []
        waits = bool(self.state.queue or self.state.steering)
        self.event(AgentTurnEnded(error=_GONE if fails else None, verdict=verdict))
        if not self.turn:
            assert self.taken_back == (silent and fails)
        if reply is not None and demands and not (fails or cancelled or waits):
            is_met = verdict is not None and verdict.reply == reply and meets
            if is_met:
                assert self.ended[reply] == "complete"
            else:
                assert self.ended.get(reply) == ("failed" if again else None), "asked once more, then failed"

    @precondition(lambda self: self.turn and self.silent and not self.cancel_sent)
    @rule()
    def turn_out_unfit(self) -> None:
        """The prompt goes to another run of the agent, and the reply waits for that."""
        reply = self.open_reply
        if self.asked_again:
            self.asked_times = 0
        else:
            del self.prompts_heard[-len(self.last_prompt) :]
        if self.unacknowledged_results:
            self.prompts_said.insert(len(self.prompts_heard), "restarted")
            self.unacknowledged_results = False
        self.unacknowledged_prompt = []
        self.event(AgentUnfit(self.last_prompt))
        assert self.agent == "starting"
        assert self.taken_back
        assert self.open_reply == reply

    @precondition(lambda self: self.agent == "up")
    @rule()
    def crash(self) -> None:
        if self.cancel_sent:
            self.unsettled_text = []
        cancelled, reply, unacknowledged_prompt = (
            self.cancel_sent,
            self.open_reply,
            self.unacknowledged_prompt,
        )
        was_in_turn = self.turn
        if unacknowledged_prompt and not cancelled:
            # It is said again, to the next one, and to that one only once.
            del self.prompts_heard[-len(unacknowledged_prompt) :]
        if self.unacknowledged_results:
            self.prompts_said.insert(len(self.prompts_heard), "restarted")
            self.unacknowledged_results = False
        self.agent, self.turn, self.cancel_sent, self.unacknowledged_prompt = "none", False, False, []
        self.waits_for.clear()
        self.orphaned |= self.given
        self.given.clear()
        self.announced.clear()
        self.event(AgentExited(_GONE))
        assert self.taken_back or not was_in_turn
        if reply is not None and not cancelled:
            assert self.ended.get(reply) == (None if unacknowledged_prompt else "failed")

    # Time.

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def time_passes(self, data: st.DataObject) -> None:
        timer = data.draw(st.sampled_from(sorted(self.timers)))
        self.timers.discard(timer)
        if timer == "grace" and self.cancel_sent:
            self.unsettled_text = []
            self.given.clear()
        self.event(TimerPassed(timer))

    # What must hold after every step.

    @invariant()
    def the_machine_and_the_world_agree(self) -> None:
        state = self.state
        assert (state.reply is not None) == (self.open_reply is not None)
        assert {call.key for call in state.pending} == set(self.waits_for)
        assert {call.call_id for call in state.pending if call.handed_over} == set(self.given)
        assert {call.call_id for call in state.orphaned} == set(self.orphaned)
        assert (state.turn == "running") == (self.turn and not self.cancel_sent)
        assert (state.turn == "cancelling") == self.cancel_sent

    @invariant()
    def every_prompt_is_heard_once_and_in_order(self) -> None:
        steering = self.state.steering.prompt if self.state.steering is not None else ()
        waiting = [message.text for message in (*steering, *self.state.queue)]
        heard = self.prompts_heard + [_as_said(text) for text in waiting]
        assert heard == self.prompts_said

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """I1: an open reply has something under way that can end it."""
        if self.open_reply is not None:
            assert self.agent == "starting" or self.turn

    @invariant()
    def what_waits_has_a_timer(self) -> None:
        if self.state.gathering:
            assert {"gather", "gather_limit"} & self.timers
        if self.state.phase == "Awaiting" or self.given:
            assert "human" in self.timers
        if self.state.turn == "cancelling":
            assert "grace" in self.timers
        if self.state.phase == "Idle":
            # If no request comes, the agent does not wait for ever.
            assert {"idle", "human"} & self.timers

    @invariant()
    def the_consumer_learns_of_every_stop_once(self) -> None:
        waiting = [part.value for part in self.state.notices if isinstance(part, TextPart)]
        assert self.stops_told + [text for text in waiting if text.startswith("stopped")] == self.stops_due
        assert not (self.state.notices and self.open_reply is not None)

    @invariant()
    def nothing_said_is_lost_or_said_twice(self) -> None:
        """I5: the agent's output is with the consumer or in the backlog, once and in order."""
        have = self.received_by_consumer + [text for text in self.backlog if text.startswith("text")]
        assert len(have) == len(set(have))
        wanted = [text for text in self.unsettled_text if text not in have]
        assert not wanted, f"lost: {wanted}"


def _as_said(text: str) -> str:
    return "restarted" if text.startswith("You were restarted") else text


World.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
TestI1TheMachineSearched = World.TestCase


@pytest.mark.long
class TestI1TheMachineSearchedAtLength(World.TestCase):  # type: ignore[misc,valid-type]  # made at run time
    """Ten thousand steps and more."""

    settings = settings(max_examples=220, stateful_step_count=50, deadline=None)
