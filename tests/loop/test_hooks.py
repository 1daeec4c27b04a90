"""Hooks that rewrite, replace, raise, hang and answer nonsense: no call loses its result, and what is recorded is what ran."""

import asyncio
import logging
from pathlib import Path

import pytest

from dragoman.backends.scripted import ScriptedModel, call, reply
from dragoman.lm import (
    CancellationError,
    CancellationSource,
    CancellationToken,
    DataPart,
    JsonObject,
    TextPart,
    ToolCallPart,
    user,
)
from dragoman.lm.parts import ToolResult
from dragoman.loop import Hooks, LoopSettings, RunEvent, ToolLoop, begin, dump, load, to_json
from dragoman.loop.events import QuestionAsked, ToolFinished, ToolStarted
from dragoman.loop.round import DENIED
from dragoman.tools.tool import Invocation
from loop_kit import (
    NO,
    Person,
    RecordingTool,
    events_of,
    last_results,
    outcomes,
    play,
    toolbox,
)
from virtual_clock import VirtualClock

DEADLINE = LoopSettings().deadline_seconds


def one_call(**arguments: object) -> ScriptedModel:
    return ScriptedModel.of(reply(call("write", arguments, call_id="dg_1")), "Done.")


async def test_p16_a_rewritten_call_is_filed_under_the_models_own_id(clock: VirtualClock) -> None:
    def rewrite(made: ToolCallPart) -> ToolCallPart:
        return ToolCallPart("dg_forged", "append", {**made.input, "path": "safe"})

    write, append = RecordingTool("write"), RecordingTool("append")
    person = Person(on_tool_use=rewrite)
    state = await play(one_call(path="/etc/passwd", text="x"), toolbox(write, append), person, clock=clock)

    (result,) = last_results(state)
    assert result.call_id == "dg_1"
    assert (result.name, result.input) == ("append", {"path": "safe", "text": "x"})
    assert append.inputs == [result.input]
    assert append.began == ["dg_1"]
    assert write.began == []
    # What the person was asked is what ran.
    assert [(question.tool, question.input) for question in person.asked] == [("append", result.input)]
    # The model's own words stay as they were.
    assert state.messages[-3].calls == (ToolCallPart("dg_1", "write", {"path": "/etc/passwd", "text": "x"}),)
    assert [event.tool for event in events_of(person, ToolStarted)] == ["append"]
    assert [event.tool for event in events_of(person, QuestionAsked)] == ["append"]


async def test_p16_a_rewritten_call_that_is_denied_is_recorded_as_it_was_permission_requested(
    clock: VirtualClock,
) -> None:
    person = Person(NO, on_tool_use=lambda made: ToolCallPart(made.call_id, "write", {"path": "safe"}))
    state = await play(one_call(path="unsafe"), toolbox(RecordingTool("write")), person, clock=clock)
    (result,) = last_results(state)
    assert (result.text, result.input) == (DENIED, {"path": "safe"})
    assert [made.input for made, _, _ in person.reviewed] == [{"path": "safe"}]


async def test_p16_schema_defaults_are_part_of_what_ran_and_of_what_is_recorded(clock: VirtualClock) -> None:
    schema: JsonObject = {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}}
    write = RecordingTool("write", schema=schema)
    state = await play(one_call(), toolbox(write), Person(), clock=clock)
    assert last_results(state)[0].input == {"depth": 3} == write.inputs[0]


async def test_p16_changing_the_input_after_it_was_handed_over_changes_nothing(clock: VirtualClock) -> None:
    kept: list[dict[str, object]] = []

    def rewrite(made: ToolCallPart) -> ToolCallPart:
        kept.append({"path": "safe"})
        return ToolCallPart(made.call_id, made.name, kept[0])

    write = RecordingTool("write")
    person = Person(on_tool_use=rewrite, on_event=lambda _event: [one.update(path="other") for one in kept])
    state = await play(one_call(), toolbox(write), person, clock=clock)
    assert write.inputs == [{"path": "safe"}] == [last_results(state)[0].input]


async def test_p16_a_call_rewritten_to_a_tool_that_is_not_there_is_an_error(clock: VirtualClock) -> None:
    person = Person(on_tool_use=lambda made: ToolCallPart(made.call_id, "erase", {}))
    state = await play(one_call(), toolbox(RecordingTool("write")), person, clock=clock)
    assert outcomes(state) == ["error"]
    assert "'erase'" in last_results(state)[0].text
    assert person.asked == []
    assert state.ended == "completed"


def _raises(_made: ToolCallPart) -> ToolCallPart:
    raise ValueError("boom")


def _cancels_itself(_made: ToolCallPart) -> ToolCallPart:
    raise asyncio.CancelledError


def _gives_up(_made: ToolCallPart) -> ToolCallPart:
    raise CancellationError("skipped")


def _answers_nothing(_made: ToolCallPart) -> None:
    return None


def _answers_what_cannot_be_written_down(made: ToolCallPart) -> ToolCallPart:
    return ToolCallPart(made.call_id, made.name, {"path": Path("a")})


def _answers_with_wrong_types(made: ToolCallPart) -> ToolCallPart:
    return ToolCallPart(made.call_id, 5, made.input)  # type: ignore[arg-type]  # on purpose


async def _hangs(_made: ToolCallPart) -> ToolCallPart:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


