"""A cancel in every phase: nothing starts any more, what has finished is kept, everything else says that it was cut off."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.backends.scripted import ScriptedModel, act, call, forever, reply, say
from dragoman.lm import (
    CancellationSource,
    CancellationToken,
    LanguageModel,
    Message,
    ModelInfo,
    Request,
    Sink,
    TextPart,
    ToolCallPart,
    assistant,
    user,
)
from dragoman.lm.parts import ToolResult
from dragoman.loop import LoopSettings, RunEvent, RunState, ToolLoop, begin, dump, load
from dragoman.loop.events import Ended, QuestionAsked, ToolFinished, ToolProgressed, ToolStarted
from dragoman.loop.history import INTERRUPTED_BEFORE, INTERRUPTED_DURING, gaps
from dragoman.loop.round import DENIED
from dragoman.tools.decision import Approve, ToolQuestion
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.tool import Invocation, PreparedInvocation
from loop_kit import (
    NO,
    YES,
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

GRACE = LoopSettings().cancel_grace_seconds


def texts(state: RunState) -> list[str]:
    return [result.text for result in last_results(state)]


async def _forever(*_arguments: object) -> str:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def test_before_the_first_turn_nobody_is_asked_anything(clock: VirtualClock) -> None:
    source, person, model = CancellationSource(), Person(), ScriptedModel.of("Hello.")
    source.cancel()
    state = await play(model, toolbox(), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert state.messages == (user("Go."),)
    assert not model.requests
    assert person.events == [Ended("cancelled")]


async def test_during_the_stream_the_partial_text_is_kept(clock: VirtualClock) -> None:
    source, person = CancellationSource(), Person()
    model = ScriptedModel.of(reply(say("Once upon "), act(source.cancel), say("a time")))
    state = await play(model, toolbox(), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert state.messages == (user("Go."), assistant("Once upon "))
    assert shown_text(person) == "Once upon "
    assert person.events[-1] == Ended("cancelled")


async def test_during_the_stream_the_calls_that_came_are_interrupted_before_they_began(
    clock: VirtualClock,
) -> None:
    source, look = CancellationSource(), RecordingTool("look", read_only=True)
    model = ScriptedModel.of(reply("I look.", call("look"), call("look"), act(source.cancel), forever()))
    person = Person()
    state = await play(model, toolbox(look), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert texts(state) == [INTERRUPTED_BEFORE] * 2
    assert outcomes(state) == ["interrupted"] * 2
    assert look.began == []
    assert len(events_of(person, ToolFinished)) == 2


class Deaf:
    """A model that does not listen to its token, and goes on talking."""

    def __init__(self, clock: VirtualClock, source: CancellationSource) -> None:
        self._clock = clock
        self._source = source
        self.finished = asyncio.Event()

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("deaf", "Deaf", "deaf", "1", 1, 1)

    def count_tokens(self, text: str | Message) -> int:
        return 1

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        sink.report(TextPart("As I was saying"))
        self._source.cancel()
        until = self._clock.now() + 100
        while self._clock.now() < until:
            try:
                await self._clock.sleep(1)
            except asyncio.CancelledError:
                continue
            sink.report(TextPart(" and on"))
        self.finished.set()


async def test_a_model_that_does_not_listen_is_left_behind_after_the_grace(clock: VirtualClock) -> None:
    source, person = CancellationSource(), Person()
    model = Deaf(clock, source)
    state = await play(model, toolbox(), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert clock.now() == GRACE
    assert state.messages[-1] == assistant("As I was saying")
    await model.finished.wait()
    assert shown_text(person) == "As I was saying"


async def test_a_model_that_takes_a_moment_to_stop_gets_it(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def wind_down() -> None:
        source.cancel()
        try:
            await clock.sleep(100)
        except asyncio.CancelledError:
            await clock.sleep(2)

    model = ScriptedModel.of(reply("Well", act(wind_down)))
    state = await play(model, toolbox(), Person(), clock=clock, token=source.token)
    assert state.messages[-1] == assistant("Well")
    assert clock.now() == 2


async def test_while_a_call_is_rewritten_nothing_runs(clock: VirtualClock) -> None:
    source, write = CancellationSource(), RecordingTool("write", read_only=True)
    left = asyncio.Event()

    async def hang(_made: ToolCallPart) -> ToolCallPart:
        source.cancel()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        raise AssertionError("nobody sets it")

    model = ScriptedModel.of(reply(call("write"), call("write")))
    state = await play(model, toolbox(write), Person(on_tool_use=hang), clock=clock, token=source.token)
    assert (state.ended, texts(state)) == ("cancelled", [INTERRUPTED_BEFORE] * 2)
    assert write.began == []
    assert clock.now() == 0
    await left.wait()


async def test_while_a_call_is_prepared_nothing_runs(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def hang(_invocation: Invocation) -> PreparedInvocation:
        source.cancel()
        return await _forever()  # type: ignore[return-value]  # it never returns

    write = RecordingTool("write", prepare=hang)
    person = Person()
    state = await play(
        ScriptedModel.of(reply(call("write"))), toolbox(write), person, clock=clock, token=source.token
    )
    assert (state.ended, texts(state)) == ("cancelled", [INTERRUPTED_BEFORE])
    assert person.asked == []
    assert write.began == []


async def test_a_hook_that_ignores_its_cancellation_does_not_hold_the_run_up(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def stubborn(made: ToolCallPart) -> ToolCallPart:
        source.cancel()
        while clock.now() < 100:
            try:
                await clock.sleep(100)
            except asyncio.CancelledError:
                continue
        return made

    write = RecordingTool("write", read_only=True)
    state = await play(
        ScriptedModel.of(reply(call("write"))),
        toolbox(write),
        Person(on_tool_use=stubborn),
        clock=clock,
        token=source.token,
    )
    assert state.ended == "cancelled"
    assert clock.now() == 0
    await clock.sleep(200)
    assert write.began == []


async def test_c10_a_cancel_while_the_dialog_is_open_then_an_approval_runs_nothing(
    clock: VirtualClock,
) -> None:
    source, write = CancellationSource(), RecordingTool("write")
    approved = asyncio.Event()

    async def approve_afterwards(_question: ToolQuestion, _token: CancellationToken) -> object:
        source.cancel()
        try:
            await clock.sleep(60)
        except asyncio.CancelledError:
            # The dialog does not go away by itself; the person clicks.
            await clock.sleep(60)
        approved.set()
        return Approve("session")

    person = Person(approve_afterwards)
    tools = toolbox(write)
    model = ScriptedModel.of(reply(call("write"), call("write")))
    state = await play(model, tools, person, clock=clock, token=source.token)

    assert state.ended == "cancelled"
    assert texts(state) == [INTERRUPTED_BEFORE] * 2
    assert clock.now() == 0
    await approved.wait()
    assert write.began == []
    assert len(person.asked) == 1
    assert person.events[-1] == Ended("cancelled")
    # Nor is anything remembered of it.
    again = Person(NO)
    await play(ScriptedModel.of(reply(call("write"))), tools, again, clock=clock)
    assert len(again.asked) == 1


async def test_c10_an_approval_and_a_cancel_in_the_same_moment_run_nothing(clock: VirtualClock) -> None:
    source, write = CancellationSource(), RecordingTool("write")

    async def approve_and_cancel(_question: ToolQuestion, _token: CancellationToken) -> object:
        source.cancel()
        return Approve("session")

    tools, model = toolbox(write), ScriptedModel.of(reply(call("write")))
    state = await play(model, tools, Person(approve_and_cancel), clock=clock, token=source.token)
    assert (state.ended, texts(state)) == ("cancelled", [INTERRUPTED_BEFORE])
    assert write.began == []
    # Nor is anything remembered of it.
    again = Person(NO)
    await play(model, tools, again, clock=clock)
    assert len(again.asked) == 1


@pytest.mark.parametrize("kind", [QuestionAsked, ToolStarted])
@pytest.mark.parametrize("read_only", [True, False])
async def test_c10_a_watcher_that_cancels_at_the_worst_moment_breaks_nothing(
    clock: VirtualClock, kind: type[RunEvent], *, read_only: bool
) -> None:
    source = CancellationSource()
    write = RecordingTool("write", _forever, read_only=read_only)
    person = Person(on_event=lambda event: source.cancel() if isinstance(event, kind) else None)
    model = ScriptedModel.of(reply(call("write"), call("write"), say("Go.")), "Done.")
    if kind is QuestionAsked and read_only:
        # Nobody is asked, so nobody cancels: the person does it at the end of the turn.
        asyncio.get_running_loop().call_later(0, source.cancel)
    state = await play(model, toolbox(write), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    for result in last_results(state):
        began = result.call_id in write.began
        assert result.text == (INTERRUPTED_DURING if began else INTERRUPTED_BEFORE)


async def test_while_a_call_waits_for_others_to_finish_it_has_not_begun(clock: VirtualClock) -> None:
    source = CancellationSource()
    side = RecordingTool("side", _forever, parallel=True)
    alone = RecordingTool("alone", parallel=False)

    def cancel_once_it_waits(state: RunState) -> None:
        if state.round is not None and state.round.calls[1].status == "approved":
            asyncio.get_running_loop().call_soon(source.cancel)

    person = Person(on_state=cancel_once_it_waits)
    model = ScriptedModel.of(reply(call("side"), call("alone"), call("alone")))
    state = await play(model, toolbox(side, alone), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert texts(state) == [INTERRUPTED_DURING, INTERRUPTED_BEFORE, INTERRUPTED_BEFORE]
    assert alone.began == []
    assert [event.approved for event in events_of(person, ToolFinished)] == [True, True, False]


def three_tools() -> tuple[ScriptedModel, ToolRuntime, list[RecordingTool]]:
    tools = [
        RecordingTool("quick", read_only=True),
        RecordingTool("slow", _forever, read_only=True),
        RecordingTool("endless", _forever, read_only=True),
    ]
    model = ScriptedModel.of(reply("All three.", call("slow"), call("quick"), call("endless")), "Go on.")
    return model, toolbox(*tools), tools


def _one_of_three_has_finished(state: RunState) -> bool:
    return state.round is not None and [one.status for one in state.round.calls] == [
        "running",
        "done",
        "running",
    ]


async def test_c11_of_three_running_tools_the_finished_result_is_kept_also_after_a_reload(
    clock: VirtualClock, tmp_path: Path
) -> None:
    source = CancellationSource()
    model, tools, (quick, slow, endless) = three_tools()
    person = Person(on_state=lambda state: source.cancel() if _one_of_three_has_finished(state) else None)
    state = await play(model, tools, person, clock=clock, token=source.token)

    assert state.ended == "cancelled"
    assert [(result.name, result.outcome) for result in last_results(state)] == [
        ("slow", "interrupted"),
        ("quick", "ok"),
        ("endless", "interrupted"),
    ]
    assert last_results(state)[0].text == INTERRUPTED_DURING
    assert last_results(state)[1].text.startswith("did ")
    assert len(quick.ended) == len(slow.began) == len(endless.began) == 1
    assert slow.ended == endless.ended == []

    saved = tmp_path / "run.json"
    saved.write_bytes(dump(state))
    loaded = load(saved.read_bytes())
    assert loaded == state
    # And the next prompt gets its own answer.
    after = await play(model, tools, Person(), clock=clock, state=begin((*loaded.messages, user("Go on."))))
    assert after.messages[-1].text == "Go on."


async def test_c11_a_run_that_died_while_three_tools_ran_goes_on_truthfully_from_disk(
    clock: VirtualClock, tmp_path: Path
) -> None:
    saved = tmp_path / "run.json"
    model, tools, started = three_tools()

    def keep(state: RunState) -> None:
        # The process dies after this moment: nothing later is written.
        if _one_of_three_has_finished(state):
            saved.write_bytes(dump(state))

    dying = asyncio.ensure_future(play(model, tools, Person(on_state=keep), clock=clock))
    await clock.sleep(0)
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying

    person = Person()
    state = await play(model, tools, person, clock=clock, state=load(saved.read_bytes()))
    assert outcomes(state) == ["interrupted", "ok", "interrupted"]
    assert texts(state)[0] == INTERRUPTED_DURING
    assert [len(tool.began) for tool in started] == [1, 1, 1], "nothing runs a second time"
    assert state.ended == "completed"
    assert state.messages[-1].text == "Go on."
    # The finished one was told when it finished; the others are told now.
    assert [event.result.name for event in events_of(person, ToolFinished)] == ["slow", "endless"]


async def test_c11_a_tool_that_finishes_within_the_grace_is_kept(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def finish_properly(_invocation: Invocation, token: CancellationToken) -> str:
        source.cancel()
        try:
            await _forever()
        except asyncio.CancelledError:
            await clock.sleep(GRACE / 2)
        return "cleaned up"

    write, person = RecordingTool("write", finish_properly), Person()
    state = await play(
        ScriptedModel.of(reply(call("write"))), toolbox(write), person, clock=clock, token=source.token
    )
    assert (state.ended, outcomes(state), texts(state)) == ("cancelled", ["ok"], ["cleaned up"])
    assert clock.now() == GRACE / 2
    assert [event.seconds for event in events_of(person, ToolFinished)] == [GRACE / 2]


async def test_c11_a_tool_that_ignores_its_cancellation_is_left_behind_after_the_grace(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    source = CancellationSource()
    finished = asyncio.Event()

    async def stubborn(invocation: Invocation, _token: CancellationToken) -> str:
        source.cancel()
        while clock.now() < 100:
            try:
                await clock.sleep(1)
            except asyncio.CancelledError:
                continue
            invocation.progress("still here")
        finished.set()
        return "far too late"

    write, person = RecordingTool("write", stubborn), Person()
    with caplog.at_level(logging.WARNING):
        state = await play(
            ScriptedModel.of(reply(call("write"), call("write"))),
            toolbox(write),
            person,
            clock=clock,
            token=source.token,
        )
    assert clock.now() == GRACE
    assert (state.ended, texts(state)) == ("cancelled", [INTERRUPTED_DURING, INTERRUPTED_BEFORE])
    assert "left behind" in caplog.text
    told = len(person.events)
    caplog.clear()
    await finished.wait()
    await clock.sleep(1)
    # A task that nobody waits for complains, if it failed, when it is collected.
    gc.collect()
    assert len(person.events) == told
    assert person.events[-1] == Ended("cancelled")
    assert events_of(person, ToolProgressed)
    assert caplog.records == []
    assert person.reviewed == []


async def test_while_a_hook_looks_at_a_result_the_result_is_kept_as_it_was(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def hang(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
        source.cancel()
        return await _forever()  # type: ignore[return-value]  # it never returns

    write, person = RecordingTool("write", parallel=True), Person(on_tool_result=hang)
    model = ScriptedModel.of(reply(call("write", call_id="dg_1"), call("write", call_id="dg_2")))
    state = await play(model, toolbox(write), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert last_results(state)[0].text == "did dg_1"
    assert clock.now() == 0
    for result in last_results(state):
        assert (result.outcome == "ok") == (result.call_id in write.ended)


async def test_while_a_hook_looks_at_a_denial_it_stays_a_denial(clock: VirtualClock) -> None:
    source = CancellationSource()

    async def hang(_made: ToolCallPart, _result: ToolResult) -> ToolResult:
        source.cancel()
        return await _forever()  # type: ignore[return-value]  # it never returns

    person = Person(NO, on_tool_result=hang)
    model = ScriptedModel.of(reply(call("write"), call("write")))
    state = await play(model, toolbox(RecordingTool("write")), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert texts(state) == [DENIED, INTERRUPTED_BEFORE]
    assert outcomes(state) == ["denied", "interrupted"]
    assert clock.now() == 0


async def test_after_the_last_result_a_cancel_keeps_all_of_them(clock: VirtualClock) -> None:
    source = CancellationSource()

    def cancel_at_the_end(state: RunState) -> None:
        if state.round is not None and all(one.status == "done" for one in state.round.calls):
            source.cancel()

    model = ScriptedModel.of(reply(call("write"), call("write")), "Never said.")
    person = Person(on_state=cancel_at_the_end)
    state = await play(model, toolbox(RecordingTool("write")), person, clock=clock, token=source.token)
    assert (state.ended, outcomes(state)) == ("cancelled", ["ok", "ok"])
    assert len(model.requests) == 1


async def _in_the_stream(clock: VirtualClock) -> tuple[LanguageModel, ToolRuntime, Person]:
    return ScriptedModel.of(reply("Half", call("look"), forever())), toolbox(RecordingTool("look")), Person()


async def _in_a_dialog(clock: VirtualClock) -> tuple[LanguageModel, ToolRuntime, Person]:
    person = Person(lambda _question, _token: _forever())
    return ScriptedModel.of(reply(call("write"))), toolbox(RecordingTool("write")), person


async def _in_a_tool(clock: VirtualClock) -> tuple[LanguageModel, ToolRuntime, Person]:
    return ScriptedModel.of(reply(call("write"))), toolbox(RecordingTool("write", _forever)), Person()


async def _in_a_rewrite(clock: VirtualClock) -> tuple[LanguageModel, ToolRuntime, Person]:
    return (
        ScriptedModel.of(reply(call("write"))),
        toolbox(RecordingTool("write")),
        Person(on_tool_use=_forever),
    )


async def _in_a_review(clock: VirtualClock) -> tuple[LanguageModel, ToolRuntime, Person]:
    person = Person(on_tool_result=_forever)
    return ScriptedModel.of(reply(call("write"))), toolbox(RecordingTool("write")), person


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (_in_the_stream, [INTERRUPTED_BEFORE]),
        (_in_a_dialog, [INTERRUPTED_BEFORE]),
        (_in_a_tool, [INTERRUPTED_DURING]),
        (_in_a_rewrite, [INTERRUPTED_BEFORE]),
        (_in_a_review, ["did"]),
    ],
)
async def test_the_callers_own_task_is_cancelled_and_what_is_true_is_kept(
    clock: VirtualClock,
    place: Callable[[VirtualClock], Awaitable[tuple[LanguageModel, ToolRuntime, Person]]],
    expected: list[str],
) -> None:
    model, tools, person = await place(clock)
    loop = ToolLoop(model, tools, hooks=person, clock=clock)
    running = asyncio.ensure_future(loop.run(begin([user("Go.")]), CancellationSource().token))
    await clock.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    state = person.states[-1]
    assert state.ended == "cancelled"
    assert gaps(state.messages) == []
    assert len(texts(state)) == len(expected)
    assert all(text.startswith(words) for text, words in zip(texts(state), expected, strict=True))
    assert person.events[-1] == Ended("cancelled")
    assert clock.now() == 0


async def test_the_callers_own_task_is_cancelled_during_the_grace(clock: VirtualClock) -> None:
    source = CancellationSource()
    left = asyncio.Event()

    async def stubborn(_invocation: Invocation, _token: CancellationToken) -> str:
        while clock.now() < 100:
            try:
                await clock.sleep(100)
            except asyncio.CancelledError:
                continue
        left.set()
        return "too late"

    write, person = RecordingTool("write", stubborn), Person()
    loop = ToolLoop(ScriptedModel.of(reply(call("write"))), toolbox(write), hooks=person, clock=clock)
    running = asyncio.ensure_future(loop.run(begin([user("Go.")]), source.token))
    await clock.sleep(0)
    source.cancel()
    await clock.sleep(0)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert clock.now() == 0
    assert person.states[-1].ended == "cancelled"
    assert texts(person.states[-1]) == [INTERRUPTED_DURING]
    assert person.events[-1] == Ended("cancelled")
    await left.wait()


async def test_nothing_is_told_after_the_end(clock: VirtualClock) -> None:
    """Also when it is the caller's task that was cancelled, and the model's token knows nothing of it."""
    source, person = CancellationSource(), Person()
    model = Deaf(clock, CancellationSource())
    loop = ToolLoop(model, toolbox(), hooks=person, clock=clock)
    running = asyncio.ensure_future(loop.run(begin([user("Go.")]), source.token))
    await clock.sleep(0)
    assert shown_text(person)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await model.finished.wait()
    assert person.events[-1] == Ended("cancelled")


async def test_p22_silence_until_the_deadline_is_timed_out_and_never_a_denial(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person(YES, lambda _question, _token: _forever())
    model = ScriptedModel.of(reply(call("write"), call("write"), call("write")))
    state = await play(model, toolbox(write), person, clock=clock)
    assert state.ended == "timed_out"
    assert outcomes(state) == ["ok", "timed_out", "timed_out"]
    assert all("denied" not in text and "user" not in text for text in texts(state)[1:])
    assert clock.now() == LoopSettings().deadline_seconds == 240 * 60
    assert len(write.began) == 1
    assert len(model.requests) == 1
    assert [(made.call_id, approved) for made, _, approved in person.reviewed] == [
        (result.call_id, result.outcome == "ok") for result in last_results(state)
    ]


async def test_p22_a_decision_in_the_last_minute_counts(clock: VirtualClock) -> None:
    async def slowly(_question: ToolQuestion, _token: CancellationToken) -> object:
        await clock.sleep(240 * 60 - 1)
        return YES

    state = await play(
        ScriptedModel.of(reply(call("write")), "Done."),
        toolbox(RecordingTool("write")),
        Person(slowly),
        clock=clock,
    )
    assert (state.ended, outcomes(state)) == ("completed", ["ok"])


async def test_p22_a_tool_that_runs_is_awaited_however_long_and_not_timed_out(clock: VirtualClock) -> None:
    async def long_build(_invocation: Invocation, _token: CancellationToken) -> str:
        await clock.sleep(20 * 3_600)
        return "built"

    build = RecordingTool("build", long_build, parallel=True)
    model = ScriptedModel.of(reply(call("build"), call("write")))
    person = Person(YES, lambda _question, _token: _forever())
    state = await play(model, toolbox(build, RecordingTool("write")), person, clock=clock)
    assert outcomes(state) == ["ok", "timed_out"]
    assert state.ended == "timed_out"
