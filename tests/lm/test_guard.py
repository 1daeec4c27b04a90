"""The guard keeps the stream rules, whatever the model inside it does."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityPart,
    CancellationError,
    CancellationSource,
    CancellationToken,
    DataPart,
    Features,
    GuardedModel,
    LanguageModelError,
    Message,
    Part,
    PlanEntry,
    PlanPart,
    ProgressPart,
    Request,
    Response,
    RuleBroken,
    Sink,
    Style,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    UsagePart,
    assistant,
    estimate_tokens,
    user,
)
from dragoman.lm.guard import EMPTY_ANSWER
from dragoman.lm.model import ResponseTaken
from dragoman.lm.parts import CACHE_CONTROL, CONVERSATION, STATEFUL_MARKER, UNKNOWN_PART, USAGE
from dragoman.lm.presentation import Reasoning, ReasoningFallback
from lm.providers import Provider, ask, plays, respond, within_deadline

CALL = ToolCallPart("dg_1", "read_file", {"path": "x"})
MARKER = DataPart(STATEFUL_MARKER, b"test\\abc")
IMAGE = DataPart("image/png", b"\x89PNG")


class Cancelling(Response):
    """A consumer that cancels while it takes a part."""

    def __init__(self, at: Callable[[Part], bool]) -> None:
        super().__init__()
        self._source = CancellationSource()
        self._at = at

    @property
    def token(self) -> CancellationToken:
        return self._source.token

    def report(self, part: Part) -> None:
        super().report(part)
        if self._at(part):
            self._source.cancel()


async def _fails(model: Provider, request: Request | None = None) -> LanguageModelError:
    with pytest.raises(LanguageModelError) as caught:
        await respond(GuardedModel(model), request or ask())
    return caught.value


# --- S1


def _parts(*, thinking: bool = True) -> st.SearchStrategy[list[Part]]:
    kinds: list[st.SearchStrategy[Part]] = [
        st.builds(TextPart, st.text(max_size=8)),
        st.builds(
            DataPart,
            st.sampled_from([STATEFUL_MARKER, USAGE, "image/png", "text/csv"]),
            st.binary(max_size=4),
        ),
        st.builds(
            lambda name: ToolCallPart("", name, {"a": [1]}), st.sampled_from(["read_file", "list_files"])
        ),
    ]
    if thinking:
        kinds.append(
            st.builds(
                ThinkingPart, st.text(max_size=8) | st.lists(st.text(max_size=3), max_size=3).map(tuple)
            )
        )

    def numbered(parts: list[Part]) -> list[Part]:
        return [
            ToolCallPart(f"dg_{index}", part.name, part.input) if isinstance(part, ToolCallPart) else part
            for index, part in enumerate(parts)
        ]

    return st.lists(st.one_of(kinds), max_size=12).map(numbered)


def _without_ours(parts: list[Part]) -> list[Part]:
    """What the model said, without the lines that the guard adds beside data and for an empty answer."""
    return [
        part
        for part in parts
        if not (
            isinstance(part, TextPart)
            and part.value.startswith(("\n\n*Image: ", "\n\n*Data: ", EMPTY_ANSWER))
        )
    ]


@given(_parts())
def test_s1_parts_arrive_in_the_order_they_were_reported(parts: list[Part]) -> None:
    got = asyncio.run(respond(GuardedModel(plays(*parts)), ask()))
    assert _without_ours(got) == parts


@given(_parts(), st.sampled_from(["text", "hide"]), st.booleans())
def test_s1_order_holds_for_a_consumer_that_takes_little(
    parts: list[Part],
    fallback: ReasoningFallback,
    data: bool,  # noqa: FBT001 - drawn
) -> None:
    features = Features(data=data)
    model = GuardedModel(plays(*parts), Style(reasoning_fallback=fallback))
    got = asyncio.run(respond(model, ask(features=features)))
    assert not any(isinstance(part, ThinkingPart) for part in got)
    expected: list[str] = []
    for part in parts:
        match part:
            case TextPart(value=value):
                expected.append(value)
            case ThinkingPart() if fallback == "text":
                expected.append(part.text)
            case ToolCallPart(call_id=call_id):
                expected.append(call_id)
            case DataPart(data=content) if data or part.mime_type == STATEFUL_MARKER:
                expected.append(content.hex())
            case _:
                pass
    received = [
        part.value
        if isinstance(part, TextPart)
        else part.call_id
        if isinstance(part, ToolCallPart)
        else part.data.hex()
        for part in _without_ours(got)
        if isinstance(part, TextPart | ToolCallPart | DataPart) and part != TextPart("\n\n")
    ]
    if TextPart("\n\n") not in parts and ThinkingPart("\n\n") not in parts:
        assert "".join(received) == "".join(expected)


async def test_s1_a_part_reported_after_the_end_reaches_nobody(caplog: pytest.LogCaptureFixture) -> None:
    late: list[asyncio.Task[None]] = []
    gate = asyncio.Event()

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        async def leftover() -> None:
            await gate.wait()
            sink.report(TextPart("late"))
            sink.report(ToolResultPart("dg_1"))

        sink.report(TextPart("in time"))
        late.append(asyncio.ensure_future(leftover()))

    response = Response()
    await respond(GuardedModel(Provider(body)), ask(), sink=response)
    with caplog.at_level(logging.ERROR):
        gate.set()
        await within_deadline(late[0])
    assert response.parts == [TextPart("in time")]
    assert "S1 (order kept): a part was reported after the response had ended" in caplog.text


async def test_s1_a_part_from_another_thread_is_refused() -> None:
    refused: list[BaseException] = []

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        def report() -> None:
            try:
                sink.report(TextPart("elsewhere"))
            except RuleBroken as error:
                refused.append(error)

        thread = threading.Thread(target=report)
        thread.start()
        thread.join(timeout=10)

    error = await _fails(Provider(body))
    assert isinstance(error, RuleBroken)
    assert error.violation.rule.id == "S1"
    assert refused == [error]


# --- S2, S3, S4, S5, S7, S11: a part that breaks a rule


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("S2", "not a part"),
        ("S2", {"type": "text", "value": "x"}),
        ("S3", ToolResultPart("dg_1", (TextPart("x"),))),
        ("S4.legal", ToolCallPart("dg 1", "read_file", {})),
        ("S4.unique", ToolCallPart("dg_old", "read_file", {})),
        ("S4.namespaced", ToolCallPart("call_1", "read_file", {})),
        ("S5", ToolCallPart("dg_1", "rm", {})),
        ("S7", ToolCallPart("dg_1", "read_file", {}, unparsed="{oops")),
        ("S11", DataPart("", b"x")),
    ],
)
class TestS2S3S4S5S7S11BrokenParts:
    history = (user("x"), assistant(ToolCallPart("dg_old", "read_file", {})), user(ToolResultPart("dg_old")))

    async def test_alone_it_rejects_naming_the_rule(self, rule: str, part: object) -> None:
        error = await _fails(plays(part), ask(*self.history))
        assert isinstance(error, RuleBroken)
        assert error.kind == "internal"
        assert error.violation.rule.id == rule
        assert error.violation.part is part
        assert f"stream rule {rule} " in error.message
        assert error.hint is not None
        assert "dragoman check" in error.hint

    async def test_after_text_it_is_told_as_text_and_not_emitted(self, rule: str, part: object) -> None:
        got = await respond(
            GuardedModel(plays(TextPart("so far"), part, TextPart("never"))), ask(*self.history)
        )
        assert len(got) == 2
        assert got[0] == TextPart("so far")
        assert isinstance(got[1], TextPart)
        assert got[1].value.startswith(f"\n\n**Error:** The model broke stream rule {rule} ")

    async def test_a_provider_that_goes_on_gets_nowhere(self, rule: str, part: object) -> None:
        refused: list[RuleBroken] = []

        async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
            for reported in (TextPart("so far"), part, TextPart("more"), CALL, part):
                try:
                    sink.report(reported)  # type: ignore[arg-type]  # the point
                except RuleBroken as error:
                    refused.append(error)

        got = await respond(GuardedModel(Provider(body)), ask(*self.history))
        assert [isinstance(one, TextPart) for one in got] == [True, True]
        assert len(refused) == 4
        assert {error.violation.rule.id for error in refused} == {rule}

    async def test_the_rule_is_the_cause_whatever_the_provider_makes_of_it(
        self, rule: str, part: object
    ) -> None:
        async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
            try:
                sink.report(part)  # type: ignore[arg-type]  # the point
            except RuleBroken as error:
                raise ValueError("something else") from error

        error = await _fails(Provider(body), ask(*self.history))
        assert isinstance(error, RuleBroken)
        assert error.violation.rule.id == rule


async def test_s4_the_same_id_twice_in_a_response_is_refused() -> None:
    got = await respond(GuardedModel(plays(CALL, CALL)), ask())
    assert got[0] == CALL
    assert isinstance(got[1], TextPart)
    assert "S4.unique" in got[1].value
    assert len(got) == 2


async def test_s7_unreadable_arguments_pass_to_a_consumer_that_asks_for_them() -> None:
    call = ToolCallPart("dg_1", "read_file", {}, "{oops")
    assert await respond(GuardedModel(plays(call)), ask(features=Features(unparsed_calls=True))) == [call]


async def test_several_calls_and_text_after_them_pass() -> None:
    parts = [
        CALL,
        ToolCallPart("dg_2", "list_files", {}),
        TextPart("and"),
        ToolCallPart("dg_3", "read_file", {}),
    ]
    assert await respond(GuardedModel(plays(*parts)), ask()) == parts


# --- the ordinary end


async def test_parts_of_all_kinds_then_the_end() -> None:
    parts = [MARKER, ThinkingPart("hm"), TextPart("Let me look."), CALL, TextPart("So.")]
    assert await respond(GuardedModel(plays(*parts)), ask()) == parts


async def test_s1_each_piece_passes_at_once() -> None:
    seen: list[list[Part]] = []
    response = Response()

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        for piece in ("H", "ello", ", ", "wor", "ld [a](comma", "nds.md)"):
            sink.report(TextPart(piece))
            seen.append(list(response.parts))

    await respond(GuardedModel(Provider(body)), ask(), sink=response)
    assert [len(parts) for parts in seen] == [1, 2, 3, 4, 5, 6]
    assert response.text == "Hello, world [a](commands.md)"


async def test_drain_waits_for_the_consumer() -> None:
    drained: list[str] = []

    class Slow(Response):
        async def drain(self) -> None:
            drained.append("consumer")

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        sink.report(TextPart("x"))
        await sink.drain()
        drained.append("provider")

    await respond(GuardedModel(Provider(body)), ask(), sink=Slow())
    assert drained == ["consumer", "provider"]


def test_a_guarded_model_is_the_model_it_guards() -> None:
    model = plays()
    guarded = GuardedModel(model)
    assert guarded.info is model.info
    assert guarded.count_tokens("some text") == estimate_tokens("some text")
    assert GuardedModel(guarded).info is model.info


async def test_a_guarded_model_is_closed_with_what_it_guards() -> None:
    closed: list[int] = []

    class Closable(Provider):
        async def close(self) -> None:
            closed.append(1)

    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        """Says nothing."""

    await GuardedModel(GuardedModel(Closable(body))).close()
    assert closed == [1]
    await GuardedModel(plays()).close()


async def test_a_guarded_model_makes_its_context_shorter_if_it_can() -> None:
    class Short(Provider):
        async def compacted(self, _messages: Sequence[Message]) -> tuple[Message, ...]:
            return (user("in short"),)

    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        """Says nothing."""

    assert await GuardedModel(Short(body)).compacted((user("long"),)) == (user("in short"),)
    with pytest.raises(LanguageModelError, match="cannot make its context shorter"):
        await GuardedModel(plays()).compacted((user("long"),))


async def test_a_guard_around_a_guard_changes_nothing() -> None:
    features = Features()
    parts = [ThinkingPart("hm"), TextPart("[x](command:y)"), IMAGE, CALL]
    once = await respond(GuardedModel(plays(*parts)), ask(features=features))
    twice = await respond(GuardedModel(GuardedModel(plays(*parts))), ask(features=features))
    assert once == twice


# --- S6


async def test_s6_nothing_passes_once_cancelled() -> None:
    """Nor does the model get an error: it may not have noticed the cancellation yet."""
    source = CancellationSource()
    went_on: list[bool] = []

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        sink.report(TextPart("before"))
        source.cancel()
        sink.report(TextPart("after"))
        sink.report(CALL)
        sink.report(ToolResultPart("dg_1"))
        went_on.append(True)

    assert await respond(GuardedModel(Provider(body)), ask(), source.token) == [TextPart("before")]
    assert went_on


@pytest.mark.parametrize(
    "failure",
    [
        LanguageModelError("unavailable", "gone"),
        CancellationError(),
        ValueError("anything"),
        asyncio.CancelledError(),
        None,
    ],
)
@pytest.mark.parametrize("said", [(), (TextPart("before"),), (TextPart(" "),), (MARKER,)])
async def test_s6_a_cancelled_response_resolves_however_the_model_ends(
    failure: BaseException | None, said: tuple[Part, ...]
) -> None:
    source = CancellationSource()

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        for part in said:
            sink.report(part)
        source.cancel()
        if failure is not None:
            raise failure

    assert await respond(GuardedModel(Provider(body)), ask(), source.token) == list(said)


async def test_s6_a_rule_broken_before_the_cancellation_is_not_told_after_it() -> None:
    source = CancellationSource()

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        sink.report(TextPart("before"))
        try:
            sink.report(ToolResultPart("dg_1"))
        finally:
            source.cancel()

    assert await respond(GuardedModel(Provider(body)), ask(), source.token) == [TextPart("before")]


async def test_s6_a_model_is_not_asked_at_all_once_cancelled() -> None:
    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        asked.append(1)

    asked: list[int] = []
    source = CancellationSource()
    source.cancel()
    assert await respond(GuardedModel(Provider(body)), ask(), source.token) == []
    assert asked == []


@pytest.mark.parametrize("features", [Features(thinking=True, data=True), Features()])
@pytest.mark.parametrize("after", range(1, 6))
async def test_s6_nothing_follows_a_cancel_in_the_middle_of_a_part(after: int, features: Features) -> None:
    """Also not the visible line of the very data part that is being taken."""
    count = 0

    def at(_part: Part) -> bool:
        nonlocal count
        count += 1
        return count == after

    consumer = Cancelling(at)
    parts = [ThinkingPart("hm"), TextPart("a"), IMAGE, IMAGE, TextPart("b")]
    await respond(GuardedModel(plays(*parts)), ask(features=features), consumer.token, consumer)
    assert len(consumer.parts) == after


async def test_s6_a_cancel_during_the_last_part_leaves_no_empty_answer() -> None:
    consumer = Cancelling(lambda part: part == MARKER)
    await respond(GuardedModel(plays(MARKER)), ask(), consumer.token, consumer)
    assert consumer.parts == [MARKER]


async def test_s6_the_callers_own_cancellation_goes_on_upwards() -> None:
    began = asyncio.Event()

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        sink.report(TextPart("x"))
        began.set()
        await asyncio.Event().wait()

    response = Response()
    task = asyncio.ensure_future(GuardedModel(Provider(body)).respond(ask(), response, CancellationToken()))
    await within_deadline(began.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_deadline(task)
    assert response.parts == [TextPart("x")]


# --- S8

_FAILURES = [
    (
        LanguageModelError("unavailable", "The server is away", hint="Try later."),
        "The server is away. Try later.",
    ),
    (ValueError("odd <b>"), "The model failed: ValueError: odd <b>."),
    (KeyError("k"), "The model failed: KeyError: 'k'."),
    (CancellationError("rejected"), "The model gave up: this tool call was rejected."),
    (asyncio.CancelledError(), "The model cancelled itself."),
    (TimeoutError(), "The model failed: TimeoutError: ."),
]


@pytest.mark.parametrize(("failure", "sentence"), _FAILURES)
async def test_s8_a_failure_before_any_part_rejects(failure: BaseException, sentence: str) -> None:
    error = await _fails(plays(then=failure))
    assert error.sentence == sentence


@pytest.mark.parametrize(("failure", "sentence"), _FAILURES)
@pytest.mark.parametrize(
    "said", [[TextPart("so far")], [CALL], [ThinkingPart("hm")], [IMAGE], [TextPart(" ")]]
)
async def test_s8_a_failure_after_parts_keeps_them_and_is_told_as_text(
    failure: BaseException, sentence: str, said: list[Part]
) -> None:
    got = await respond(GuardedModel(plays(*said, then=failure)), ask())
    assert _without_ours(got)[:-1] == said
    assert isinstance(got[-1], TextPart)
    assert got[-1].value.startswith("\n\n**Error:** ")
    assert got[-1].value.endswith("\n\n")
    assert got[-1].value.replace("\\", "") == f"\n\n**Error:** {sentence}\n\n"


@pytest.mark.parametrize("said", [[TextPart("so far")], [CALL], [MARKER], []])
async def test_s8_a_consumer_that_keeps_parts_of_failures_gets_them_and_the_error(said: list[Part]) -> None:
    response = Response()
    request = ask(features=Features(data=True, keeps_parts_of_failures=True))
    failure = LanguageModelError("unavailable", "gone")
    with pytest.raises(LanguageModelError) as caught:
        await respond(GuardedModel(plays(*said, then=failure)), request, sink=response)
    assert caught.value is failure
    assert response.parts == said


@pytest.mark.parametrize("mime_type", [STATEFUL_MARKER, USAGE, CACHE_CONTROL, UNKNOWN_PART])
async def test_s8_a_marker_is_nothing_anybody_would_miss(mime_type: str) -> None:
    assert (await _fails(plays(DataPart(mime_type, b"x"), then=ValueError("v")))).kind == "internal"


async def test_s8_hidden_thinking_is_nothing_the_consumer_has() -> None:
    model = GuardedModel(plays(ThinkingPart("hm"), then=ValueError("v")), Style(reasoning="hide"))
    with pytest.raises(LanguageModelError):
        await respond(model, ask())


async def test_s8_the_cause_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    failure = ValueError("v")
    with caplog.at_level(logging.WARNING):
        error = await _fails(plays(then=failure))
        assert error.__cause__ is failure
        assert "model test failed" in caplog.text
        caplog.clear()
        await respond(GuardedModel(plays(TextPart("x"), then=LanguageModelError("timeout", "slow"))), ask())
        assert "model test failed in mid-response: slow." in caplog.text


async def test_s8_what_is_not_an_error_of_the_models_is_not_touched() -> None:
    with pytest.raises(KeyboardInterrupt):
        await respond(GuardedModel(plays(TextPart("x"), then=KeyboardInterrupt())), ask())


# --- S9


@pytest.mark.parametrize("features", [Features(), Features(thinking=True, data=True)])
@pytest.mark.parametrize(
    "said",
    [
        [],
        [TextPart("")],
        [TextPart(" \n"), TextPart("\t")],
        [TextPart("\u200b")],
        [MARKER],
        [DataPart(USAGE, b"{}")],
    ],
)
async def test_s9_an_empty_answer_is_made_visible(said: list[Part], features: Features) -> None:
    got = await respond(GuardedModel(plays(*said)), ask(features=features))
    assert got[-1] == TextPart(EMPTY_ANSWER)
    assert got.count(TextPart(EMPTY_ANSWER)) == 1
    assert [part for part in got if isinstance(part, TextPart)][:-1] == [
        part for part in said if isinstance(part, TextPart)
    ]


async def test_s9_thinking_alone_is_an_empty_answer_where_it_is_thinking() -> None:
    got = await respond(GuardedModel(plays(ThinkingPart("hm"))), ask())
    assert got == [ThinkingPart("hm"), TextPart(EMPTY_ANSWER)]


async def test_s9_hidden_thinking_alone_is_an_empty_answer() -> None:
    model = GuardedModel(plays(ThinkingPart("hm")), Style(reasoning_fallback="hide"))
    assert await respond(model, ask(features=Features())) == [TextPart(EMPTY_ANSWER)]


async def test_s9_thinking_shown_as_text_is_visible() -> None:
    assert await respond(GuardedModel(plays(ThinkingPart("hm"))), ask(features=Features())) == [
        TextPart("hm")
    ]


@pytest.mark.parametrize("features", [Features(), Features(data=True)])
async def test_s9_data_alone_is_visible_by_its_line(features: Features) -> None:
    got = await respond(GuardedModel(plays(IMAGE)), ask(features=features))
    assert got[-1] == TextPart("\n\n*Image: image/png, 4 bytes*\n\n")


@pytest.mark.parametrize("said", [[TextPart("x")], [CALL], [TextPart(" "), CALL]])
async def test_s9_an_answer_that_is_visible_gets_nothing_added(said: list[Part]) -> None:
    assert await respond(GuardedModel(plays(*said)), ask()) == said


# --- S10

_AS_THINKING: list[Part] = [ThinkingPart("why", "t", {"s": 1}), TextPart("because")]
_AS_TEXT: list[Part] = [TextPart("why"), TextPart("\n\n"), TextPart("because")]
_HIDDEN: list[Part] = [TextPart("because")]


@pytest.mark.parametrize(
    ("reasoning", "fallback", "has_thinking", "expected"),
    [
        ("thinking", "text", True, _AS_THINKING),
        ("thinking", "hide", True, _AS_THINKING),
        ("thinking", "text", False, _AS_TEXT),
        ("thinking", "hide", False, _HIDDEN),
        ("text", "text", True, _AS_TEXT),
        ("text", "hide", True, _AS_TEXT),
        ("text", "text", False, _AS_TEXT),
        ("text", "hide", False, _AS_TEXT),
        ("hide", "text", True, _HIDDEN),
        ("hide", "hide", True, _HIDDEN),
        ("hide", "text", False, _HIDDEN),
        ("hide", "hide", False, _HIDDEN),
    ],
)
async def test_s10_thinking_is_shown_as_the_features_and_the_configuration_say(
    reasoning: Reasoning,
    fallback: ReasoningFallback,
    has_thinking: bool,  # noqa: FBT001 - a table
    expected: list[Part],
) -> None:
    model = GuardedModel(plays(*_AS_THINKING), Style(reasoning, fallback))
    assert await respond(model, ask(features=Features(thinking=has_thinking))) == expected


async def test_s10_thinking_shown_as_text_is_set_apart_on_both_sides() -> None:
    parts = [
        TextPart("One."),
        ThinkingPart("hm "),
        ThinkingPart(("hm", "")),
        ThinkingPart(""),
        TextPart(""),
        CALL,
        TextPart("Two."),
        TextPart(" Three."),
        IMAGE,
        ThinkingPart("so"),
    ]
    got = await respond(GuardedModel(plays(*parts)), ask(features=Features()))
    text = "".join(part.value for part in got if isinstance(part, TextPart))
    assert text == "One.\n\nhm hm\n\nTwo. Three.\n\n*Image: image/png, 4 bytes*\n\nso"


# --- S11


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (DataPart("image/png", b"\x00" * 1234), "Image: image/png, 1,234 bytes"),
        (DataPart("application/json", b"{}"), "Data: application/json, 2 bytes"),
        (DataPart("text/x_y*z", b""), "Data: text/x_y\\*z, 0 bytes"),
        (DataPart("[a](command:x)", b""), "Data: \\[a\\](command\\:x), 0 bytes"),
    ],
)
async def test_s11_data_keeps_its_type_and_bytes_and_gets_a_visible_line(part: DataPart, line: str) -> None:
    visible = TextPart(f"\n\n*{line}*\n\n")
    model = GuardedModel(plays(TextPart("a"), part, TextPart("b")))
    assert await respond(model, ask()) == [TextPart("a"), part, visible, TextPart("b")]
    assert await respond(model, ask(features=Features(data=False))) == [TextPart("a"), visible, TextPart("b")]


async def test_s11_a_marker_reaches_every_consumer_and_has_no_line() -> None:
    for features in (Features(), Features(data=True)):
        assert await respond(GuardedModel(plays(MARKER, TextPart("x"))), ask(features=features)) == [
            MARKER,
            TextPart("x"),
        ]


async def test_s11_other_internal_data_reaches_only_consumers_of_data() -> None:
    usage = DataPart(USAGE, b"{}")
    assert await respond(GuardedModel(plays(TextPart("x"), usage)), ask()) == [TextPart("x"), usage]
    assert await respond(GuardedModel(plays(TextPart("x"), usage)), ask(features=Features())) == [
        TextPart("x")
    ]


async def test_s11_which_conversation_it_is_reaches_only_consumers_that_report_it() -> None:
    received = DataPart(CONVERSATION, b"{}")
    model = GuardedModel(plays(received, TextPart("x")))
    assert await respond(model, ask(features=Features(reports=True))) == [received, TextPart("x")]
    assert await respond(model, ask(features=Features(data=True))) == [TextPart("x")]


# --- S12


async def test_s12_a_broken_rule_is_named_in_what_the_user_sees() -> None:
    (_, received) = await respond(GuardedModel(plays(TextPart("x"), ToolResultPart("dg_1"))), ask())
    assert isinstance(received, TextPart)
    assert "S3 (no tool results)" in received.value


# --- S13


async def test_s13_links_that_act_are_inert_over_pieces_and_calls() -> None:
    parts = [TextPart("[a](comm"), CALL, TextPart("and:x) [b](https://ok.test)")]
    assert await respond(GuardedModel(plays(*parts)), ask()) == [
        TextPart("[a](comm"),
        CALL,
        TextPart("and-inert:x) [b](https://ok.test)"),
    ]


async def test_s13_links_that_act_are_inert_in_thinking_too() -> None:
    harmless = ThinkingPart(("a", "[b](https://ok.test)"), "t", {"s": 1})
    parts = [ThinkingPart("[a](comm", "t"), ThinkingPart(("and", ":x)"), "t", {"s": 1}), harmless]
    got = await respond(GuardedModel(plays(*parts, TextPart("x"))), ask())
    assert got == [
        ThinkingPart("[a](comm", "t"),
        ThinkingPart("and-inert:x)", "t", {"s": 1}),
        harmless,
        TextPart("x"),
    ]


async def test_s13_links_that_act_are_inert_in_thinking_shown_as_text() -> None:
    got = await respond(GuardedModel(plays(ThinkingPart("<command:x>"))), ask(features=Features()))
    assert got == [TextPart("<command-inert:x>")]


async def test_s13_an_error_of_the_models_cannot_make_a_link() -> None:
    failure = LanguageModelError("internal", "[press](command:x) <b> http://e.test")
    (_, received) = await respond(GuardedModel(plays(TextPart("x"), then=failure)), ask())
    assert received == TextPart("\n\n**Error:** \\[press\\](command\\:x) \\<b\\> http\\://e.test.\n\n")


# --- requests that no answer could honour


@pytest.mark.parametrize(
    ("request_", "tool_calling", "complaint"),
    [
        (Request(()), True, "The request has no messages."),
        (ask(user("x"), assistant("y")), True, "The history ends with an assistant message."),
        (ask(), False, "Test takes no tools."),
        (ask(), 1, "2 tools were offered, but Test takes 1 at most."),
        (ask(), 0, "2 tools were offered, but Test takes 0 at most."),
        (ask(tools=(), tool_mode="required"), True, "A tool call is required, but no tool was offered."),
    ],
)
async def test_a_request_that_cannot_be_honoured_is_refused_before_the_model_sees_it(
    request_: Request,
    tool_calling: bool | int,  # noqa: FBT001 - a table
    complaint: str,
) -> None:
    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        pytest.fail("the model was asked")

    error = await _fails(Provider(body, tool_calling=tool_calling), request_)
    assert error.kind == "bad_request"
    assert error.message == complaint
    assert error.hint


@pytest.mark.parametrize(
    ("request_", "tool_calling"),
    [
        (ask(), True),
        (ask(), 2),
        (ask(tools=()), False),
        (ask(tools=()), 0),
        (ask(user("x"), assistant(CALL), user(ToolResultPart("dg_1"))), True),
    ],
)
async def test_a_request_that_can_be_honoured_reaches_the_model(
    request_: Request,
    tool_calling: bool | int,  # noqa: FBT001 - a table
) -> None:
    seen: list[Request] = []

    async def body(request: Request, sink: Sink, _token: CancellationToken) -> None:
        seen.append(request)
        sink.report(TextPart("x"))

    await respond(GuardedModel(Provider(body, tool_calling=tool_calling)), request_)
    assert seen == [request_]
    assert all(isinstance(tool, ToolDefinition) for tool in seen[0].options.tools)


async def test_t14_a_model_that_cannot_be_made_to_call_is_not_asked() -> None:
    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        pytest.fail("the model was asked")

    error = await _fails(Provider(body, required_calls=False), ask(tool_mode="required"))
    assert (error.kind, bool(error.hint)) == ("bad_request", True)
    assert "decides for itself" in error.message


async def test_t14_a_model_that_can_be_made_to_call_is_told_and_does() -> None:
    seen: list[Request] = []

    async def body(request: Request, sink: Sink, _token: CancellationToken) -> None:
        seen.append(request)
        sink.report(TextPart("I look."))
        sink.report(CALL)

    request = ask(tool_mode="required")
    assert await respond(GuardedModel(Provider(body)), request) == [TextPart("I look."), CALL]
    assert seen == [request]


@pytest.mark.parametrize("parts", [(), (MARKER,)])
async def test_t14_an_answer_without_the_required_call_has_failed(parts: tuple[Part, ...]) -> None:
    error = await _fails(plays(*parts), ask(tool_mode="required"))
    assert isinstance(error, RuleBroken)
    assert error.violation.rule.id == "T14"


async def test_t14_words_instead_of_the_required_call_are_kept_and_the_failure_told() -> None:
    said, received = await respond(GuardedModel(plays(TextPart("No need."))), ask(tool_mode="required"))
    assert said == TextPart("No need.")
    assert isinstance(received, TextPart)
    assert "T14" in received.value


async def test_t14_a_cancelled_answer_owes_no_call() -> None:
    source = CancellationSource()

    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        sink.report(TextPart("I"))
        source.cancel()

    got = await respond(GuardedModel(Provider(body)), ask(tool_mode="required"), source.token)
    assert got == [TextPart("I")]


# --- activities, plans and usage

_progress = st.lists(
    st.one_of(
        st.builds(
            ActivityPart,
            st.uuids().map(str),
            st.text(min_size=1, max_size=4),
            st.sampled_from(["read", "other"]),
            st.sampled_from(["pending", "failed"]),
            output=st.none() | st.text(max_size=4),
        ),
        st.builds(
            PlanPart,
            st.lists(
                st.builds(PlanEntry, st.text(max_size=4), st.just("low"), st.just("pending")), max_size=2
            ).map(tuple),
        ),
        st.builds(UsagePart, st.integers(0, 9)),
        st.builds(TextPart, st.text(min_size=1, max_size=4)),
    ),
    max_size=10,
)


class _All(Response):
    """A consumer that keeps what was replaced as well."""

    def report(self, part: Part) -> None:
        self.parts.append(part)


@given(_progress)
def test_a_consumer_with_activities_gets_them_as_they_are_and_in_order(parts: list[Part]) -> None:
    heard = _All()
    request = ask(features=Features(activity=True))
    asyncio.run(GuardedModel(plays(*parts)).respond(request, heard, CancellationToken()))
    assert _without_ours(heard.parts) == parts


@given(_progress)
def test_a_consumer_without_activities_gets_none(parts: list[Part]) -> None:
    for features in (Features(), Features(thinking=True, data=True)):
        got = asyncio.run(respond(GuardedModel(plays(*parts)), ask(features=features)))
        assert not any(isinstance(part, ProgressPart) for part in got)


@given(_progress)
def test_a_consumer_with_reports_gets_only_usage_as_it_is(parts: list[Part]) -> None:
    heard = _All()
    request = ask(features=Features(thinking=True, reports=True))
    asyncio.run(GuardedModel(plays(*parts)).respond(request, heard, CancellationToken()))
    got = [part for part in heard.parts if isinstance(part, ProgressPart)]
    assert got == [part for part in parts if isinstance(part, UsagePart)]


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("S14", (ActivityPart("a", "", "read", "pending"),)),
        ("S15", (ActivityPart("a", "b", "read", "failed"), ActivityPart("a", "b", "read", "pending"))),
        ("S16", (UsagePart(-1),)),
    ],
)
async def test_a_part_that_breaks_a_rule_is_not_passed_on(rule: str, parts: tuple[Part, ...]) -> None:
    heard = _All()
    request = ask(features=Features(activity=True, keeps_parts_of_failures=True))
    with pytest.raises(RuleBroken) as caught:
        await GuardedModel(plays(*parts)).respond(request, heard, CancellationToken())
    assert caught.value.violation.rule.id == rule
    assert heard.parts == list(parts[:-1])


async def test_s9_what_an_agent_does_is_no_answer() -> None:
    parts = (ActivityPart("a", "b", "read", "completed"), UsagePart(1))
    got = await respond(GuardedModel(plays(*parts)), ask(features=Features(activity=True)))
    assert got == [*parts, TextPart(EMPTY_ANSWER)]


async def test_s8_a_usage_is_nothing_that_a_failure_would_lose() -> None:
    model = plays(UsagePart(1), then=LanguageModelError("unavailable", "The line is dead."))
    with pytest.raises(LanguageModelError):
        await respond(GuardedModel(model), ask(features=Features(activity=True)))
    received = plays(
        ActivityPart("a", "b", "read", "pending"), then=LanguageModelError("unavailable", "Dead.")
    )
    got = await respond(GuardedModel(received), ask(features=Features(activity=True)))
    assert isinstance(got[-1], TextPart)
    assert "Dead." in got[-1].value


async def test_s8_s9_what_the_guard_says_is_plain_for_a_consumer_without_markdown() -> None:
    plain = Features(markdown=False)
    empty = await respond(GuardedModel(plays()), ask(features=plain))
    assert empty == [TextPart("\n\nThe model gave an empty answer.\n\n")]
    failing = GuardedModel(plays(TextPart("one"), then=LanguageModelError("agent_failed", "It <ended>")))
    assert (await respond(failing, ask(features=plain)))[-1] == TextPart("\n\nError: It <ended>.\n\n")


def test_what_was_delivered_reaches_a_model_that_wants_to_know() -> None:
    heard: list[tuple[str, bool]] = []

    class Knowing(Provider):
        def delivered(self, conversation: str, *, whole: bool) -> None:
            heard.append((conversation, whole))

    async def nothing(*_given: object) -> None:
        return

    GuardedModel(Knowing(nothing)).delivered("c", whole=True)
    # Any other ignores it.
    GuardedModel(Provider(nothing)).delivered("c", whole=False)
    assert heard == [("c", True)]


async def test_a_response_is_continued_by_a_model_that_can_and_refused_by_another() -> None:
    called: list[object] = []

    class Elsewhere(Provider):
        def keep(self, response_id: str) -> None:
            called.append(("keep", response_id))

        def stored(self, response_id: str, position: str) -> None:
            called.append(("stored", response_id, position))

        def release(self, response_id: str) -> None:
            called.append(("release", response_id))

        def hand_over(self, response_id: str) -> None:
            called.append(("hand over", response_id))

        async def resume(self, response_id: str, position: str, sink: Sink, token: CancellationToken) -> None:
            called.append(("resume", response_id, position, token.cancelled()))
            sink.report(TextPart("the rest"))

    async def nothing(*_: object) -> None: ...

    class Heard:
        def report(self, part: Part) -> None:
            called.append(part)

        async def drain(self) -> None: ...

    token = CancellationSource().token
    for model in (GuardedModel(Elsewhere(nothing)), GuardedModel(Provider(nothing))):
        model.keep("r")
        model.stored("r", "p")
        model.hand_over("r")
        model.release("r")
    await GuardedModel(Elsewhere(nothing)).resume("r", "p", Heard(), token)
    assert called == [
        ("keep", "r"),
        ("stored", "r", "p"),
        ("hand over", "r"),
        ("release", "r"),
        ("resume", "r", "p", False),
        TextPart("the rest"),
    ]
    with pytest.raises(LanguageModelError, match="cannot continue a response"):
        await GuardedModel(Provider(nothing)).resume("r", "p", Heard(), token)


def test_a_response_that_another_process_has_names_the_machine() -> None:
    assert "w1" in ResponseTaken("w1").message
