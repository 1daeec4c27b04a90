"""Turns: what goes to the model, what is told at once, what waits for the end of the stream, and when it is over."""

import asyncio

from dragoman.backends.scripted import ScriptedModel, act, call, data, fail, reply, say, think
from dragoman.lm import (
    CancellationSource,
    Consumer,
    JsonObject,
    ToolCallPart,
    ToolDefinition,
    assistant,
    system,
    user,
)
from dragoman.lm.parts import ToolResult
from dragoman.loop import LoopSettings, RunState, ToolLoop, begin
from dragoman.loop.events import (
    DataReported,
    Ended,
    MessageAdded,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolUsed,
    TurnEnded,
    TurnStarted,
)
from dragoman.loop.history import INTERRUPTED_BEFORE, INTERRUPTED_DURING
from dragoman.permissions.decide import Ask
from loop_kit import (
    ClosedHistoryModel,
    Gate,
    Person,
    RecordingTool,
    events_of,
    last_results,
    outcomes,
    play,
    shown_text,
    toolbox,
)
from virtual_clock import VirtualClock


async def test_text_is_told_at_once_and_no_call_is_permission_requested_or_run_before_the_stream_has_ended(
    clock: VirtualClock,
) -> None:
    write, look = RecordingTool("write"), RecordingTool("look", read_only=True)
    person = Person()

    def nothing_has_happened_yet() -> None:
        assert shown_text(person) == "Let me see. "
        assert person.asked == []
        assert look.began == []
        assert events_of(person, ToolUsed) == []

    async def and_time_passes() -> None:
        await clock.sleep(60)
        nothing_has_happened_yet()

    model = ScriptedModel.of(
        reply(
            say("Let me see. "),
            call("look"),
            call("write"),
            act(nothing_has_happened_yet),
            act(and_time_passes),
            say("And so on."),
        ),
        "Done.",
    )
    state = await play(model, toolbox(write, look), person, clock=clock)
    assert outcomes(state) == ["ok", "ok"]
    assert len(person.asked) == 1
    assert state.ended == "completed"


async def test_each_piece_of_text_thinking_and_data_is_told_in_the_order_it_came(clock: VirtualClock) -> None:
    person = Person()
    model = ScriptedModel.of(reply(think("Hm, so."), say("It is 4."), data({"sum": 4}), say("Sure.")))
    await play(model, toolbox(), person, clock=clock)
    told = [
        event for event in person.events if isinstance(event, TextReported | ThinkingReported | DataReported)
    ]
    assert [
        event.text if not isinstance(event, DataReported) else event.part.mime_type for event in told
    ] == [
        "Hm, ",
        "so.",
        "It ",
        "is ",
        "4.",
        "application/json",
        "\n\n*Data: application/json, 9 bytes*\n\n",
        "Sure.",
    ]


async def test_the_request_carries_the_definitions_of_the_tools_on_offer(clock: VirtualClock) -> None:
    schema: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = toolbox(RecordingTool("write", schema=schema), RecordingTool("look", read_only=True))
    model = ScriptedModel.of(reply(call("write", path="a")), "Done.")
    await play(model, tools, Person(), clock=clock)

    for request in model.requests:
        assert request.options.tools == (
            ToolDefinition("write", "Does what write does.", schema),
            ToolDefinition("look", "Does what look does.", {"type": "object"}),
        )
        assert request.options.tool_mode == "auto"


async def test_what_is_offered_is_looked_up_again_for_every_turn(clock: VirtualClock) -> None:
    tools = toolbox(RecordingTool("write"), RecordingTool("look"))
    model = ScriptedModel.of(reply(call("write")), "Done.")
    person = Person(
        on_event=lambda event: tools.registry.deselect("look") if isinstance(event, ToolFinished) else None
    )
    await play(model, tools, person, clock=clock)
    assert [[tool.name for tool in request.options.tools] for request in model.requests] == [
        ["write", "look"],
        ["write"],
    ]


