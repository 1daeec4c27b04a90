"""Every decision about a call is reported: who decided, why, and how long it took."""

import asyncio

import pytest

from dragoman.backends.scripted import ScriptedModel, call, reply
from dragoman.lm import CancellationSource, CancellationToken, JsonObject, ToolCallPart
from dragoman.loop import Hooks, LoopSettings, Suspend
from dragoman.loop.events import CallDecided, QuestionAsked
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.tools.decision import Approve, CannotAsk, Decision, Deny, ToolQuestion
from loop_kit import Answer, Person, RecordingTool, events_of, play, toolbox
from virtual_clock import VirtualClock

_INPUT: JsonObject = {"path": "a"}


def _one_call() -> ScriptedModel:
    return ScriptedModel.of(reply(call("write", _INPUT, call_id="dg_1")), "Done.")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Approve(), (True, "person", "once")),
        (Approve("session"), (True, "person", "session")),
        (Deny("not now"), (False, "person", "not now")),
        (Deny(), (False, "person", None)),
        (CannotAsk("There is no terminal."), (False, "unasked", "There is no terminal.")),
    ],
)
async def test_a_persons_decision_has_its_time(
    answer: Answer, expected: tuple[object, ...], clock: VirtualClock
) -> None:
    async def think(_question: ToolQuestion, _token: CancellationToken) -> Decision:
        await clock.sleep(3)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Approve | Deny)
        return answer

    person = Person(think)
    await play(_one_call(), toolbox(RecordingTool("write")), person, clock=clock)
    [decided] = events_of(person, CallDecided)
    assert (decided.allowed, decided.by, decided.why) == expected
    assert (decided.call, decided.doing) == (ToolCallPart("dg_1", "write", _INPUT), "Doing write")
    assert decided.seconds == 3
    [asked] = events_of(person, QuestionAsked)
    assert asked.doing == "Doing write"


async def test_no_decision_in_time_is_one(clock: VirtualClock) -> None:
    async def sleep(_question: ToolQuestion, _token: CancellationToken) -> Decision:
        await clock.sleep(1_000)
        return Approve()

    person = Person(sleep)
    settings = LoopSettings(deadline_seconds=60)
    await play(_one_call(), toolbox(RecordingTool("write")), person, clock=clock, settings=settings)
    [decided] = events_of(person, CallDecided)
    assert (decided.allowed, decided.by, decided.seconds) == (False, "timeout", 60)


async def test_a_question_that_the_end_of_the_run_closes_is_decided_by_it(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def cancel(_question: ToolQuestion, _token: CancellationToken) -> Decision:
        source.cancel()
        await asyncio.Event().wait()
        return Approve()

    person = Person(cancel)
    await play(_one_call(), toolbox(RecordingTool("write")), person, clock=clock, token=source.token)
    [decided] = events_of(person, CallDecided)
    assert (decided.allowed, decided.by) == (False, "end")


async def test_a_run_that_is_put_aside_has_decided_nothing(clock: VirtualClock) -> None:
    person = Person(Suspend())
    await play(_one_call(), toolbox(RecordingTool("write")), person, clock=clock)
    assert events_of(person, CallDecided) == []


async def test_what_needs_no_question_says_by_what_it_is_allowed(clock: VirtualClock) -> None:
    approvals = Approvals()
    approvals.grant("session", "write", "", "session")
    by_approval, by_rule, by_setting = Person(), Person(), Person()
    await play(_one_call(), toolbox(RecordingTool("write"), approvals=approvals), by_approval, clock=clock)
    await play(_one_call(), toolbox(RecordingTool("write", read_only=True)), by_rule, clock=clock)
    everything = AutoApproval(all=True)
    await play(_one_call(), toolbox(RecordingTool("write"), auto=everything), by_setting, clock=clock)
    found = [events_of(person, CallDecided)[0] for person in (by_approval, by_rule, by_setting)]
    assert [(each.by, each.why, each.read_only) for each in found] == [
        ("approval", "approved for this session (approval s1)", False),
        ("read-only", "read-only", True),
        ("setting", "auto-approved", False),
    ]


async def test_a_hook_before_each_request_may_fail_and_is_waited_for(clock: VirtualClock) -> None:
    class Storing(Person):
        requests = 0

        async def before_request(self) -> None:
            self.requests += 1
            assert len(model.requests) == self.requests - 1
            raise OSError("the disk is full")

    model = _one_call()
    storing = Storing()
    state = await play(model, toolbox(RecordingTool("write")), storing, clock=clock)
    assert (state.ended, storing.requests) == ("completed", 2)


async def test_a_cancel_during_the_hook_ends_the_run(clock: VirtualClock) -> None:
    source = CancellationSource()

    class Cancelling(Hooks):
        async def before_request(self) -> None:
            source.cancel()
            await asyncio.Event().wait()

    model = _one_call()
    state = await play(model, toolbox(), Cancelling(), clock=clock, token=source.token)
    assert (state.ended, list(model.requests)) == ("cancelled", [])
