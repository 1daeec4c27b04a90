"""The rules for events: each is kept by a stream that is right, and seen where it is broken."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dragoman.backends.responses.sse import ServerEvent, SseReader
from dragoman.checker.event_check import check_events
from dragoman.checker.event_rules import EVENT_RULES, EventWatch
from dragoman.checker.verdicts import CheckReport
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.stream import ReasoningEvents, ResponseStream
from dragoman.lm import ActivityPart, JsonObject, Part, Stopped, TextPart, ThinkingPart, ToolCallPart
from responses.endpoint import Asked, Endpoint, Reply, json_reply, model_of, said, sse

Json = dict[str, Any]


def _lawful(*, stops: bool = False, reasoning: ReasoningEvents = "summary") -> list[Json]:
    return _events(
        ThinkingPart("Hm."),
        TextPart("One "),
        ToolCallPart("dg_1", "look", {"n": 1}),
        TextPart("two"),
        *([Stopped("length", "Enough.").part] if stops else []),
        reasoning=reasoning,
    )


def _events(*parts: Part, reasoning: ReasoningEvents = "summary") -> list[Json]:
    stream = ResponseStream(Resource("resp_1", "m", 1), reasoning=reasoning)
    events: list[JsonObject] = list(stream.begin())
    for part in parts:
        events += stream.take(part)
    value: list[Json] = json.loads(json.dumps([*events, *stream.complete(2)]))
    return value


def _framed(events: list[Json], *, done: bool = True) -> list[ServerEvent]:
    reader = SseReader()
    return list(reader.feed(sse(*events, done=done)))


def _broken(frames: list[ServerEvent]) -> set[str]:
    watch = EventWatch()
    for frame in frames:
        watch.frame(frame)
    watch.end()
    return {violation.rule.id for violation in watch.found}


@pytest.mark.parametrize("reasoning", ["summary", "spec", "openai"])
def test_r7_a_stream_that_is_right_breaks_nothing_and_gives_every_rule_its_occasion(
    reasoning: ReasoningEvents,
) -> None:
    lawful = _lawful(reasoning=reasoning)
    assert _broken(_framed(lawful)) == _broken(_framed(_lawful(stops=True, reasoning=reasoning))) == set()
    watch = EventWatch()
    for frame in _framed(lawful):
        watch.frame(frame)
    watch.end()
    assert watch.passed.keys() == EVENT_RULES.keys()


def _place(events: list[Json], kind: str) -> int:
    return next(place for place, event in enumerate(events) if event["type"] == kind)


def _changed(kind: str, **fields: object) -> Callable[[list[Json]], None]:
    """The first event of that kind, with these fields; a field `a__b` is one level deeper."""

    def change(events: list[Json]) -> None:
        event = events[_place(events, kind)]
        for name, value in fields.items():
            outer, _, inner = name.rpartition("__")
            (event[outer] if outer else event)[inner] = value

    return change


def _without(kind: str) -> Callable[[list[Json]], None]:
    def change(events: list[Json]) -> None:
        del events[_place(events, kind)]
        for number, event in enumerate(events):
            event["sequence_number"] = number

    return change


def _swapped(kind: str) -> Callable[[list[Json]], None]:
    """With the one after it."""

    def change(events: list[Json]) -> None:
        place = _place(events, kind)
        events[place], events[place + 1] = events[place + 1], events[place]
        for number, event in enumerate(events):
            event["sequence_number"] = number

    return change


def _inserted(event: Json) -> Callable[[list[Json]], None]:
    def change(events: list[Json]) -> None:
        events.insert(3, event)
        for number, each in enumerate(events):
            each["sequence_number"] = number

    return change


_ADDED, _FINISHED = "response.output_item.added", "response.output_item.done"
_CASES: list[tuple[str, Callable[[list[Json]], None]]] = [
    ("E2", _changed("response.output_text.delta", sequence_number=0)),
    ("E3", _without("response.created")),
    ("E3", _without("response.in_progress")),
    ("E3", _changed("response.created", response__status="completed")),
    ("E3", _changed("response.in_progress", response__output=[{}])),
    ("E4", _without("response.completed")),
    ("E4", _changed("response.completed", response__status="failed")),
    ("E6", _inserted({"type": "response.of_their_own"})),
    ("E7", _changed(_ADDED, output_index=1)),
    ("E7", _changed(_ADDED, item__content=[{"type": "output_text", "text": "x"}])),
    ("E7", _changed(_ADDED, item__status="completed")),
    ("E7", _changed(_FINISHED, item__id="another")),
    ("E7", _without(_FINISHED)),
    ("E7", _changed("response.output_text.delta", item_id="another")),
    ("E8", _swapped(_FINISHED)),
    ("E9", _without("response.content_part.added")),
    ("E9", _without("response.content_part.done")),
    ("E9", _without("response.reasoning_summary_part.added")),
    ("E9", _without("response.reasoning_summary_text.done")),
    ("E9", _swapped("response.reasoning_summary_text.done")),
    ("E9", _changed("response.reasoning_summary_text.delta", summary_index=1)),
    ("E10", _changed("response.reasoning_summary_part.done", part__text="other")),
    ("E10", _changed("response.output_text.delta", delta="other")),
    ("E10", _changed("response.output_text.done", text="other")),
    ("E10", _changed("response.content_part.done", part__text="other")),
    ("E11", _changed("response.function_call_arguments.delta", delta="other")),
    ("E11", _changed("response.function_call_arguments.done", arguments="other")),
    ("E11", _without("response.function_call_arguments.done")),
    ("E12", _changed("response.completed", response__output=[])),
    ("E14", lambda events: events[0]["response"].pop("safety_identifier")),
    ("E15", _changed("response.completed", response__error={"code": "x", "message": "y"})),
    ("E15", _inserted({"type": "error", "error": {"type": "x", "code": "x", "message": "y", "param": None}})),
    ("E15", _inserted({"type": "error", "code": "x", "message": "flat"})),
]


@pytest.mark.parametrize(("rule", "change"), _CASES)
def test_r7_what_breaks_a_rule_is_seen_and_named(rule: str, change: Callable[[list[Json]], None]) -> None:
    events = _lawful()
    change(events)
    assert rule in _broken(_framed(events))


def _with_activity() -> list[Json]:
    """An item of an extension, open beside others, and changed after its end."""
    return _events(
        TextPart("One "),
        ActivityPart("a", "Run", "execute", "in_progress"),
        TextPart("two"),
        ActivityPart("a", "Run it", "execute", "in_progress"),
        ActivityPart("a", "Run it", "execute", "completed"),
        ActivityPart("a", "Run it", "execute", "completed", output="Late."),
    )


_UPDATED = "dragoman:activity.updated"


def test_r7_an_item_of_an_extension_may_stay_open_and_change() -> None:
    events = _with_activity()
    assert [event["type"] for event in events].count(_UPDATED) == 2
    assert _broken(_framed(events)) == set()


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("E7", _changed(_UPDATED, item__id="another")),
        ("E7", _changed(_UPDATED, item__type="dragoman:plan")),
        ("E12", lambda events: events[-1]["response"]["output"][1].update(output="Other.")),
        # The message before it is not of an extension.
        ("E8", _swapped(_FINISHED)),
    ],
)
def test_r7_an_item_of_an_extension_keeps_the_other_rules(
    rule: str, change: Callable[[list[Json]], None]
) -> None:
    events = _with_activity()
    change(events)
    assert rule in _broken(_framed(events))


def test_r7_an_event_of_an_extension_may_be_about_anything() -> None:
    abouts: list[Json] = [
        {},
        {"item": None},
        {"item": {}, "output_index": 0},
        {"item": {}, "output_index": "0"},
    ]
    for about in abouts:
        events = _lawful()
        _inserted({"type": "acme:trace", **about})(events)
        assert _broken(_framed(events)) == set()


def test_r7_an_incomplete_item_is_the_last() -> None:
    events = _lawful(stops=True)
    first = _place(events, _FINISHED)
    events[first]["item"]["status"] = "incomplete"
    assert "E13" in _broken(_framed(events))
    complete = _lawful(stops=True)
    complete[-1]["type"], complete[-1]["response"]["status"] = "response.completed", "completed"
    assert _broken(_framed(complete)) == {"E13"}


@pytest.mark.parametrize(
    ("rule", "frame"),
    [
        ("E1", ServerEvent(b"{}", "x")),
        ("E1", ServerEvent(b"nonsense")),
        ("E1", ServerEvent(b'{"type": "a:b", "sequence_number": 0}')),
        ("E1", ServerEvent(b'{"type": "a:b", "sequence_number": 0}', "a:b", "7")),
    ],
)
def test_r7_the_frame_of_an_event_is_looked_at(rule: str, frame: ServerEvent) -> None:
    assert rule in _broken([*_framed(_lawful(), done=False), frame])


def test_r7_done_is_the_last_and_only_where_there_are_frames() -> None:
    assert _broken(_framed(_lawful(), done=False)) == {"E5"}
    done = ServerEvent(b"[DONE]")
    assert "E5" in _broken([*_framed(_lawful()), ServerEvent(b'{"type": "a:b"}', "a:b"), done])


def test_r7_every_rule_has_a_case() -> None:
    elsewhere = {"E1", "E5", "E13"}
    assert {rule for rule, _ in _CASES} | elsewhere == EVENT_RULES.keys()


@pytest.mark.parametrize(
    ("dialect", "rules"),
    [
        ("openai", {"E5", "E14"}),
        # Ids that change, and names of its own for the parts of thinking.
        ("vllm", {"E6", "E7", "E12", "E14"}),
        # A summary without parts, and a call in the place of a message that is still open.
        ("ollama", {"E5", "E7", "E8", "E9", "E10"}),
    ],
)
def test_r7_what_servers_break_that_clients_get_along_with(dialect: str, rules: set[str]) -> None:
    stream = (Path(__file__).parent / "dialects" / f"{dialect}.sse").read_bytes()
    assert _broken(list(SseReader().feed(stream))) == rules


_JSON = st.recursive(
    st.none() | st.integers(-2, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
_KINDS = sorted({event["type"] for event in (*_lawful(), *_lawful(stops=True))} | {"error"})
_FIELDS = ("output_index", "content_index", "item_id", "item", "part", "response", "delta", "text", "error")


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(_KINDS), st.dictionaries(st.sampled_from(_FIELDS), _JSON)), max_size=6)
)
def test_r7_whatever_is_streamed_is_judged_and_never_an_accident(given_: list[tuple[str, Json]]) -> None:
    events = [{**fields, "type": kind} for kind, fields in given_]
    assert _broken(_framed([*_lawful()[:4], *events, *_lawful()[4:]])) or not events


# An endpoint, over a real socket.


def _answers(events: list[Json], *, done: bool = True) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        if "model" not in asked.json:
            error = {
                "message": "`model` is missing.",
                "type": "invalid_request",
                "param": "model",
                "code": "x",
            }
            return json_reply({"error": error}, 400)
        return Reply((sse(*events, done=done),))

    return answer


async def _report(endpoint: Endpoint, answer: Callable[[Asked], Reply]) -> CheckReport:
    endpoint.answer = answer
    model = model_of(endpoint.url)
    try:
        async with asyncio.timeout(30):
            return await check_events(model)
    finally:
        await model.close()


def _failed(report: CheckReport) -> set[str]:
    return {row.rule.id for row in report.rows if row.verdict == "fail"}


async def test_r7_an_endpoint_that_keeps_the_rules_passes(endpoint: Endpoint) -> None:
    report = await _report(endpoint, _answers(_lawful()))
    assert {row.verdict for row in report.rows} == {"pass"}
    assert report.passed


async def test_r7_an_endpoint_that_breaks_some_is_told_which(endpoint: Endpoint) -> None:
    report = await _report(endpoint, _answers(said("Hello."), done=False))
    assert _failed(report) == {"E3", "E5", "E7", "E14"}
    assert not report.passed


async def test_r7_an_error_in_a_form_of_its_own_is_told(endpoint: Endpoint) -> None:
    def answer(asked: Asked) -> Reply:
        if "model" in asked.json:
            return Reply((sse(*_lawful(), done=True),))
        return json_reply({"detail": "no"}, 422)

    assert _failed(await _report(endpoint, answer)) == {"E15"}


async def test_r7_an_endpoint_that_streams_nothing_is_not_passed(endpoint: Endpoint) -> None:
    report = await _report(endpoint, lambda _asked: json_reply({"status": "completed", "output": []}))
    assert not report.passed
    assert [name for name, _ in report.unanswered] == ["plain prompt", "tool offered"]