async def test_a_tool_named_in_the_last_prompt_is_offered_in_every_turn_of_it(clock: VirtualClock) -> None:
    # The person's words are behind results in later turns; they still name the tool.
    tools = toolbox(RecordingTool("write"))
    seen: list[str] = []
    definitions = tools.definitions

    def listen(prompt: str = "", *, limit: int | None = None) -> tuple[ToolDefinition, ...]:
        seen.append(prompt)
        return definitions(prompt, limit=limit)

    tools.definitions = listen  # type: ignore[method-assign]  # only to listen
    model = ScriptedModel.of(reply(call("write")), "Done.")
    state = begin([system("Be brief."), user("Hello."), user("Use #write.")])
    await play(model, tools, Person(), clock=clock, state=state)
    assert seen == ["Use #write.", "Use #write."]


async def test_the_consumer_is_passed_on_with_the_features_of_the_loop(clock: VirtualClock) -> None:
    model = ScriptedModel.of("Hello.")
    loop = ToolLoop(model, toolbox(), consumer=Consumer("terminal", workspace_folders=("/w",)), clock=clock)
    await loop.run(begin([user("Hi.")]), CancellationSource().token)
    consumer = model.requests[0].consumer
    assert (consumer.name, consumer.workspace_folders) == ("terminal", ("/w",))
    assert consumer.features.thinking
    assert consumer.features.unparsed_calls
    assert consumer.features.keeps_parts_of_failures


async def test_the_next_request_is_the_messages_so_far_the_answer_and_one_message_with_all_results(
    clock: VirtualClock,
) -> None:
    write = RecordingTool("write", parallel=True)
    model = ScriptedModel.of(
        reply(say("Two at once."), call("write", call_id="dg_1", n=1), call("write", call_id="dg_2", n=2)),
        reply(say("And one."), call("write", call_id="dg_3", n=3)),
        "Done.",
    )
    prompt = (system("Be brief."), user("Go."))
    person = Person()
    state = await play(model, toolbox(write), person, clock=clock, state=begin(prompt))
    first, second, third = (request.messages for request in model.requests)

    assert first == prompt
    assert second[:2] == first
    assert len(second) == 4
    assert (second[2].role, second[2].text) == ("assistant", "Two at once.")
    assert [one.call_id for one in second[2].calls] == ["dg_1", "dg_2"]
    assert second[3].role == "user"
    assert [(result.call_id, result.text) for result in second[3].results] == [
        ("dg_1", "did dg_1"),
        ("dg_2", "did dg_2"),
    ]
    assert third[:4] == second
    assert [result.call_id for result in third[5].results] == ["dg_3"]
    assert state.messages == (*third, assistant("Done."))
    # And whoever watches has seen the same messages.
    assert [event.message for event in events_of(person, MessageAdded)] == list(state.messages[2:])


async def test_both_of_two_calls_run_and_both_results_go_back(clock: VirtualClock) -> None:
    look = RecordingTool("look", read_only=True)
    model = ScriptedModel.of(reply(say("Both."), call("look", n=1), call("look", n=2)), "${result}")
    state = await play(model, toolbox(look), Person(), clock=clock)
    assert look.inputs == [{"n": 1}, {"n": 2}]
    assert state.messages[-1].text == "\n".join(result.text for result in last_results(state))


async def test_it_ends_when_no_call_comes(clock: VirtualClock) -> None:
    person, model = Person(), ScriptedModel.of("Nothing to do.")
    state = await play(model, toolbox(RecordingTool("write")), person, clock=clock)
    assert state.ended == "completed"
    assert state.turn == 1
    assert state.messages == (user("Go."), assistant("Nothing to do."))
    assert len(model.requests) == 1
    assert person.events[-2:] == [TurnEnded(1), Ended("completed")]


async def test_events_of_a_turn_with_a_call_come_in_order(clock: VirtualClock) -> None:
    person = Person()
    await play(
        ScriptedModel.of(reply(say("Look."), call("write")), "Done."),
        toolbox(RecordingTool("write")),
        person,
        clock=clock,
    )
    assert [type(event).__name__ for event in person.events] == [
        "TurnStarted",
        "TextReported",
        "ToolUsed",
        "QuestionAsked",
        "CallDecided",
        "ToolStarted",
        "ToolFinished",
        "MessageAdded",
        "MessageAdded",
        "TurnEnded",
        "TurnStarted",
        "TextReported",
        "MessageAdded",
        "TurnEnded",
        "Ended",
    ]