@pytest.mark.parametrize(
    "hook",
    [
        _raises,
        _cancels_itself,
        _gives_up,
        _answers_nothing,
        _answers_what_cannot_be_written_down,
        _answers_with_wrong_types,
        _hangs,
    ],
)
async def test_a_failing_rewrite_makes_the_call_an_error_and_the_run_goes_on(
    clock: VirtualClock, hook: object
) -> None:
    write, person = RecordingTool("write"), Person(on_tool_use=hook)  # type: ignore[arg-type]  # one of the above
    state = await play(one_call(), toolbox(write), person, clock=clock)
    assert outcomes(state) == ["error"]
    assert "was not made" in last_results(state)[0].text
    assert write.began == []
    assert person.asked == []
    assert state.ended == "completed"
    assert clock.now() == (DEADLINE if hook is _hangs else 0)
    assert load(dump(state)) == state


async def test_the_result_hook_replaces_what_is_recorded_and_the_model_sees_that(clock: VirtualClock) -> None:
    model = one_call()
    image = DataPart.image(b"\x89PNG", "image/png")
    person = Person(on_tool_result=lambda _made, _result: ToolResult((TextPart("cut"), image)))
    state = await play(model, toolbox(RecordingTool("write")), person, clock=clock)
    assert last_results(state)[0].content == (TextPart("cut"), image)
    assert model.requests[1].messages[-1].results == last_results(state)
    assert [(made.call_id, approved) for made, _, approved in person.reviewed] == [("dg_1", True)]
    assert [event.result for event in events_of(person, ToolFinished)] == list(last_results(state))


async def test_a_result_hook_changes_the_words_and_the_flag_and_never_what_became_of_the_call(
    clock: VirtualClock,
) -> None:
    async def fail(_invocation: Invocation, _token: CancellationToken) -> ToolResult:
        return ToolResult.error("disk full")

    told = Person(on_tool_result=lambda *_: ToolResult.error("lint failed"))
    state = await play(one_call(), toolbox(RecordingTool("write")), told, clock=clock)
    assert (outcomes(state), last_results(state)[0].is_error) == (["ok"], True)
    soothed = Person(on_tool_result=lambda *_: ToolResult.text("never mind"))
    state = await play(one_call(), toolbox(RecordingTool("write", fail)), soothed, clock=clock)
    assert (outcomes(state), last_results(state)[0].is_error) == (["error"], False)


def _refuses_to_review(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
    raise ValueError("boom")


def _cancels_its_review(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
    raise asyncio.CancelledError


def _gives_up_its_review(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
    raise CancellationError


def _reviews_to_nothing(_made: ToolCallPart, _result: ToolResult) -> None:
    return None


def _reviews_to_a_number_inside(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
    return ToolResult((5,))  # type: ignore[arg-type]  # on purpose


async def _reviews_forever(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


@pytest.mark.parametrize(
    "hook",
    [
        _refuses_to_review,
        _cancels_its_review,
        _gives_up_its_review,
        _reviews_to_nothing,
        _reviews_to_a_number_inside,
        _reviews_forever,
    ],
)
async def test_a_failing_result_hook_leaves_the_result_as_it_was(clock: VirtualClock, hook: object) -> None:
    model = ScriptedModel.of(reply(call("write", call_id="dg_1"), call("write", call_id="dg_2")))
    person = Person(on_tool_result=hook)  # type: ignore[arg-type]  # one of the above
    person._answers = [NO]
    state = await play(model, toolbox(RecordingTool("write")), person, clock=clock)
    assert outcomes(state) == ["denied", "skipped"]
    assert last_results(state)[0].text == DENIED

    person = Person(on_tool_result=hook)  # type: ignore[arg-type]  # one of the above
    state = await play(one_call(), toolbox(RecordingTool("write")), person, clock=clock)
    assert [(result.outcome, result.text) for result in last_results(state)] == [("ok", "did dg_1")]
    assert state.ended == "completed"


async def test_watchers_that_raise_are_logged_and_change_nothing(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_anything: object) -> None:
        raise ValueError("the screen is gone")

    person = Person(on_event=fail, on_state=fail)
    with caplog.at_level(logging.ERROR):
        state = await play(one_call(), toolbox(RecordingTool("write")), person, clock=clock)
    assert state.ended == "completed"
    assert outcomes(state) == ["ok"]
    assert {record.message for record in caplog.records} >= {
        "a watcher failed at ToolFinished",
        "the state of a run could not be stored",
    }


async def test_without_hooks_nothing_is_approved_and_nothing_runs(clock: VirtualClock) -> None:
    write, look = RecordingTool("write"), RecordingTool("look", read_only=True)
    model = ScriptedModel.of(reply(call("look"), call("write")))
    state = await ToolLoop(model, toolbox(write, look), clock=clock).run(
        begin([user("Go.")]), CancellationSource().token
    )
    assert outcomes(state) == ["ok", "denied"]
    assert write.began == []
    assert state.ended == "tool_denied"


async def test_every_event_has_a_json_form(clock: VirtualClock) -> None:
    lines: list[str] = []

    class Printing(Hooks):
        def on_event(self, event: RunEvent) -> None:
            lines.append(to_json(event))

    await ToolLoop(one_call(path="a"), toolbox(RecordingTool("write")), hooks=Printing(), clock=clock).run(
        begin([user("Go.")]), CancellationSource().token
    )
    assert lines[0] == '{"event":"turn_started","turn":1}'
    assert lines[-1] == '{"event":"ended","reason":"tool_denied"}'
    assert '"event":"tool_finished"' in "".join(lines)
