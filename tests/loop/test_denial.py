"""What a person refuses: who is denied, who is skipped, what is recorded, and whether the model gets to react."""

import asyncio

import pytest

from dragoman.backends.scripted import ScriptedModel, call, reply
from dragoman.lm import CancellationError, CancellationToken, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.parts import ToolResult
from dragoman.loop import LoopSettings
from dragoman.loop.events import Ended, ToolFinished, ToolStarted
from dragoman.loop.round import DENIED, SKIPPED
from dragoman.tools.decision import Approve, CannotAsk, ToolQuestion
from dragoman.tools.tool import Invocation
from loop_kit import (
    NO,
    YES,
    Gate,
    Person,
    RecordingTool,
    events_of,
    last_results,
    no,
    outcomes,
    play,
    toolbox,
)
from virtual_clock import VirtualClock

ASK_EACH = LoopSettings(on_denial="ask-each")


def three_calls() -> ScriptedModel:
    return ScriptedModel.of(
        reply(
            call("write", path="a", call_id="dg_1"),
            call("write", path="b", call_id="dg_2"),
            call("write", path="c", call_id="dg_3"),
        ),
        "I see.",
    )


async def test_p10_denied_without_a_reason_the_rest_is_skipped_and_the_run_ends(clock: VirtualClock) -> None:
    write, person, model = RecordingTool("write"), Person(NO), three_calls()
    state = await play(model, toolbox(write), person, clock=clock)

    assert state.ended == "tool_denied"
    assert [result.text for result in last_results(state)] == [
        "Error: Tool execution was denied by user.",
        "Error: Tool execution was skipped due to previous tool denial.",
        "Error: Tool execution was skipped due to previous tool denial.",
    ]
    assert outcomes(state) == ["denied", "skipped", "skipped"]
    assert write.began == []
    assert len(person.asked) == 1
    assert len(model.requests) == 1
    assert events_of(person, Ended) == [Ended("tool_denied")]
    assert events_of(person, ToolStarted) == []


async def test_p10_all_results_stand_in_one_user_message_with_id_name_input_content_and_flag(
    clock: VirtualClock,
) -> None:
    state = await play(three_calls(), toolbox(RecordingTool("write")), Person(NO), clock=clock)
    answer, results = state.messages[-2:]

    assert [one.call_id for one in answer.calls] == ["dg_1", "dg_2", "dg_3"]
    assert results.role == "user"
    assert results.content == (
        ToolResultPart(
            "dg_1", (TextPart(DENIED),), is_error=True, name="write", input={"path": "a"}, outcome="denied"
        ),
        ToolResultPart(
            "dg_2", (TextPart(SKIPPED),), is_error=True, name="write", input={"path": "b"}, outcome="skipped"
        ),
        ToolResultPart(
            "dg_3", (TextPart(SKIPPED),), is_error=True, name="write", input={"path": "c"}, outcome="skipped"
        ),
    )


async def test_p10_the_input_of_a_skipped_call_is_recorded_as_far_as_it_parses(clock: VirtualClock) -> None:
    model = ScriptedModel.of(reply(call("write", path="a"), call("write", unparsed='{"path": ')))
    state = await play(model, toolbox(RecordingTool("write")), Person(NO), clock=clock)
    assert [result.input for result in last_results(state)] == [{"path": "a"}, None]
    assert outcomes(state) == ["denied", "skipped"]


@pytest.mark.parametrize("reason", ["", "   ", "\n"])
async def test_p10_an_empty_reason_is_none(clock: VirtualClock, reason: str) -> None:
    state = await play(three_calls(), toolbox(RecordingTool("write")), Person(no(reason)), clock=clock)
    assert state.ended == "tool_denied"
    assert last_results(state)[0].text == DENIED


async def test_the_result_hook_hears_of_denied_and_skipped_calls_and_its_answer_is_recorded(
    clock: VirtualClock,
) -> None:
    def replace(made: ToolCallPart, result: ToolResult) -> ToolResult:
        return ToolResult.text(f"{made.input['path']}: {result.content[0]}")

    person = Person(NO, on_tool_result=replace)
    state = await play(three_calls(), toolbox(RecordingTool("write")), person, clock=clock)

    assert [(made.call_id, approved) for made, _, approved in person.reviewed] == [
        ("dg_1", False),
        ("dg_2", False),
        ("dg_3", False),
    ]
    assert [result.text[:2] for result in last_results(state)] == ["a:", "b:", "c:"]
    # The words and the flag are the host's; what became of the call stays true.
    assert [result.is_error for result in last_results(state)] == [False, False, False]
    assert outcomes(state) == ["denied", "skipped", "skipped"]
    assert [event.result for event in events_of(person, ToolFinished)] == list(last_results(state))


async def test_p11_denied_with_a_reason_the_rest_is_skipped_and_the_model_reacts(clock: VirtualClock) -> None:
    write, person, model = RecordingTool("write"), Person(no("not on a Friday")), three_calls()
    state = await play(model, toolbox(write), person, clock=clock)

    assert [result.text for result in last_results(state)] == [
        "Tool use rejected with user message: not on a Friday",
        SKIPPED,
        SKIPPED,
    ]
    assert outcomes(state) == ["denied", "skipped", "skipped"]
    assert all(result.is_error for result in last_results(state))
    assert write.began == []
    assert state.ended == "completed"
    assert len(model.requests) == 2
    assert state.messages[-1].text == "I see."


