"""A run that waits for an approval: put aside, saved, and continued, here or in another process."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.backends.scripted import ScriptedModel, call, reply
from dragoman.lm import CancellationSource, CancellationToken, ToolCallPart
from dragoman.loop import LoopSettings, RunState, Suspend, dump, load
from dragoman.loop.events import Ended, QuestionAsked, ToolFinished, TurnEnded, TurnStarted
from dragoman.loop.history import INTERRUPTED_BEFORE, INTERRUPTED_DURING
from dragoman.tools.decision import ToolQuestion
from dragoman.tools.tool import Invocation
from loop_kit import (
    NO,
    YES,
    Answer,
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

HERE = Path(__file__).parent


def half_of_a_run(half: str, saved: Path) -> dict[str, object]:
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "saved_run.py"), half, str(saved)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    said: dict[str, object] = json.loads(finished.stdout)
    return said


@pytest.mark.long
def test_a_run_that_waits_for_an_approval_is_saved_and_continued_in_a_new_process(tmp_path: Path) -> None:
    saved = tmp_path / "run.json"
    first = half_of_a_run("start", saved)
    assert first["ended"] == "suspended"
    assert first["ran"] == ["dg_1"]
    assert first["results"] == [], "nothing is in the history before all of it is"

    second = half_of_a_run("go-on", saved)
    assert second["ended"] == "completed"
    assert second["asked"] == ["dg_2"]
    assert second["ran"] == ["dg_3", "dg_2"], "the first ran before, and does not run again"
    assert second["results"] == [["dg_1", "ok"], ["dg_2", "ok"], ["dg_3", "ok"]]
    assert second["said"] == "All done."


def two_calls() -> ScriptedModel:
    return ScriptedModel.of(
        reply("Two.", call("write", call_id="dg_1"), call("write", call_id="dg_2")), "Done."
    )


async def test_suspended_the_run_ends_with_its_round_open_and_its_history_closed(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person(YES, Suspend())
    state = await play(two_calls(), toolbox(write), person, clock=clock)
    assert state.ended == "suspended"
    assert len(state.messages) == 1
    assert state.answer is not None
    assert state.answer.text == "Two."
    assert state.round is not None
    assert [one.status for one in state.round.calls] == ["done", "pending"]
    assert write.ended == ["dg_1"]
    assert events_of(person, Ended) == [Ended("suspended")]
    assert events_of(person, TurnEnded) == []


async def test_a_suspended_run_goes_on_where_it_stopped(clock: VirtualClock) -> None:
    write, model = RecordingTool("write"), two_calls()
    tools = toolbox(write)
    suspended = await play(model, tools, Person(YES, Suspend()), clock=clock)
    person = Person(no("not this one"))
    state = await play(model, tools, person, clock=clock, state=suspended)
    assert state.ended == "completed"
    assert outcomes(state) == ["ok", "denied"]
    assert write.began == ["dg_1"]
    assert [event.result.call_id for event in events_of(person, ToolFinished)] == ["dg_2"]
    assert events_of(person, TurnStarted) == [TurnStarted(2)]
    assert events_of(person, TurnEnded) == [TurnEnded(1), TurnEnded(2)]
    assert load(dump(state)) == state


async def test_it_can_be_suspended_again_and_again(clock: VirtualClock) -> None:
    model, tools, state = two_calls(), toolbox(RecordingTool("write")), None
    for _ in range(3):
        state = await play(model, tools, Person(Suspend()), clock=clock, state=state)
        assert state.ended == "suspended"
        state = load(dump(state))
    state = await play(model, tools, Person(), clock=clock, state=state)
    assert (state.ended, outcomes(state)) == ("completed", ["ok", "ok"])
    assert state.turn == 2


async def test_a_tool_that_runs_is_awaited_before_the_run_is_put_aside(clock: VirtualClock) -> None:
    gate = Gate()
    slow = RecordingTool("slow", gate, read_only=True)

    async def suspend_meanwhile(_question: ToolQuestion, _token: CancellationToken) -> object:
        await gate.reached.wait()
        asyncio.get_running_loop().call_soon(gate.opened.set)
        raise Suspend

    model = ScriptedModel.of(reply(call("slow"), call("write")), "Done.")
    tools = toolbox(slow, RecordingTool("write"))
    state = await play(model, tools, Person(suspend_meanwhile), clock=clock)
    assert state.ended == "suspended"
    assert len(slow.ended) == 1
    state = await play(model, tools, Person(), clock=clock, state=load(dump(state)))
    assert outcomes(state) == ["ok", "ok"]
    assert len(slow.began) == 1


async def test_a_cancel_while_the_last_tool_is_awaited_wins_over_putting_aside(clock: VirtualClock) -> None:
    source, gate = CancellationSource(), Gate()

    async def suspend_meanwhile(_question: ToolQuestion, _token: CancellationToken) -> object:
        await gate.reached.wait()
        asyncio.get_running_loop().call_soon(source.cancel)
        raise Suspend

    model = ScriptedModel.of(reply(call("slow"), call("write")))
    tools = toolbox(RecordingTool("slow", gate, read_only=True), RecordingTool("write"))
    state = await play(model, tools, Person(suspend_meanwhile), clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert [result.text for result in last_results(state)] == [INTERRUPTED_DURING, INTERRUPTED_BEFORE]


async def test_what_a_hook_made_of_a_call_is_kept_and_not_made_again(clock: VirtualClock) -> None:
    made: list[str] = []

    def rewrite(one: ToolCallPart) -> ToolCallPart:
        made.append(one.call_id)
        return ToolCallPart(one.call_id, one.name, {"path": f"safe {len(made)}"})

    write, model = RecordingTool("write"), ScriptedModel.of(reply(call("write", path="unsafe")), "Done.")
    tools = toolbox(write)
    state = await play(model, tools, Person(Suspend(), on_tool_use=rewrite), clock=clock)
    state = await play(model, tools, Person(on_tool_use=rewrite), clock=clock, state=load(dump(state)))
    assert write.inputs == [{"path": "safe 1"}] == [last_results(state)[0].input]
    assert len(made) == 1


async def test_an_approval_that_was_not_used_is_asked_for_again(clock: VirtualClock) -> None:
    # Written down between the yes and the start: the exclusive call waits for the one before it.
    saved: list[bytes] = []

    def keep(state: RunState) -> None:
        if state.round is not None and state.round.calls[1].status == "approved":
            saved.append(dump(state))

    async def work(_invocation: Invocation, _token: CancellationToken) -> str:
        await clock.sleep(1)
        return "done"

    side = RecordingTool("side", work, read_only=True)
    model = ScriptedModel.of(reply(call("side"), call("write")), "Done.")
    await play(model, toolbox(side, RecordingTool("write")), Person(on_state=keep), clock=clock)

    write, person = RecordingTool("write"), Person(NO)
    state = await play(model, toolbox(side, write), person, clock=clock, state=load(saved[0]))
    assert len(events_of(person, QuestionAsked)) == 1
    assert outcomes(state) == ["interrupted", "denied"]
    assert write.began == []


async def test_turns_are_counted_over_the_whole_run(clock: VirtualClock) -> None:
    model = ScriptedModel.of(reply(call("write")), reply(call("write")), "Done.")
    tools, settings = toolbox(RecordingTool("write")), LoopSettings(turns=2)
    state = await play(model, tools, Person(YES, Suspend()), clock=clock, settings=settings)
    assert (state.ended, state.turn) == ("suspended", 2)
    state = await play(model, tools, Person(), clock=clock, settings=settings, state=load(dump(state)))
    assert (state.ended, state.turn) == ("turn_limit", 2)


@pytest.mark.parametrize("hook", ["use", "result"])
async def test_suspend_means_something_only_where_a_person_is_asked(clock: VirtualClock, hook: str) -> None:
    def suspend(*_arguments: object) -> object:
        raise Suspend

    person = Person(on_tool_use=suspend) if hook == "use" else Person(on_tool_result=suspend)
    model = ScriptedModel.of(reply(call("write")), "Done.")
    state = await play(model, toolbox(RecordingTool("write")), person, clock=clock)
    assert state.ended == "completed"
    assert outcomes(state) == ["error" if hook == "use" else "ok"]


@pytest.mark.parametrize(
    ("answers", "ended"),
    [
        ((YES, YES, YES), "completed"),
        ((YES, NO), "tool_denied"),
        ((NO,), "tool_denied"),
        ((YES, no("not this one")), "completed"),
        ((YES, ValueError("broken")), "tool_denied"),
    ],
)
async def test_from_wherever_a_process_died_the_run_comes_to_the_same_end(
    clock: VirtualClock, answers: tuple[Answer, ...], ended: str
) -> None:
    model = ScriptedModel.of(reply("Three.", *(call("write", call_id=f"dg_{n}") for n in (1, 2, 3))), "Done.")
    first = Person(*answers)
    whole = await play(model, toolbox(RecordingTool("write")), first, clock=clock)
    assert whole.ended == ended
    for written in first.states:
        write = RecordingTool("write")
        decided = (
            [] if written.round is None else [one for one in written.round.calls if one.status == "done"]
        )
        state = await play(
            model,
            toolbox(write),
            # Who was asked and answered is not asked again, unless the answer was not written down.
            Person(*answers[len(decided) :]),
            clock=clock,
            state=load(dump(written)),
        )
        assert state.ended == ended
        kept = [one.result for one in decided]
        assert list(last_results(state))[: len(kept)] == kept
        assert not {result.call_id for result in kept if result is not None} & set(write.began)
        if "interrupted" not in outcomes(state):
            assert outcomes(state) == outcomes(whole)


async def test_silence_still_ends_the_run_after_a_restart(clock: VirtualClock) -> None:
    first = Person(YES, lambda _question, _token: clock.sleep(1e9))
    tools = toolbox(RecordingTool("write"))
    model = ScriptedModel.of(reply("Three.", *(call("write") for _ in range(3))), "Done.")
    whole = await play(model, tools, first, clock=clock)
    assert whole.ended == "timed_out"
    silent = [
        state for state in first.states if state.round is not None and state.round.verdict == "timed_out"
    ]
    assert len(silent) == 3
    for written in silent:
        person = Person()
        state = await play(model, tools, person, clock=clock, state=load(dump(written)))
        assert person.asked == []
        assert state == whole
