"""Calls that cannot be made, calls that fail, calls side by side: one result each, in call order."""

import asyncio

import msgspec
import pytest

from dragoman.backends.scripted import Script, ScriptedModel, call, reply
from dragoman.lm import CancellationError, CancellationToken, Capabilities, JsonObject
from dragoman.lm.parts import ToolResult
from dragoman.loop.events import QuestionAsked, ToolFinished, ToolProgressed, ToolStarted, ToolUsed
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.tools.decision import Approve, ToolQuestion
from dragoman.tools.tool import Invocation, PreparedInvocation
from loop_kit import (
    YES,
    Gate,
    Person,
    RecordingTool,
    events_of,
    last_results,
    outcomes,
    play,
    toolbox,
)
from virtual_clock import VirtualClock

PATH_REQUIRED: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}


async def test_t20_broken_json_is_an_error_result_not_asked_and_not_run(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person()
    model = ScriptedModel.of(reply(call("write", unparsed='{"path": "a')), "Sorry.")
    state = await play(model, toolbox(write), person, clock=clock)

    (result,) = last_results(state)
    assert (result.outcome, result.is_error, result.input) == ("error", True, None)
    assert "could not be read" in result.text
    assert write.began == []
    assert person.asked == []
    assert events_of(person, QuestionAsked) == []
    assert state.ended == "completed"
    assert model.requests[1].messages[-1].results == (result,)


async def test_t20_the_call_beside_it_is_not_harmed(clock: VirtualClock) -> None:
    model = ScriptedModel.of(reply(call("write", unparsed="["), call("write")), "Done.")
    state = await play(model, toolbox(RecordingTool("write")), Person(), clock=clock)
    assert outcomes(state) == ["error", "ok"]


async def test_t21_arguments_that_fail_the_schema_are_explained_not_asked_and_not_run(
    clock: VirtualClock,
) -> None:
    write, person = RecordingTool("write", schema=PATH_REQUIRED), Person()
    model = ScriptedModel.of(reply(call("write", path=5)), reply(call("write", path="a")), "Done.")
    state = await play(model, toolbox(write), person, clock=clock)

    first, second = (message.results[0] for message in state.messages if message.results)
    assert (first.outcome, first.is_error, first.input) == ("error", True, {"path": 5})
    assert "path" in first.text
    assert "string" in first.text
    assert (second.outcome, second.input) == ("ok", {"path": "a"})
    assert write.inputs == [{"path": "a"}]
    assert len(person.asked) == 1


async def test_a_tool_that_is_gone_when_its_call_comes_is_an_error_that_names_others(
    clock: VirtualClock,
) -> None:
    write, look = RecordingTool("write"), RecordingTool("look")
    tools = toolbox(write, look)
    person = Person(
        on_event=lambda event: tools.registry.deselect("write") if isinstance(event, ToolUsed) else None
    )
    state = await play(ScriptedModel.of(reply(call("write")), "Oh."), tools, person, clock=clock)
    assert outcomes(state) == ["error"]
    assert "look" in last_results(state)[0].text
    assert write.began == []
    assert state.ended == "completed"


async def test_a_call_of_a_tool_that_was_never_offered_is_an_error_that_names_others(
    clock: VirtualClock,
) -> None:
    write, person = RecordingTool("write"), Person()
    model = ScriptedModel.of(reply("I will.", call("fly"), call("write")), "Oh.")
    state = await play(model, toolbox(write), person, clock=clock)
    assert outcomes(state) == ["error", "ok"]
    unknown = last_results(state)[0]
    assert unknown.name == "fly"
    assert "'fly'" in unknown.text
    assert "write" in unknown.text
    assert [question.tool for question in person.asked] == ["write"]
    assert state.ended == "completed"


@pytest.mark.parametrize("takes", [False, 7])
async def test_a_model_is_offered_no_more_tools_than_it_takes(takes: bool | int, clock: VirtualClock) -> None:  # noqa: FBT001
    script = Script.in_turn("Hello.")
    few = msgspec.structs.replace(script.info, capabilities=Capabilities(tool_calling=takes))
    limited = ScriptedModel(script, info=few)
    tools = toolbox(*(RecordingTool(f"{group}_{number}") for group in ("a", "b", "c") for number in range(4)))
    state = await play(limited, tools, Person(), clock=clock)
    assert state.ended == "completed"
    offered = [tool.name for tool in limited.requests[0].options.tools]
    assert offered == ([] if takes is False else ["activate_a", "activate_b", "activate_c"])


async def test_a_tool_that_cannot_be_prepared_is_an_error_and_not_asked(clock: VirtualClock) -> None:
    async def fail(_invocation: Invocation) -> PreparedInvocation:
        raise OSError("no such file")

    write, person = RecordingTool("write", prepare=fail), Person()
    state = await play(ScriptedModel.of(reply(call("write")), "Oh."), toolbox(write), person, clock=clock)
    assert outcomes(state) == ["error"]
    assert "no such file" in last_results(state)[0].text
    assert person.asked == []
    assert write.began == []


async def test_a_preparation_that_cancels_itself_does_not_cancel_the_run(clock: VirtualClock) -> None:
    async def cancel(_invocation: Invocation) -> PreparedInvocation:
        raise asyncio.CancelledError

    write = RecordingTool("write", prepare=cancel)
    state = await play(ScriptedModel.of(reply(call("write")), "Oh."), toolbox(write), Person(), clock=clock)
    assert outcomes(state) == ["error"]
    assert state.ended == "completed"


async def _raises(_invocation: Invocation, _token: CancellationToken) -> object:
    raise ValueError("boom")


async def _fails(_invocation: Invocation, _token: CancellationToken) -> object:
    return ToolResult.error("boom")


async def _cancels_itself(_invocation: Invocation, _token: CancellationToken) -> object:
    raise asyncio.CancelledError("boom")


async def _was_refused_further_down(_invocation: Invocation, _token: CancellationToken) -> object:
    raise CancellationError("rejected", "boom")


async def _cancels_its_task(_invocation: Invocation, _token: CancellationToken) -> object:
    task = asyncio.current_task()
    assert task is not None
    task.cancel("boom")
    await asyncio.sleep(0)
    raise AssertionError("it was cancelled")


async def _returns_nonsense(_invocation: Invocation, _token: CancellationToken) -> object:
    return object()


@pytest.mark.parametrize(
    "behaviour",
    [
        _raises,
        _fails,
        _cancels_itself,
        _was_refused_further_down,
        _cancels_its_task,
        _returns_nonsense,
    ],
)
@pytest.mark.parametrize("parallel", [True, False])
async def test_a_tool_that_fails_in_whatever_way_ran_once_and_says_so(
    clock: VirtualClock, behaviour: object, *, parallel: bool
) -> None:
    bad = RecordingTool("bad", behaviour, parallel=parallel)  # type: ignore[arg-type]  # one of the above
    good = RecordingTool("good", parallel=parallel)
    model = ScriptedModel.of(reply(call("good"), call("bad"), call("good")), "Oh.")
    state = await play(model, toolbox(bad, good), Person(), clock=clock)
    assert outcomes(state) == ["ok", "error", "ok"]
    assert len(bad.began) == 1
    assert last_results(state)[1].is_error
    assert state.ended == "completed"


async def test_parallel_tools_really_overlap_and_results_are_in_call_order(clock: VirtualClock) -> None:
    barrier = asyncio.Barrier(3)
    finished: list[str] = []

    async def meet(invocation: Invocation, _token: CancellationToken) -> str:
        async with barrier:
            pass
        # The last call finishes first.
        await clock.sleep({"dg_1": 3, "dg_2": 2, "dg_3": 1}[invocation.call_id])
        finished.append(invocation.call_id)
        return invocation.call_id

    meeting = RecordingTool("meet", meet, read_only=True)
    model = ScriptedModel.of(
        reply(call("meet", call_id="dg_1"), call("meet", call_id="dg_2"), call("meet", call_id="dg_3")),
        "Met.",
    )
    person = Person()
    state = await play(model, toolbox(meeting), person, clock=clock)

    assert finished == ["dg_3", "dg_2", "dg_1"]
    assert [event.result.call_id for event in events_of(person, ToolFinished)] == finished
    assert [event.seconds for event in events_of(person, ToolFinished)] == [1, 2, 3]
    assert [result.text for result in last_results(state)] == ["dg_1", "dg_2", "dg_3"]
    assert [event.approved for event in events_of(person, ToolStarted)] == ["read-only"] * 3
    assert clock.now() == 3


async def test_a_tool_that_may_not_run_beside_others_never_does(clock: VirtualClock) -> None:
    running: set[str] = set()
    seen: list[set[str]] = []

    async def work(invocation: Invocation, _token: CancellationToken) -> str:
        running.add(invocation.call_id)
        seen.append(set(running))
        await clock.sleep(1)
        seen.append(set(running))
        running.discard(invocation.call_id)
        return "done"

    side, alone = RecordingTool("side", work, parallel=True), RecordingTool("alone", work, parallel=False)
    calls = ["side", "side", "alone", "alone", "side", "alone", "side"]
    model = ScriptedModel.of(
        reply(*(call(name, call_id=f"dg_{n}_{name}") for n, name in enumerate(calls))), "Done."
    )
    state = await play(model, toolbox(side, alone), Person(), clock=clock)

    assert outcomes(state) == ["ok"] * 7
    assert all(len(together) == 1 for together in seen if any("alone" in one for one in together))
    assert any(len(together) == 2 for together in seen)
    # Two side by side, then each of the others for itself.
    assert clock.now() == 6


async def test_the_next_question_is_asked_while_a_parallel_tool_runs_and_after_an_exclusive_one(
    clock: VirtualClock,
) -> None:
    gate = Gate()
    side, alone = RecordingTool("side", gate, parallel=True), RecordingTool("alone", parallel=False)

    async def while_it_runs(_question: ToolQuestion, _token: CancellationToken) -> object:
        await gate.reached.wait()
        assert side.ended == []
        gate.opened.set()
        return YES

    async def after_it_ran(_question: ToolQuestion, _token: CancellationToken) -> object:
        assert len(alone.ended) == 1
        return YES

    model = ScriptedModel.of(reply(call("side"), call("alone"), call("alone")), "Done.")
    state = await play(model, toolbox(side, alone), Person(YES, while_it_runs, after_it_ran), clock=clock)
    assert outcomes(state) == ["ok", "ok", "ok"]


async def test_progress_is_told_while_a_tool_runs_and_not_afterwards(clock: VirtualClock) -> None:
    kept: list[Invocation] = []

    async def work(invocation: Invocation, _token: CancellationToken) -> str:
        kept.append(invocation)
        invocation.progress("half-way")
        return "done"

    person = Person()
    await play(
        ScriptedModel.of(reply(call("work", call_id="dg_1")), "Done."),
        toolbox(RecordingTool("work", work)),
        person,
        clock=clock,
    )
    kept[0].progress("too late")
    assert events_of(person, ToolProgressed) == [ToolProgressed("dg_1", "half-way")]


async def test_i4_an_approval_for_the_session_is_not_asked_for_again_and_says_why(
    clock: VirtualClock,
) -> None:
    write, person, approvals = RecordingTool("write"), Person(Approve("session")), Approvals()
    model = ScriptedModel.of(reply(call("write"), call("write")), reply(call("write")), "Done.")
    state = await play(model, toolbox(write, approvals=approvals), person, clock=clock)
    assert state.ended == "completed"
    assert len(write.began) == 3
    assert len(person.asked) == 1
    assert [event.approved for event in events_of(person, ToolStarted)] == [
        "approved: session",
        "approved for this session",
        "approved for this session",
    ]


async def test_i4_a_tool_that_must_be_permission_requested_is_permission_requested_even_when_read_only(
    clock: VirtualClock,
) -> None:
    look, person = RecordingTool("look", read_only=True), Person()
    tools = toolbox(look, auto=AutoApproval(all=True, eligible={"look": False}))
    state = await play(
        ScriptedModel.of(reply(call("look"), call("look")), "Done."), tools, person, clock=clock
    )
    assert outcomes(state) == ["ok", "ok"]
    assert len(person.asked) == 2


async def test_i4_an_approval_that_cannot_be_kept_still_counts_for_this_call(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("disk full")

    tools, person = toolbox(RecordingTool("write")), Person(Approve("session"))
    monkeypatch.setattr(tools, "remember", fail)
    state = await play(ScriptedModel.of(reply(call("write")), "Done."), tools, person, clock=clock)
    assert outcomes(state) == ["ok"]
    assert [event.approved for event in events_of(person, ToolStarted)] == ["approved once"]