async def test_p12_approve_one_deny_two_with_a_reason(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person(YES, no("one is enough"))
    state = await play(three_calls(), toolbox(write), person, clock=clock)

    assert [result.text for result in last_results(state)] == [
        "did dg_1",
        "Tool use rejected with user message: one is enough",
        SKIPPED,
    ]
    assert [result.call_id for result in last_results(state)] == ["dg_1", "dg_2", "dg_3"]
    assert outcomes(state) == ["ok", "denied", "skipped"]
    assert write.began == write.ended == ["dg_1"]
    assert state.ended == "completed"


async def test_p13_approve_one_deny_two_without_a_reason(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person(YES, NO)
    state = await play(three_calls(), toolbox(write), person, clock=clock)

    assert outcomes(state) == ["ok", "denied", "skipped"]
    assert write.began == write.ended == ["dg_1"]
    assert state.ended == "tool_denied"
    assert [event.result.call_id for event in events_of(person, ToolFinished)] == ["dg_1", "dg_2", "dg_3"]


async def test_p13_a_call_that_runs_is_awaited_when_a_later_one_is_denied(clock: VirtualClock) -> None:
    gate = Gate("slow but sure")
    slow = RecordingTool("slow", gate, parallel=True)

    async def refuse_while_it_runs(_question: ToolQuestion, _token: CancellationToken) -> object:
        await gate.reached.wait()
        asyncio.get_running_loop().call_soon(gate.opened.set)
        return NO

    model = ScriptedModel.of(reply(call("slow"), call("write"), call("write")))
    person = Person(YES, refuse_while_it_runs)
    state = await play(model, toolbox(slow, RecordingTool("write")), person, clock=clock)

    assert outcomes(state) == ["ok", "denied", "skipped"]
    assert last_results(state)[0].text == "slow but sure"
    assert len(slow.ended) == 1
    assert state.ended == "tool_denied"


async def test_p13_a_call_that_failed_before_the_denial_says_so(clock: VirtualClock) -> None:
    async def fail(_invocation: Invocation, _token: CancellationToken) -> str:
        raise OSError("disk full")

    model = ScriptedModel.of(reply(call("write"), call("write")))
    state = await play(model, toolbox(RecordingTool("write", fail)), Person(YES, NO), clock=clock)
    assert outcomes(state) == ["error", "denied"]
    assert "disk full" in last_results(state)[0].text


async def test_p14_asking_for_each_runs_what_was_approved(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person(YES, NO, YES)
    state = await play(three_calls(), toolbox(write), person, clock=clock, settings=ASK_EACH)

    assert outcomes(state) == ["ok", "denied", "ok"]
    assert last_results(state)[1].text == DENIED
    assert write.began == ["dg_1", "dg_3"]
    assert len(person.asked) == 3
    assert state.ended == "completed"


async def test_p14_asking_for_each_keeps_every_reason(clock: VirtualClock) -> None:
    person = Person(no("first"), YES, no("third"))
    state = await play(three_calls(), toolbox(RecordingTool("write")), person, clock=clock, settings=ASK_EACH)
    assert [result.text for result in last_results(state)] == [
        "Tool use rejected with user message: first",
        "did dg_2",
        "Tool use rejected with user message: third",
    ]


@pytest.mark.parametrize("settings", [LoopSettings(), ASK_EACH])
async def test_p15_an_approval_that_raises_is_a_denial(clock: VirtualClock, settings: LoopSettings) -> None:
    write, person = RecordingTool("write"), Person(YES, ValueError("the dialog broke"))
    state = await play(three_calls(), toolbox(write), person, clock=clock, settings=settings)

    assert outcomes(state) == ["ok", "denied", "skipped"]
    assert "the dialog broke" in last_results(state)[1].text
    assert last_results(state)[1].text != DENIED, "nobody refused this"
    assert write.began == ["dg_1"]
    assert state.ended == "tool_denied"


async def test_p15_where_there_is_nobody_to_ask_the_result_says_so_and_nobody_is_said_to_have_refused(
    clock: VirtualClock,
) -> None:
    write, person = RecordingTool("write"), Person(YES, CannotAsk("There is no terminal to ask in."))
    state = await play(three_calls(), toolbox(write), person, clock=clock)

    assert outcomes(state) == ["ok", "denied", "skipped"]
    assert "There is no terminal to ask in." in last_results(state)[1].text
    assert last_results(state)[1].text != DENIED
    assert write.began == ["dg_1"]


async def _itself_cancelled(_question: ToolQuestion, _token: CancellationToken) -> object:
    raise asyncio.CancelledError


async def _gives_up(_question: ToolQuestion, _token: CancellationToken) -> object:
    raise CancellationError("request")


async def _nothing(_question: ToolQuestion, _token: CancellationToken) -> object:
    return None


async def _true(_question: ToolQuestion, _token: CancellationToken) -> object:
    return True


async def _a_word(_question: ToolQuestion, _token: CancellationToken) -> object:
    return "yes"


async def _a_level_that_was_not_offered(_question: ToolQuestion, _token: CancellationToken) -> object:
    return Approve("always")


@pytest.mark.parametrize(
    "answer", [_itself_cancelled, _gives_up, _nothing, _true, _a_word, _a_level_that_was_not_offered]
)
async def test_p15_what_is_no_decision_approves_nothing(clock: VirtualClock, answer: object) -> None:
    write, person = RecordingTool("write"), Person(answer)  # type: ignore[arg-type]  # one of the functions above
    state = await play(three_calls(), toolbox(write), person, clock=clock)
    assert outcomes(state) == ["denied", "skipped", "skipped"]
    assert write.began == []
    assert state.ended == "tool_denied"
