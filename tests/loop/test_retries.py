"""Transient failures: tried again with patience, and nothing said, thought, shown or called twice."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from dragoman.backends.scripted import ScriptedModel, act, call, fail, reply, say
from dragoman.lm import (
    ActivityPart,
    CancellationSource,
    CancellationToken,
    DataPart,
    ErrorKind,
    GuardedModel,
    LanguageModelError,
    Message,
    ModelInfo,
    Part,
    PlanPart,
    Request,
    Response,
    Sink,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
    assistant,
    user,
)
from dragoman.lm.parts import STATEFUL_MARKER
from dragoman.loop import LoopSettings
from dragoman.loop.attempts import ModelAttempts
from dragoman.loop.events import (
    ActivityReported,
    DataReported,
    Ended,
    PlanReported,
    Retrying,
    RunEvent,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolUsed,
    UsageReported,
    Withdrawn,
)
from dragoman.loop.history import INTERRUPTED_BEFORE
from loop_kit import Person, RecordingTool, events_of, last_results, play, shown_text, toolbox
from virtual_clock import VirtualClock, run, running_clock

IMAGE = DataPart.image(b"1", "image/png")
OTHER_IMAGE = DataPart.image(b"2", "image/png")
MARKER = DataPart(STATEFUL_MARKER, b"m")


class Attempts:
    """A model whose every attempt is written out: the parts it says, and whether it fails after them."""

    def __init__(self, *written: Sequence[Part | LanguageModelError | Callable[[], object]]) -> None:
        self._left = list(written)
        self.asked = 0

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("a", "A", "a", "1", 1, 1)

    def count_tokens(self, text: str | Message) -> int:
        return 1

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self.asked += 1
        for step in self._left.pop(0):
            if isinstance(step, LanguageModelError):
                raise step
            if callable(step):
                step()
                await asyncio.sleep(0)
            else:
                sink.report(step)


def broken(kind: ErrorKind = "unavailable", retry_after: float | None = None) -> LanguageModelError:
    return LanguageModelError(kind, "The line is dead", retry_after=retry_after)


def text(value: str) -> TextPart:
    return TextPart(value)


def thought(value: str) -> ThinkingPart:
    return ThinkingPart(value)


async def ask(
    model: Attempts, clock: VirtualClock, *, retries: int = 3, token: CancellationToken | None = None
) -> tuple[Response, LanguageModelError | None, list[RunEvent]]:
    events: list[RunEvent] = []
    answer = ModelAttempts(model, settings=LoopSettings(retries=retries), clock=clock, emit=events.append)
    error = await answer.ask(Request((user("Go."),)), token or CancellationSource().token)
    return answer.response, error, events


def seen(events: Sequence[RunEvent]) -> list[object]:
    """What stands on the screen of a watcher in the end, in runs."""
    screen: list[object] = []
    for event in events:
        match event:
            case TextReported(text=more) | ThinkingReported(text=more):
                kind = type(event)
                last = screen[-1] if screen else None
                if isinstance(last, tuple) and last[0] is kind:
                    screen[-1] = (kind, last[1] + more)
                else:
                    screen.append((kind, more))
            case DataReported(part=part):
                screen.append(part)
            case Withdrawn():
                screen.clear()
            case _:
                pass
    return screen


def visible(response: Response) -> list[object]:
    """What a watcher must have seen of this response."""
    events: list[RunEvent] = []
    for part in response.parts:
        match part:
            case TextPart(value=value) if value:
                events.append(TextReported(value))
            case ThinkingPart() if part.text:
                events.append(ThinkingReported(part.text))
            case DataPart() if not part.is_internal:
                events.append(DataReported(part))
            case _:
                pass
    return seen(events)


def words(events: Sequence[RunEvent]) -> list[str]:
    """The events in short, but for `Retrying`."""
    short = {Withdrawn: "<withdrawn>", DataReported: "<data>"}
    return [
        event.text if isinstance(event, TextReported | ThinkingReported) else short[type(event)]
        for event in events
        if not isinstance(event, Retrying)
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            [[text("Hel"), broken()], [text("Hello"), text(" you")]], ["Hel", "lo", " you"], id="further"
        ),
        pytest.param([[text("Hello"), broken()], [text("He"), text("llo")]], ["Hello"], id="just as far"),
        pytest.param(
            [[text("Hello"), broken()], [text("H"), text("ello you")]], ["Hello", " you"], id="past the end"
        ),
        pytest.param(
            [[text("Hello"), broken()], [text("He"), text("y you")]],
            ["Hello", "<withdrawn>", "He", "y you"],
            id="something else",
        ),
        pytest.param([[text("Hello"), broken()], [text("Hel")]], ["Hello", "<withdrawn>", "Hel"], id="less"),
        pytest.param([[text("Hello"), broken()], []], ["Hello", "<withdrawn>"], id="nothing"),
        pytest.param(
            [[text("Hello"), broken()], [MARKER, text("Hey")]],
            ["Hello", "<withdrawn>", "Hey"],
            id="other text behind what is not shown",
        ),
        pytest.param(
            [[thought("Hm"), text("Yes"), broken()], [thought("Hm"), text("Yes!")]],
            ["Hm", "Yes", "!"],
            id="thinking too",
        ),
        pytest.param(
            [[thought("Hm"), text("Yes"), broken()], [thought("Hmm"), text("Yes")]],
            ["Hm", "Yes", "<withdrawn>", "Hmm", "Yes"],
            id="more thinking where there was text",
        ),
        pytest.param(
            [[thought("Hm"), broken()], [text("Hm")]],
            ["Hm", "<withdrawn>", "Hm"],
            id="text where there was thinking",
        ),
        pytest.param([[IMAGE, broken()], [IMAGE, text("This.")]], ["<data>", "This."], id="data once"),
        pytest.param(
            [[text("A"), IMAGE, broken()], [text("A"), OTHER_IMAGE]],
            ["A", "<data>", "<withdrawn>", "A", "<data>"],
            id="other data",
        ),
        pytest.param(
            [[text("AB"), broken()], [text("A"), IMAGE, text("B")]],
            ["AB", "<withdrawn>", "A", "<data>", "B"],
            id="data in between",
        ),
        pytest.param(
            [[text("A"), MARKER, broken()], [MARKER, text(""), text("AB")]],
            ["A", "B"],
            id="what nobody sees does not count",
        ),
        pytest.param(
            [[text("Hello"), broken()], [text("He"), broken()], [text("Hello you")]],
            ["Hello", " you"],
            id="three attempts",
        ),
        pytest.param(
            [[text("Hello"), broken()], [text("Hey"), broken()], [text("Hello")]],
            ["Hello", "<withdrawn>", "Hey", "<withdrawn>", "Hello"],
            id="three that differ",
        ),
    ],
)
async def test_p21_what_was_shown_is_not_shown_again(
    clock: VirtualClock, written: list[list[Part | LanguageModelError]], expected: list[str]
) -> None:
    response, error, events = await ask(Attempts(*written), clock)
    assert error is None
    assert words(events) == expected
    assert seen(events) == visible(response)


_parts = st.one_of(
    st.builds(text, st.sampled_from(["", "a", "b", "ab", "aa"])),
    st.builds(thought, st.sampled_from(["", "a", "ab"])),
    st.sampled_from([IMAGE, MARKER]),
)


@hypothesis_settings(deadline=None)
@given(
    st.lists(st.lists(_parts, max_size=4), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 3),
)
def test_p21_whatever_the_attempts_say_what_is_shown_in_the_end_is_what_is_recorded(
    written: list[list[Part]],
    last_fails: bool,  # noqa: FBT001 - drawn, not called
    retries: int,
) -> None:
    async def scenario() -> None:
        steps: list[list[Part | LanguageModelError | Callable[[], object]]] = [
            [*said, broken()] for said in written
        ]
        if not last_fails:
            steps[-1].pop()
        model = Attempts(*steps, *([[broken()]] * 4))
        response, error, events = await ask(model, running_clock(), retries=retries)
        assert (error is None) == (not last_fails and retries >= len(written) - 1)
        assert seen(events) == visible(response)

    run(scenario())


async def test_p21_a_failure_after_half_a_stream_doubles_no_text_and_no_call(clock: VirtualClock) -> None:
    write, person = RecordingTool("write"), Person()
    model = ScriptedModel.of(
        reply("Let me write. ", call("write"), fail("unavailable", times=1), say("Now.")), "Done."
    )
    state = await play(model, toolbox(write), person, clock=clock)

    assert shown_text(person) == "Let me write. Now.Done."
    assert state.messages[1].text == "Let me write. Now."
    assert len(state.messages[1].calls) == 1
    assert len(events_of(person, ToolUsed)) == 1
    assert len(write.began) == 1
    assert len(model.requests) == 3
    assert events_of(person, Withdrawn) == []
    assert state.ended == "completed"


async def test_p21_the_wait_doubles_with_a_little_chance(clock: VirtualClock) -> None:
    person, model = Person(), ScriptedModel.of(reply(fail("timeout", "Too slow", times=3), "At last."))
    state = await play(model, toolbox(), person, clock=clock)
    retrying = events_of(person, Retrying)
    assert [event.attempt for event in retrying] == [1, 2, 3]
    assert {event.error for event in retrying} == {"Too slow."}
    for event, seconds in zip(retrying, [1, 2, 4], strict=True):
        assert seconds * 0.8 <= event.delay <= seconds * 1.2
    assert clock.now() == sum(event.delay for event in retrying)
    assert state.messages[-1].text == "At last."


async def test_p21_the_wait_has_a_most(clock: VirtualClock) -> None:
    model = Attempts(*[[broken()]] * 9)
    _, error, events = await ask(model, clock, retries=8)
    delays = [event.delay for event in events if isinstance(event, Retrying)]
    assert error is not None
    assert len(delays) == 8
    assert max(delays) <= 16 == delays[-1]


@pytest.mark.parametrize("wish", [0.0, 5.0, 16.0])
async def test_p21_the_wish_of_the_server_is_honoured(clock: VirtualClock, wish: float) -> None:
    _, error, _ = await ask(Attempts([broken(retry_after=wish)], [text("Hello")]), clock)
    assert (error, clock.now()) == (None, wish)


async def test_p21_a_server_that_wants_a_longer_pause_is_not_asked_sooner(clock: VirtualClock) -> None:
    model = Attempts([broken(retry_after=60.0)], [text("Hello")])
    _, error, _ = await ask(model, clock)
    assert error is not None
    assert (error.retry_after, model.asked, clock.now()) == (60.0, 1, 0)


@pytest.mark.parametrize(
    "kind",
    ["not_found", "no_permissions", "blocked", "bad_request", "agent_failed", "auth_required", "internal"],
)
async def test_p21_what_will_not_be_better_next_time_is_not_tried_again(
    clock: VirtualClock, kind: ErrorKind
) -> None:
    model, failure = Attempts([text("Half"), broken(kind)]), None
    response, failure, events = await ask(model, clock)
    assert failure is not None
    assert failure.kind == kind
    assert model.asked == 1
    assert words(events) == ["Half"]
    assert response.text == "Half"
    assert clock.now() == 0


async def test_p21_when_retries_are_used_up_the_run_fails_with_what_was_said(clock: VirtualClock) -> None:
    person = Person()
    model = ScriptedModel.of(reply("Half an ", "answer", fail("unavailable", "Overloaded", hint="Wait.")))
    state = await play(model, toolbox(), person, clock=clock, settings=LoopSettings(retries=2))

    assert state.ended == "failed"
    assert len(model.requests) == 3
    assert state.error is not None
    assert (state.error.kind, state.error.message, state.error.hint) == ("unavailable", "Overloaded", "Wait.")
    assert state.messages == (user("Go."), assistant("Half an answer"))
    assert shown_text(person) == "Half an answer"
    assert events_of(person, Ended) == [Ended("failed", "Overloaded", "Wait.")]


async def test_p21_the_calls_of_an_answer_that_failed_are_not_made(clock: VirtualClock) -> None:
    write, person = RecordingTool("write", read_only=True), Person()
    model = ScriptedModel.of(reply("I will.", call("write"), call("write"), fail("agent_failed")))
    state = await play(model, toolbox(write), person, clock=clock)

    assert state.ended == "failed"
    assert write.began == []
    assert [result.text for result in last_results(state)] == [INTERRUPTED_BEFORE] * 2
    assert state.messages[1].text == "I will."
    assert len(events_of(person, ToolFinished)) == 2
    assert person.reviewed == []


async def test_p21_when_the_last_attempt_fell_short_what_was_shown_is_kept(clock: VirtualClock) -> None:
    made = ToolCallPart("dg_1", "write", {})
    model = Attempts([text("Hello "), text("you"), made, broken()], [text("Hel"), broken()])
    response, error, events = await ask(model, clock, retries=1)
    assert error is not None
    assert response.text == "Hello you"
    assert response.calls == (made,)
    assert words(events) == ["Hello ", "you"]


async def test_p21_a_cancel_interrupts_the_wait_and_keeps_what_was_said(clock: VirtualClock) -> None:
    source = CancellationSource()
    person = Person(on_event=lambda event: source.cancel() if isinstance(event, Retrying) else None)
    model = ScriptedModel.of(reply("Half", fail("unavailable", retry_after=10)))
    state = await play(model, toolbox(), person, clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert state.error is None
    assert state.messages[-1].text == "Half"
    assert clock.now() == 0
    assert len(model.requests) == 1


async def test_p21_a_cancel_in_the_middle_of_the_wait_ends_it_there(clock: VirtualClock) -> None:
    source = CancellationSource()
    model = ScriptedModel.of(reply(fail("unavailable", retry_after=10)))

    async def cancel_later() -> None:
        await clock.sleep(4)
        source.cancel()

    later = asyncio.create_task(cancel_later())
    state = await play(model, toolbox(), Person(), clock=clock, token=source.token)
    assert state.ended == "cancelled"
    assert clock.now() == 4
    await later


async def test_p21_a_cancel_while_a_new_attempt_is_behind_keeps_what_was_shown(clock: VirtualClock) -> None:
    source = CancellationSource()
    model = Attempts([text("Hello you"), broken()], [text("Hel"), source.cancel, text("lo")])
    response, error, events = await ask(model, clock, token=source.token)
    assert error is None
    assert response.text == "Hello you"
    assert words(events) == ["Hello you"]


def _give_up() -> None:
    raise asyncio.CancelledError


async def test_a_model_that_cancels_itself_fails_the_run_and_does_not_cancel_it(clock: VirtualClock) -> None:
    person, model = Person(), ScriptedModel.of(reply("Half", act(_give_up)))
    state = await play(model, toolbox(), person, clock=clock)
    assert state.ended == "failed"
    assert state.messages[-1].text == "Half"
    assert model.requests


async def test_a_model_that_cancels_itself_behind_no_guard_fails_too(clock: VirtualClock) -> None:
    response, error, _ = await ask(Attempts([text("Half"), _give_up]), clock)
    assert error is not None
    assert error.kind == "internal"
    assert response.text == "Half"


async def test_the_error_of_a_model_that_simply_raises_is_told(clock: VirtualClock) -> None:
    def crash() -> None:
        raise ZeroDivisionError("division by zero")

    state = await play(ScriptedModel.of(reply(act(crash))), toolbox(), Person(), clock=clock)
    assert state.ended == "failed"
    assert state.error is not None
    assert "ZeroDivisionError" in state.error.message


async def test_a_guarded_model_is_not_guarded_twice(clock: VirtualClock) -> None:
    state = await play(GuardedModel(ScriptedModel.of("Hello.")), toolbox(), Person(), clock=clock)
    assert state.messages[-1].text == "Hello."


async def test_activities_plans_and_usage_are_told_at_once_whatever_attempt_they_belong_to(
    clock: VirtualClock,
) -> None:
    begun = ActivityPart("a", "Run", "execute", "in_progress")
    ended = ActivityPart("a", "Run", "execute", "completed")
    plan, usage = PlanPart(()), UsagePart(1)
    model = Attempts(
        [text("One."), begun, plan, broken()],
        [begun, text("One."), ended, text(" Two."), usage],
    )
    response, error, events = await ask(model, clock)
    assert error is None
    # No word was withdrawn for the sake of a step.
    assert [event for event in events if not isinstance(event, Retrying)] == [
        TextReported("One."),
        ActivityReported(begun),
        PlanReported(plan),
        ActivityReported(begun),
        ActivityReported(ended),
        TextReported(" Two."),
        UsageReported(usage),
    ]
    assert response.message() == assistant(ended, "One. Two.", usage)
