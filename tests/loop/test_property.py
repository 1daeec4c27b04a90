"""Random runs, judged against what the tools and the person know: every call has one result, and the result is true.

A `Plan` says what everybody does: the model, the tools, the person, the hooks, whoever cancels, and the process that may
die and be followed by another. A `World` plays it and notes what really happens; `judge` compares that with the record.
Time is virtual and chance is in the plan, so the same plan always plays the same.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dragoman.backends.scripted import ScriptedModel, ScriptedReply, ScriptStep, call, fail, reply, say
from dragoman.lm import (
    CancellationError,
    CancellationSource,
    CancellationToken,
    JsonObject,
    ToolCallPart,
    ToolResultPart,
    user,
)
from dragoman.lm.parts import ToolResult
from dragoman.loop import Hooks, LoopSettings, RunEvent, RunState, Suspend, ToolLoop, begin, dump, load
from dragoman.loop.events import (
    Ended,
    MessageAdded,
    QuestionAsked,
    TextReported,
    ToolFinished,
    ToolStarted,
    ToolUsed,
    TurnStarted,
    Withdrawn,
)
from dragoman.loop.history import INTERRUPTED_BEFORE, INTERRUPTED_DURING, gaps
from dragoman.loop.settings import OnDenial
from dragoman.tools.decision import Approve, Decision, Deny, ToolQuestion
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.tool import Invocation
from loop_kit import Behaviour, ClosedHistoryModel, RecordingTool, toolbox
from virtual_clock import VirtualClock, run, running_clock


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Hundreds of runs in which everything fails on purpose: their logs are of no use, and cost most of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


# --- What may happen. -------------------------------------------------------------------------------------------------

# What a tool does is in its input, so a hook may change it.
Doing: TypeAlias = Literal[
    "succeed", "fail", "raise", "cancel itself", "take its time", "ignore cancellation"
]
DOINGS: tuple[Doing, ...] = (
    "succeed",
    "fail",
    "raise",
    "cancel itself",
    "take its time",
    "ignore cancellation",
)
TOOLS = ("look", "look_alone", "write", "write_alone")

Saying: TypeAlias = Literal[
    "yes",
    "yes, in this session",
    "yes, everywhere",
    "no",
    "no, because",
    "an exception",
    "a cancellation",
    "nonsense",
    "silence",
    "yes, later",
    "not now",
]
Rewriting: TypeAlias = Literal["input", "name", "unknown name", "id", "an exception", "nonsense", "silence"]
Reviewing: TypeAlias = Literal["success", "error", "an exception", "nonsense", "silence"]
CancelHow: TypeAlias = Literal["at once", "soon", "later", "the task"]

GRACE = LoopSettings().cancel_grace_seconds
LATER = 5.0
HOURS = 100_000.0
FOREVER = 1e9


@dataclass(frozen=True)
class Made:
    """A call the model makes."""

    tool: str
    doing: str
    unparsed: bool = False


@dataclass(frozen=True)
class Failing:
    after: int
    kind: Literal["unavailable", "blocked"]
    times: int


@dataclass(frozen=True)
class Plan:
    rounds: list[tuple[list[Made], Failing | None]]
    sayings: list[Saying]
    rewritings: list[Rewriting | None]
    reviewings: list[Reviewing | None]
    on_denial: OnDenial
    # At which step of the whole story the run is cancelled, and how; at which the process dies.
    cancel: tuple[int, CancelHow] | None
    death: int | None


_made = st.builds(
    Made,
    st.sampled_from(TOOLS),
    st.sampled_from([*DOINGS, *["succeed"] * 4, "what no schema allows"]),
    st.sampled_from([False] * 9 + [True]),
)
_failing = st.builds(
    Failing, st.integers(0, 6), st.sampled_from(["unavailable", "blocked"]), st.integers(1, 4)
)
_saying: st.SearchStrategy[Saying] = st.sampled_from(
    [
        "yes",
        "yes",
        "yes",
        "yes, in this session",
        "yes, everywhere",
        "no",
        "no, because",
        "an exception",
        "a cancellation",
        "nonsense",
        "silence",
        "yes, later",
        "not now",
    ]
)
_rewriting: st.SearchStrategy[Rewriting | None] = st.sampled_from(
    [None] * 8 + ["input", "name", "unknown name", "id", "an exception", "nonsense", "silence"]
)
_reviewing: st.SearchStrategy[Reviewing | None] = st.sampled_from(
    [None] * 8 + ["success", "error", "an exception", "nonsense", "silence"]
)
_cancel = st.tuples(st.integers(0, 60), st.sampled_from(["at once", "soon", "later", "the task"]))
plans = st.builds(
    Plan,
    rounds=st.lists(
        st.tuples(st.lists(_made, min_size=1, max_size=5), st.none() | st.none() | _failing),
        min_size=1,
        max_size=3,
    ),
    sayings=st.lists(_saying, max_size=8),
    rewritings=st.lists(_rewriting, max_size=6),
    reviewings=st.lists(_reviewing, max_size=6),
    on_denial=st.sampled_from(["skip-rest", "ask-each"]),
    cancel=st.none() | _cancel,
    death=st.none() | st.integers(1, 60),
)


def model_of(plan: Plan) -> ScriptedModel:
    replies: list[ScriptedReply] = []
    for number, (calls, failing) in enumerate(plan.rounds):
        steps: list[ScriptStep] = [say(f"Round {number} begins. ")]
        steps += [
            call(made.tool, unparsed='{"do": ') if made.unparsed else call(made.tool, do=made.doing)
            for made in calls
        ]
        steps.append(say("That is all."))
        if failing is not None:
            steps.insert(failing.after, fail(failing.kind, times=failing.times))
        replies.append(reply(*steps))
    return ScriptedModel.of(*replies, "Done.")


# --- What really happens. ---------------------------------------------------------------------------------------------


@dataclass
class World:
    """What everybody but the loop knows. A process that is dead changes nothing in it any more."""

    plan: Plan
    clock: VirtualClock
    steps: int = 0
    began: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    # Those of them after which the run must end.
    stopped_by: set[str] = field(default_factory=set)
    unmakeable: set[str] = field(default_factory=set)
    ran_when_written_down: set[str] = field(default_factory=set)
    someone_was_silent: bool = False
    over: bool = False
    cancelled_at: float | None = None
    deaths: int = 0
    # Noted, not raised: what tools and hooks raise is no surprise to the loop.
    faults: list[str] = field(default_factory=list)
    events: list[list[RunEvent]] = field(default_factory=list)
    sayings: list[Saying] = field(default_factory=list)
    rewritings: list[Rewriting | None] = field(default_factory=list)
    reviewings: list[Reviewing | None] = field(default_factory=list)

    def expect(self, what: str, holds: object) -> None:
        if not holds:
            self.faults.append(f"not so: {what}")

    def __post_init__(self) -> None:
        self.sayings = list(self.plan.sayings)
        self.rewritings = list(self.plan.rewritings)
        self.reviewings = list(self.plan.reviewings)


class Process(Hooks):
    """One process of the story: the host of a run, the person in front of it, and its tools."""

    def __init__(self, world: World, state: RunState) -> None:
        self.world = world
        self.source = CancellationSource()
        self.dead = asyncio.Event()
        self.last_state = state
        self.task: asyncio.Task[RunState] | None = None
        self.timers: list[asyncio.Task[None]] = []
        self.approved: set[str] = set()
        self.granted: set[str] = set()
        self.running: set[str] = set()
        # Calls that were noted as running before the cancel came.
        self.noted: set[str] = set()
        world.events.append([])

    # Every step of the story goes through here: the moment for somebody to cancel, or for the process to die.
    def step(self) -> None:
        world = self.world
        world.steps += 1
        plan = world.plan
        if plan.death == world.steps:
            self.die()
        elif plan.cancel is not None and plan.cancel[0] == world.steps:
            match plan.cancel[1]:
                case "at once":
                    self.cancel()
                case "soon":
                    asyncio.get_running_loop().call_soon(self.cancel)
                case "later":
                    self.timers.append(asyncio.create_task(self.cancel_later()))
                case "the task":
                    assert self.task is not None
                    world.cancelled_at = world.clock.now()
                    self.task.cancel()

    async def live(self) -> None:
        """A step that waits for ever if the process does not live to see it."""
        if not self.dead.is_set():
            self.step()
        if self.dead.is_set():
            await asyncio.Event().wait()

    def cancel(self) -> None:
        if not self.dead.is_set() and self.task is not None and not self.task.done():
            self.world.cancelled_at = self.world.clock.now()
            self.source.cancel()

    async def cancel_later(self) -> None:
        await self.world.clock.sleep(LATER)
        self.cancel()

    def die(self) -> None:
        self.dead.set()
        self.world.deaths += 1
        if self.last_state.round is not None:
            self.world.ran_when_written_down |= {
                state.call.call_id for state in self.last_state.round.calls if state.status == "running"
            }

    def on_event(self, event: RunEvent) -> None:
        if not self.dead.is_set():
            self.world.events[-1].append(event)
            self.step()

    def on_state(self, state: RunState) -> None:
        self.world.expect("the history is closed at every moment", not gaps(state.messages))
        self.world.expect("what is written down can be read", load(dump(state)) == state)
        if not self.dead.is_set():
            self.last_state = state
            if state.round is not None:
                self.noted |= {one.call.call_id for one in state.round.calls if one.status == "running"}
            self.step()

    async def on_tool_use(self, call: ToolCallPart) -> ToolCallPart:
        await self.live()
        rewriting = self.world.rewritings.pop(0) if self.world.rewritings else None
        match rewriting:
            case None:
                return call
            case "input":
                return ToolCallPart(call.call_id, call.name, {"do": "succeed"})
            case "name":
                other = TOOLS[(TOOLS.index(call.name) + 1) % len(TOOLS)]
                return ToolCallPart(call.call_id, other, call.input, call.unparsed)
            case "id":
                return ToolCallPart("forged", call.name, call.input, call.unparsed)
            case _:
                self.world.unmakeable.add(call.call_id)
        match rewriting:
            case "unknown name":
                return ToolCallPart(call.call_id, "nowhere", call.input)
            case "an exception":
                raise RuntimeError("the hook fails")
            case "silence":
                await self.world.clock.sleep(FOREVER)
        return None  # type: ignore[return-value]  # nonsense, on purpose

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        await self.live()
        world = self.world
        # A refusal that a process did not live to write down is asked about again.
        world.refused.discard(question.call_id)
        world.stopped_by.discard(question.call_id)
        saying: Saying = world.sayings.pop(0) if world.sayings else "yes"
        match saying:
            case "yes" | "yes, in this session" | "yes, later":
                if saying == "yes, later":
                    await world.clock.sleep(2 * LATER)
                    await self.live()
                self.approved.add(question.call_id)
                if saying == "yes, in this session":
                    self.granted.add(question.tool)
                return Approve("session" if saying == "yes, in this session" else "once")
            case "not now":
                raise Suspend
            case "silence":
                world.someone_was_silent = True
                await world.clock.sleep(FOREVER)
            case _:
                world.refused.add(question.call_id)
                if saying != "no, because" and (saying != "no" or world.plan.on_denial == "skip-rest"):
                    world.stopped_by.add(question.call_id)
        match saying:
            case "yes, everywhere":
                # Not offered here: there is nowhere to keep it.
                return Approve("always")
            case "no":
                return Deny()
            case "no, because":
                return Deny("I do not like it.")
            case "an exception":
                raise RuntimeError("the dialog fails")
            case "a cancellation":
                raise CancellationError
        return True  # type: ignore[return-value]  # nonsense, on purpose

    async def on_tool_result(self, call: ToolCallPart, result: ToolResult, *, approved: bool) -> ToolResult:
        await self.live()
        ran = call.call_id in self.world.began
        self.world.expect("a result hook hears whether the call ran", approved == ran)
        reviewing = self.world.reviewings.pop(0) if self.world.reviewings else None
        match reviewing:
            case None:
                return result
            case "success":
                return ToolResult.text("as the host says")
            case "error":
                return ToolResult.error("as the host says")
            case "an exception":
                raise RuntimeError("the hook fails")
            case "silence":
                await self.world.clock.sleep(FOREVER)
        return None  # type: ignore[return-value]  # nonsense, on purpose

    # --- The tools. ---------------------------------------------------------------------------------------------------

    def tools(self) -> ToolRuntime:
        schema: JsonObject = {
            "type": "object",
            "properties": {"do": {"enum": list(DOINGS)}},
            "required": ["do"],
        }
        made = [
            RecordingTool(
                name,
                self.behave(name),
                read_only=name.startswith("look"),
                parallel=not name.endswith("alone"),
                schema=schema,
            )
            for name in TOOLS
        ]
        return toolbox(*made)

    def behave(self, name: str) -> Behaviour:
        async def behaviour(invocation: Invocation, token: CancellationToken) -> object:
            call_id = invocation.call_id
            self.begin(name, call_id, token)
            try:
                value = await self.do(str(invocation.input["do"]))
            finally:
                self.running.discard(f"{name} {call_id}")
            if not (self.dead.is_set() or self.world.over):
                self.world.ended[call_id] = str(value)
            return value

        return behaviour

    def begin(self, name: str, call_id: str, token: CancellationToken) -> None:
        if self.dead.is_set():
            raise RuntimeError("a dead process runs nothing")
        expect = self.world.expect
        may_run = name.startswith("look") or call_id in self.approved or name in self.granted
        expect("nothing runs that nobody approved", may_run)
        expect("nothing runs that a person refused", call_id not in self.world.refused)
        expect("nothing begins after a cancel", not token.cancelled() or call_id in self.noted)
        beside = {one.split()[0] for one in self.running}
        is_alone = not any(one.endswith("alone") for one in {name, *beside}) or not beside
        expect("nothing runs beside what must run alone", is_alone)
        self.running.add(f"{name} {call_id}")
        self.world.began[call_id] += 1
        self.step()

    async def do(self, doing: str) -> object:
        clock = self.world.clock
        match doing:
            case "fail":
                return ToolResult.error("it failed")
            case "raise":
                raise OSError("it failed")
            case "cancel itself":
                raise asyncio.CancelledError
            case "take its time":
                await clock.sleep(HOURS)
            case "ignore cancellation":
                until = clock.now() + 50
                while clock.now() < until:
                    try:
                        await clock.sleep(until - clock.now())
                    except asyncio.CancelledError:
                        continue
            case _:
                await clock.sleep(1)
        return "it worked"


async def tell(plan: Plan) -> None:
    """The whole story of a plan, and the judgement."""
    clock = running_clock()
    loose: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: loose.append(context))
    world = World(plan, clock)
    model = ClosedHistoryModel(model_of(plan))
    state = begin([user("Go.")])
    while True:
        process = Process(world, state)
        loop = ToolLoop(
            model,
            process.tools(),
            hooks=process,
            settings=LoopSettings(on_denial=plan.on_denial),
            clock=clock,
        )
        process.task = asyncio.create_task(loop.run(state, process.source.token))
        death = asyncio.create_task(process.dead.wait())
        await asyncio.wait({process.task, death}, return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if process.dead.is_set():
            process.task.cancel()
            await asyncio.gather(process.task, return_exceptions=True)
            state = load(dump(process.last_state))
            if state.ended not in (None, "suspended"):
                break
            continue
        state = process.last_state if process.task.cancelled() else process.task.result()
        assert state == process.last_state
        if state.ended != "suspended":
            break
        # Whoever cancelled came too late for this process, and does not know of the next.
        world.cancelled_at = None
        state = load(dump(state))
    if world.cancelled_at is not None and not world.deaths:
        patience = 0 if plan.cancel is not None and plan.cancel[1] == "the task" else GRACE
        assert clock.now() <= world.cancelled_at + patience, "a cancel ends the run at once"
    # Whoever was left behind comes to an end, and disturbs nobody.
    world.over = True
    told = [len(events) for events in world.events]
    await clock.sleep(2 * HOURS)
    assert [len(events) for events in world.events] == told
    assert loose == []
    assert model.gaps == []
    assert world.faults == []
    judge(world, state)


# --- The judgement. ---------------------------------------------------------------------------------------------------


def judge(world: World, state: RunState) -> None:
    assert gaps(state.messages) == []
    assert (state.answer, state.round) == (None, None)
    if world.cancelled_at is not None and state.ended != "cancelled":
        # Only a cancel that came with the very last step, or that the process did not live to see, goes unheeded.
        assert world.deaths or isinstance(world.events[-1][-1], Ended)
    else:
        assert (state.ended == "cancelled") == (world.cancelled_at is not None)
    if state.ended == "failed":
        assert state.error is not None
        assert state.error.kind in ("unavailable", "blocked"), "only the model fails here"
    for message in state.messages:
        denied_before = False
        for result in message.results:
            judge_result(world, state, result, denied_before=denied_before)
            denied_before = denied_before or result.outcome == "denied"
            if result.call_id in world.stopped_by and result.outcome == "denied":
                assert message is state.messages[-1], "the person wanted it to stop"
                assert state.ended in ("tool_denied", "cancelled")
    judge_events(world, state)


def judge_result(world: World, state: RunState, result: ToolResultPart, *, denied_before: bool) -> None:
    call_id = result.call_id
    began = world.began[call_id]
    if denied_before and world.plan.on_denial == "skip-rest":
        assert result.outcome in ("skipped", "interrupted")
    assert began <= 1, "nothing runs twice"
    match result.outcome:
        case "ok":
            assert began == 1
            assert call_id in world.ended or result.text == "as the host says"
        case "error" if began == 0:
            assert call_id in world.unmakeable or is_unmakeable(world, state, call_id)
        case "error":
            assert world.ended.get(call_id) != "it worked" or result.text == "as the host says"
        case "denied":
            assert began == 0
            assert call_id in world.refused
        case "skipped":
            assert began == 0
            assert denied_before
        case "timed_out":
            assert began == 0
            assert world.someone_was_silent
            assert state.ended in ("timed_out", "cancelled") or world.deaths
        case "interrupted":
            assert state.ended in ("cancelled", "failed") or world.deaths
            if result.text == INTERRUPTED_BEFORE:
                assert began == 0
            else:
                assert result.text == INTERRUPTED_DURING
                # A process may die between the note and the first line of the tool.
                assert began == 1 or call_id in world.ran_when_written_down
                # What had finished is kept, unless nobody could wait to hear of it.
                is_cut = world.deaths or (
                    world.plan.cancel is not None and world.plan.cancel[1] == "the task"
                )
                assert is_cut or call_id not in world.ended
        case None:
            raise AssertionError("every result says what became of its call")


def is_unmakeable(world: World, state: RunState, call_id: str) -> bool:
    made = next(one for message in state.messages for one in message.calls if one.call_id == call_id)
    return made.unparsed is not None or made.input.get("do") not in DOINGS


def judge_events(world: World, state: RunState) -> None:
    recorded = {result.call_id: result for message in state.messages for result in message.results}
    told = [event for events in world.events for event in events]
    finished = [event.result for event in told if isinstance(event, ToolFinished)]
    assert len({result.call_id for result in finished}) == len(finished), "a result is told once"
    for result in finished:
        assert recorded[result.call_id] == result
    if not world.deaths:
        assert {result.call_id for result in finished} == recorded.keys()
        used = [event.call.call_id for event in told if isinstance(event, ToolUsed)]
        assert used == list(recorded)
        added = [event.message for event in told if isinstance(event, MessageAdded)]
        assert added == list(state.messages[1:])
        assert shown(told) == [
            message.text for message in state.messages if message.role == "assistant" and message.text
        ]
    started = [event.call_id for event in told if isinstance(event, ToolStarted)]
    assert len(set(started)) == len(started)
    for events in world.events:
        seen: set[str] = set()
        for event in events:
            match event:
                case ToolStarted(call_id=call_id) | QuestionAsked(call_id=call_id):
                    assert call_id not in seen, "nothing starts, and nobody is asked, after the result"
                case ToolFinished(result=result):
                    seen.add(result.call_id)
                case _:
                    pass
        assert not any(isinstance(event, Ended) for event in events[:-1])


def shown(told: list[RunEvent]) -> list[str]:
    """What stands on the watcher's screen of each answer."""
    turns: list[str] = []
    for event in told:
        match event:
            case TurnStarted():
                turns.append("")
            case TextReported(text=text):
                turns[-1] += text
            case Withdrawn():
                turns[-1] = ""
            case _:
                pass
    return [turn for turn in turns if turn]


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_i2_every_call_has_exactly_one_result_in_call_order(plan: Plan) -> None:
    run(tell(plan))


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_i4_nothing_runs_that_was_refused_or_that_nobody_approved(plan: Plan) -> None:
    """The same stories with a person who mostly refuses: the tools themselves check that they may run."""
    sayings: list[Saying] = ["no, because", "yes", "an exception", "no", "nonsense", "silence", *plan.sayings]
    run(
        tell(
            Plan(
                plan.rounds,
                sayings,
                plan.rewritings,
                plan.reviewings,
                plan.on_denial,
                plan.cancel,
                plan.death,
            )
        )
    )
