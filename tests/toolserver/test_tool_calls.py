"""Open calls: answered once or withdrawn once, held or on a ticket, and never lost."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, invariant, multiple, rule

from dragoman.backends.agent.toolserver import PendingCall
from dragoman.backends.agent.toolserver.calls import MAX_OPEN_CALLS, MAX_UNCOLLECTED, CallRefused, Calls, Hold
from dragoman.lm.parts import ToolResult
from searching import examples
from toolserver.harness import text

_T = TypeVar("_T")


class _Recorder:
    def __init__(self) -> None:
        self.called: list[PendingCall] = []
        self.withdrawn: list[str] = []
        self.calls = Calls(on_call=self.called.append, on_withdrawn=self.withdrawn.append)


@pytest.fixture
async def recorder() -> _Recorder:
    return _Recorder()


async def test_a_call_is_told_before_it_can_be_waited_for(recorder: _Recorder) -> None:
    hold = recorder.calls.open("read", {"path": "a"})
    assert recorder.called == [PendingCall("1", "read", {"path": "a"})]
    assert not hold.outcome.done()


async def test_t7_the_first_answer_counts(recorder: _Recorder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    hold = recorder.calls.open("read", {})
    recorder.calls.answer(hold.call.key, text("first"))
    recorder.calls.answer(hold.call.key, text("second"))
    assert hold.outcome.result() == text("first")
    assert "is discarded" in caplog.text


async def test_an_answer_may_come_while_the_call_is_being_told(recorder: _Recorder) -> None:
    recorder.calls = Calls(
        on_call=lambda call: recorder.calls.answer(call.key, text("at once")), on_withdrawn=print
    )
    assert recorder.calls.open("read", {}).outcome.result() == text("at once")


async def test_a_bridge_that_fails_to_take_a_call_leaves_none_open() -> None:
    def fail(_: PendingCall) -> None:
        raise RuntimeError("no")

    calls = Calls(on_call=fail, on_withdrawn=print)
    with pytest.raises(RuntimeError, match="no"):
        calls.open("read", {})
    assert len(calls) == 0


async def test_t16_a_call_is_withdrawn_once_and_then_unknown(recorder: _Recorder) -> None:
    hold = recorder.calls.open("read", {})
    recorder.calls.withdraw(hold)
    recorder.calls.withdraw(hold)
    recorder.calls.answer(hold.call.key, text("late"))
    assert recorder.withdrawn == [hold.call.key]
    assert hold.outcome.result() == "withdrawn"


async def test_t16_an_answered_call_cannot_be_withdrawn(recorder: _Recorder) -> None:
    hold = recorder.calls.open("read", {})
    recorder.calls.answer(hold.call.key, text("done"))
    recorder.calls.withdraw(hold)
    assert recorder.withdrawn == []


async def test_t25_an_answer_waits_for_its_ticket_and_is_handed_over_once(recorder: _Recorder) -> None:
    hold = recorder.calls.open("read", {})
    ticket = recorder.calls.put_off(hold)
    assert ticket is not None
    recorder.calls.answer(hold.call.key, text("kept"))
    again = recorder.calls.take_up(ticket)
    assert again is not None
    assert again.outcome.result() == text("kept")
    assert recorder.calls.take_up(ticket) is None
    assert len(recorder.calls) == 0


async def test_t25_a_call_keeps_its_ticket(recorder: _Recorder) -> None:
    hold = recorder.calls.open("read", {})
    ticket = recorder.calls.put_off(hold)
    assert ticket is not None
    again = recorder.calls.take_up(ticket)
    assert again is not None
    assert recorder.calls.put_off(again) == ticket
    assert recorder.calls.put_off(hold) is None


async def test_t25_who_comes_back_last_holds_the_call(recorder: _Recorder) -> None:
    ticket = recorder.calls.put_off(recorder.calls.open("read", {}))
    assert ticket is not None
    first, second = recorder.calls.take_up(ticket), recorder.calls.take_up(ticket)
    assert first is not None
    assert second is not None
    assert first.outcome.result() == "superseded"
    recorder.calls.withdraw(first)
    recorder.calls.answer(second.call.key, text("to the last"))
    assert second.outcome.result() == text("to the last")
    assert recorder.withdrawn == []


async def test_t16_a_call_withdrawn_after_a_ticket_takes_the_ticket_along(recorder: _Recorder) -> None:
    ticket = recorder.calls.put_off(recorder.calls.open("read", {}))
    assert ticket is not None
    again = recorder.calls.take_up(ticket)
    assert again is not None
    recorder.calls.withdraw(again)
    assert recorder.withdrawn == [again.call.key]
    assert recorder.calls.take_up(ticket) is None


async def test_more_calls_than_may_be_open_are_refused(recorder: _Recorder) -> None:
    holds = [recorder.calls.open("read", {}) for _ in range(MAX_OPEN_CALLS)]
    with pytest.raises(CallRefused, match="128 calls are open"):
        recorder.calls.open("read", {})
    recorder.calls.answer(holds[0].call.key, text("room"))
    recorder.calls.open("read", {})
    assert len(recorder.called) == MAX_OPEN_CALLS + 1


async def test_answers_that_are_never_collected_are_dropped_oldest_first(recorder: _Recorder) -> None:
    holds = [recorder.calls.open("read", {}) for _ in range(MAX_UNCOLLECTED + 1)]
    tickets = [recorder.calls.put_off(hold) for hold in holds]
    for hold in holds:
        recorder.calls.answer(hold.call.key, text(hold.call.key))
    oldest, next_oldest = tickets[:2]
    assert oldest is not None
    assert next_oldest is not None
    assert recorder.calls.take_up(oldest) is None
    assert recorder.calls.take_up(next_oldest) is not None


async def test_closing_ends_every_hold_and_tells_nobody(recorder: _Recorder) -> None:
    hold, put_off = recorder.calls.open("read", {}), recorder.calls.open("read", {})
    recorder.calls.put_off(put_off)
    recorder.calls.close()
    assert hold.outcome.result() == "closed"
    assert recorder.withdrawn == []
    assert len(recorder.calls) == 0
    with pytest.raises(CallRefused, match="has ended"):
        recorder.calls.open("read", {})


class CallsMachine(RuleBasedStateMachine):
    """Agents and bridges in any order; the truth is what each hold was given."""

    holds: Bundle[Hold] = Bundle("holds")
    tickets: Bundle[int] = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        # A hold has a future, and a future has a loop.
        self.runner = asyncio.Runner()
        self.recorder = _Recorder()
        self.all_holds: list[Hold] = []

    def teardown(self) -> None:
        self.runner.close()

    def _run(self, step: Callable[[], _T]) -> _T:
        async def run() -> _T:
            return step()

        return self.runner.run(run())

    @rule(target=holds)
    def open(self) -> Hold:
        hold = self._run(lambda: self.recorder.calls.open("tool", {}))
        self.all_holds.append(hold)
        return hold

    @rule(number=st.integers(1, 12), value=st.sampled_from("abc"))
    def answer(self, number: int, value: str) -> None:
        self._run(lambda: self.recorder.calls.answer(str(number), text(value)))

    @rule(hold=holds)
    def withdraw(self, hold: Hold) -> None:
        self._run(lambda: self.recorder.calls.withdraw(hold))

    @rule(target=tickets, hold=holds)
    def put_off(self, hold: Hold) -> MultipleResults[int] | int:
        ticket = self._run(lambda: self.recorder.calls.put_off(hold))
        return multiple() if ticket is None else ticket

    @rule(target=holds, ticket=tickets)
    def take_up(self, ticket: int) -> MultipleResults[Hold] | Hold:
        hold = self._run(lambda: self.recorder.calls.take_up(ticket))
        if hold is None:
            return multiple()
        self.all_holds.append(hold)
        return hold

    @invariant()
    def each_call_is_answered_or_withdrawn_at_most_once(self) -> None:
        ends = [
            hold.call.key
            for hold in self.all_holds
            if hold.outcome.done() and isinstance(hold.outcome.result(), ToolResult)
        ]
        ends += self.recorder.withdrawn
        assert len(ends) == len(set(ends))

    @invariant()
    def what_has_ended_is_no_longer_open(self) -> None:
        still_open = set(self.recorder.calls._open)
        assert still_open.isdisjoint(self.recorder.withdrawn)
        for hold in self.all_holds:
            if hold.outcome.done() and hold.outcome.result() != "superseded":
                assert hold.call.key not in still_open

    @invariant()
    def at_most_one_hold_of_a_call_waits(self) -> None:
        waiting = [call.hold for call in self.recorder.calls._open.values() if call.hold is not None]
        assert all(not hold.outcome.done() for hold in waiting)


TestCallsMachine = CallsMachine.TestCase
TestCallsMachine.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)