async def test_a_follow_up_goes_on_from_the_history_of_the_run_before(clock: VirtualClock) -> None:
    model = ScriptedModel.of(reply(call("write")), "Done.", "You are welcome.")
    tools = toolbox(RecordingTool("write"))
    first = await play(model, tools, Person(), clock=clock)
    state = begin((*first.messages, user("Thanks.")))
    second = await play(model, tools, Person(), clock=clock, state=state)
    assert second.messages == (*first.messages, user("Thanks."), assistant("You are welcome."))


async def test_an_open_history_is_closed_before_it_goes_to_a_model(clock: VirtualClock) -> None:
    model = ClosedHistoryModel(ScriptedModel.of(reply(call("write")), "Go on."))
    history = (user("Go."), assistant("I will.", ToolCallPart("dg_1", "write", {})), user("Still there?"))
    state = await ToolLoop(model, toolbox(), clock=clock).run(begin(history), CancellationSource().token)
    assert state.ended == "completed"
    assert outcomes(state) == ["interrupted"]
    assert model.requests[0].messages[-1] == user("Still there?")


async def test_a_state_that_was_built_open_by_hand_never_reaches_a_model(clock: VirtualClock) -> None:
    model = ScriptedModel.of("Hello.")
    state = RunState((user("Go."), assistant(ToolCallPart("dg_1", "write", {}))))
    ended = await ToolLoop(model, toolbox(), clock=clock).run(state, CancellationSource().token)
    assert ended.ended == "failed"
    assert ended.error is not None
    assert "open history" in ended.error.message
    assert not model.requests


async def test_an_empty_conversation_fails_with_what_to_do(clock: VirtualClock) -> None:
    ended = await ToolLoop(ScriptedModel.of("Hello."), toolbox(), clock=clock).run(
        begin([]), CancellationSource().token
    )
    assert ended.ended == "failed"
    assert ended.error is not None
    assert (ended.error.kind, ended.error.message) == ("bad_request", "The request has no messages.")


async def test_p20_the_turn_limit_with_three_tools_a_turn_stops_at_the_limit_with_a_closed_history(
    clock: VirtualClock,
) -> None:
    write, person = RecordingTool("write", parallel=True), Person()
    turns = [reply(say(f"Turn {n}."), call("write"), call("write"), call("write")) for n in range(10)]
    model = ScriptedModel.of(*turns)
    state = await play(model, toolbox(write), person, clock=clock, settings=LoopSettings(turns=4))

    assert state.ended == "turn_limit"
    assert state.turn == 4
    assert len(model.requests) == 4
    assert len(write.ended) == 12
    assert len(state.messages) == 1 + 4 * 2
    assert outcomes(state) == ["ok", "ok", "ok"]
    assert events_of(person, TurnStarted) == [TurnStarted(n) for n in (1, 2, 3, 4)]
    assert events_of(person, TurnEnded) == [TurnEnded(n) for n in (1, 2, 3, 4)]


async def test_p20_after_the_limit_a_new_prompt_gets_its_own_turns(clock: VirtualClock) -> None:
    model = ScriptedModel.of(reply(call("write")), reply(call("write")), "Done.")
    tools, settings = toolbox(RecordingTool("write")), LoopSettings(turns=1)
    first = await play(model, tools, Person(), clock=clock, settings=settings)
    assert first.ended == "turn_limit"
    state = begin((*first.messages, user("Go on.")))
    second = await play(model, tools, Person(), clock=clock, settings=settings, state=state)
    assert second.ended == "turn_limit"
    assert len(model.requests) == 2


async def test_p20_a_limit_of_nothing_asks_nobody(clock: VirtualClock) -> None:
    model = ScriptedModel.of("Hello.")
    state = await play(model, toolbox(), Person(), clock=clock, settings=LoopSettings(turns=0))
    assert state.ended == "turn_limit"
    assert not model.requests


