"""R7: whatever a model says, the events are in order; and the checker would see it if they were not."""

import json
from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from dragoman.frontends.http.errors import ApiError, of_model
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.stream import ReasoningEvents, ResponseStream
from dragoman.frontends.http.stream_rebuild import last_events, new_stream
from dragoman.journal.events import AnyEvent, decode_events, encode_events
from dragoman.journal.response_events import PartsReported, ResponseClosed, ResponseOpened
from dragoman.lm import (
    ActivityPart,
    DataPart,
    JsonObject,
    LanguageModelError,
    Part,
    PlanPart,
    Stopped,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from dragoman.lm.json import encode
from dragoman.lm.parts import STATEFUL_MARKER, ActivityStatus, PlanEntry, progress_key
from http_server.stream_check import check_events, problems

_PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, st.text(max_size=5)),
    st.builds(ThinkingPart, st.text(max_size=5)),
    st.builds(ThinkingPart, st.lists(st.text(max_size=3), max_size=2).map(tuple)),
    st.integers(0, 10**9).map(lambda n: ToolCallPart(f"dg_{n}", "look", {"n": n})),
    st.just(ToolCallPart("dg_unparsed", "look", {}, "{broken")),
    st.just(DataPart(STATEFUL_MARKER, b"m\\abc_DEF-1")),
    st.builds(
        ActivityPart,
        st.sampled_from(["act_1", "act_2"]),
        st.sampled_from(["Run", "Run it"]),
        st.just("execute"),
        st.sampled_from(get_args(ActivityStatus)),
    ),
    st.just(PlanPart(())),
    st.just(PlanPart((PlanEntry("Look", "high", "pending"),))),
)


def _events(
    parts: Sequence[Part],
    *,
    fails: bool = False,
    stops: StopReason | None = None,
    at: int | None = None,
) -> list[JsonObject]:
    stream = ResponseStream(Resource("resp_1", "m", 1))
    told = list(stream.begin())
    if stops is not None:
        parts = [*parts, Stopped(stops, "Enough.").part]
    for part in parts[:at]:
        told += stream.take(part)
    if fails:
        told += stream.fail(of_model(LanguageModelError("agent_failed", "It broke"), sees_paths=True))
    else:
        told += stream.complete(2)
    return told


@given(st.lists(_PARTS, max_size=12), st.booleans(), st.sampled_from([None, "length", "content_filter"]))
def test_r7_the_events_of_any_parts_are_in_order(
    parts: list[Part],
    fails: bool,  # noqa: FBT001 - drawn
    stops: StopReason | None,
) -> None:
    response = check_events(_events(parts, fails=fails, stops=stops))
    assert response["status"] == ("failed" if fails else "incomplete" if stops else "completed")
    said = "".join(part.value for part in parts if isinstance(part, TextPart))
    told = [
        content["text"]
        for item in response["output"]
        if item["type"] == "message"
        for content in item["content"]
        if content["type"] == "output_text"
    ]
    assert "".join(told) == said
    calls = [part.call_id for part in parts if isinstance(part, ToolCallPart)]
    assert [item["call_id"] for item in response["output"] if item["type"] == "function_call"] == calls
    last = {progress_key(part): part for part in parts if isinstance(part, ActivityPart | PlanPart)}
    shown = [item for item in response["output"] if item["type"].startswith("dragoman:")]
    assert [item.get("title") for item in shown] == [getattr(part, "title", None) for part in last.values()]


_WHOLE = _events([ThinkingPart("Hm."), TextPart("One "), TextPart("two"), ToolCallPart("dg_1", "look", {})])


def _numbered(events: Sequence[JsonObject]) -> list[JsonObject]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def test_r7_the_checker_accepts_what_is_right() -> None:
    assert problems(_numbered(_WHOLE)) == []


@pytest.mark.parametrize("place", range(len(_WHOLE)))
def test_r7_the_checker_sees_an_event_that_is_missing_doubled_or_misplaced(place: int) -> None:
    missing = [*_WHOLE[:place], *_WHOLE[place + 1 :]]
    doubled = [*_WHOLE[: place + 1], *_WHOLE[place:]]
    misplaced = [*_WHOLE[:place], *_WHOLE[place : place + 2][::-1], *_WHOLE[place + 2 :]]
    assert problems(_numbered(missing))
    assert problems(_numbered(doubled))
    # The last has nothing behind it to change places with.
    assert problems(_numbered(misplaced)) or misplaced == _WHOLE


def test_r7_the_checker_sees_a_wrong_number_and_a_text_that_is_not_the_sum() -> None:
    assert problems([{**event, "sequence_number": 0} for event in _WHOLE])
    for name, kind in (
        ("text", "response.output_text.done"),
        ("arguments", "response.function_call_arguments.done"),
    ):
        changed = [{**event, name: "other"} if event["type"] == kind else event for event in _WHOLE]
        assert problems(changed)


_VALUES: st.SearchStrategy[object] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_ENDS = st.one_of(
    st.builds(ResponseClosed, st.just("completed"), st.integers(0, 2**40), st.none()),
    st.just(ResponseClosed("cancelled", 1)),
    st.just(ResponseClosed("failed", 1, {"input_tokens": 1}, ApiError(503, "server_error", "No.").payload)),
)


@given(
    st.lists(
        _PARTS
        | st.dictionaries(st.text(max_size=3), _VALUES, max_size=3).map(
            lambda given: ToolCallPart("dg_1", "look", given)
        ),
        max_size=8,
    ),
    st.integers(1, 4),
    _ENDS,
    st.sampled_from(["summary", "spec", "openai"]),
)
def test_j4_stored_parts_give_the_same_events_byte_for_byte(
    parts: list[Part], size: int, end: ResponseClosed, reasoning: ReasoningEvents
) -> None:
    """Whatever the parts are, and however they were cut into batches."""
    opened = ResponseOpened(reasoning)
    first = new_stream(Resource("resp_1", "m", 1, metadata={"a": "b"}, is_background=True), opened)
    told = list(first.begin())
    for part in parts:
        told += first.take(part)
    told += last_events(first, end)

    batches = [PartsReported(tuple(parts[at : at + size])) for at in range(0, len(parts), size)]
    recorded: list[AnyEvent] = [opened, *batches, end]
    stored = decode_events(encode_events([(1.0, event) for event in recorded]))
    resource = Resource.begun_as(json.loads(encode(first.resource.as_json())))
    again = new_stream(resource, opened)
    replayed = list(again.begin())
    for _, event in stored:
        if isinstance(event, PartsReported):
            for part in event.parts:
                replayed += again.take(part)
        elif isinstance(event, ResponseClosed):
            replayed += last_events(again, event)
    assert [encode(event) for event in replayed] == [encode(event) for event in told]