async def test_more_tools_than_can_be_offered_fail_the_run_with_what_to_do(clock: VirtualClock) -> None:
    names = [f"{letter}{letter}_tool_{n}" for letter in "abcdef" for n in (1, 2)]
    tools = toolbox(*map(RecordingTool, names), limit=3)
    person, model = Person(), ScriptedModel.of("Hello.")
    state = await play(model, tools, person, clock=clock)
    assert state.ended == "failed"
    assert state.error is not None
    assert state.error.kind == "bad_request"
    assert "12 tools are too many" in state.error.message
    assert state.error.hint is not None
    assert events_of(person, Ended) == [Ended("failed", state.error.message, state.error.hint)]
    assert not model.requests
    assert state.messages == (user("Go."),)


async def test_a_fault_in_the_tools_themselves_ends_the_run_closed(clock: VirtualClock) -> None:
    gate = Gate()
    slow = RecordingTool("slow", gate, parallel=True)
    tools = toolbox(slow, RecordingTool("write"))

    def break_down(*_arguments: object) -> Ask:
        if slow.began:
            raise RuntimeError("the approvals are gone")
        return Ask()

    tools.decide = break_down  # type: ignore[assignment, method-assign]  # a fault that should not be
    model = ScriptedModel.of(reply(call("slow"), call("write")))
    state = await play(model, tools, Person(), clock=clock)
    assert state.ended == "failed"
    assert state.error is not None
    assert "the approvals are gone" in state.error.message
    assert [result.text for result in last_results(state)] == [INTERRUPTED_DURING, INTERRUPTED_BEFORE]
    assert slow.ended == []


async def test_several_runs_of_one_loop_do_not_mix(clock: VirtualClock) -> None:
    write = RecordingTool("write", parallel=True)
    model = ScriptedModel.of(reply(say("Ask ${prompt}"), call("write", who="${prompt}")), "Done: ${prompt}")
    loop = ToolLoop(model, toolbox(write), hooks=Person(), clock=clock)
    token = CancellationSource().token
    ended = await asyncio.gather(*(loop.run(begin([user(name)]), token) for name in "abcd"))
    assert [state.messages[-1].text for state in ended] == [f"Done: {name}" for name in "abcd"]
    assert [last_results(state)[0].input for state in ended] == [{"who": name} for name in "abcd"]


async def test_an_answer_without_anything_visible_is_made_visible_and_ends_the_run(
    clock: VirtualClock,
) -> None:
    person = Person()
    state = await play(ScriptedModel.of(reply(say(" "))), toolbox(), person, clock=clock)
    assert state.ended == "completed"
    assert "empty answer" in state.messages[-1].text
    assert shown_text(person) == state.messages[-1].text


async def test_a_final_failure_before_anything_was_said_leaves_the_history_as_it_was(
    clock: VirtualClock,
) -> None:
    person = Person()
    model = ScriptedModel.of(reply(fail("auth_required", "Not signed in", hint="Sign in.")))
    state = await play(model, toolbox(), person, clock=clock)
    assert state.ended == "failed"
    assert state.messages == (user("Go."),)
    assert state.error is not None
    assert (state.error.kind, state.error.message, state.error.hint) == (
        "auth_required",
        "Not signed in",
        "Sign in.",
    )
    assert events_of(person, Ended) == [Ended("failed", "Not signed in", "Sign in.")]


async def test_a_run_that_has_ended_stays_ended(clock: VirtualClock) -> None:
    model = ScriptedModel.of("Hello.")
    state = await play(model, toolbox(), Person(), clock=clock)
    person = Person()
    again = await play(model, toolbox(), person, clock=clock, state=state)
    assert again == state
    assert person.events == []
    assert len(model.requests) == 1


async def test_a_result_of_several_parts_goes_back_whole(clock: VirtualClock) -> None:
    async def several(*_arguments: object) -> ToolResult:
        return ToolResult.error("Half of it failed.")

    model = ScriptedModel.of(reply(call("write")), "Oh.")
    state = await play(model, toolbox(RecordingTool("write", several)), Person(), clock=clock)
    (result,) = model.requests[1].messages[-1].results
    assert (result.text, result.is_error, result.outcome) == ("Half of it failed.", True, "error")
    assert state.ended == "completed"
