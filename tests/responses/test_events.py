"""From events to parts, without a network."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dragoman.backends.responses.events import ResponseReader
from dragoman.backends.responses.tools import FunctionTools
from dragoman.lm import (
    Consumer,
    Features,
    LanguageModelError,
    Part,
    Presentation,
    Request,
    RequestOptions,
    Style,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    UsagePart,
    user,
)
from dragoman.lm.gfm import notice
from responses.endpoint import said, whole

Json = dict[str, Any]

_CAREFUL = Features()
_TOOLS = (
    ToolDefinition("weather", "", {"type": "object", "required": ["town"]}),
    ToolDefinition("now"),
    ToolDefinition("files.read", "", {"anyOf": [{"type": "object"}]}),
)


def _answer(features: Features = _CAREFUL) -> ResponseReader:
    request = Request((user("hi"),), RequestOptions(tools=_TOOLS), Consumer(features=features))
    return ResponseReader(FunctionTools(request).call, lambda wire_id: f"dg_{wire_id}", "Gateway", "m")


def _parts(events: Iterable[Json], features: Features = _CAREFUL) -> list[Part]:
    answer = _answer(features)
    return [part for event in events for part in answer.feed(event)]


def _joined(parts: Iterable[Part]) -> list[tuple[str, str]]:
    joined: list[tuple[str, str]] = []
    for part in parts:
        match part:
            case TextPart(value=text):
                kind, value = "text", text
            case ThinkingPart():
                kind, value = "thinking", part.text
            case _:
                kind, value = type(part).__name__, ""
        if joined and joined[-1][0] == kind:
            joined[-1] = kind, joined[-1][1] + value
        else:
            joined.append((kind, value))
    return joined


def _place(item: str = "i", index: int = 0, **more: object) -> Json:
    return {"item_id": item, "output_index": index, "content_index": 0, **more}


def _call(arguments: str = '{"town": "Izmir"}', **more: object) -> Json:
    return {
        "type": "function_call",
        "id": "fc",
        "call_id": "c1",
        "name": "weather",
        "arguments": arguments,
        **more,
    }


def _added(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item | {"arguments": ""}}


def _done(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


_STREAMS = [
    ("response.output_text", "text", "text"),
    ("response.refusal", "refusal", "text"),
    ("response.reasoning", "text", "thinking"),
    ("response.reasoning_text", "text", "thinking"),
    ("response.reasoning_summary_text", "text", "thinking"),
    ("response.reasoning_summary", "text", "thinking"),
]


@pytest.mark.parametrize(("stem", "field", "kind"), _STREAMS)
def test_r1_deltas_become_parts_and_their_end_adds_what_they_lack(stem: str, field: str, kind: str) -> None:
    deltas = [{"type": f"{stem}.delta", **_place(), "delta": word} for word in ("One ", "two ")]
    assert _joined(_parts(deltas)) == [(kind, "One two ")]
    for whole_text, expected in [
        ("One two ", "One two "),
        ("One two three", "One two three"),
        ("Other", "One two "),
    ]:
        end = {"type": f"{stem}.done", **_place(), field: whole_text}
        assert _joined(_parts([*deltas, end])) == [(kind, expected)]
        assert _joined(_parts([end, end])) == [(kind, whole_text)]


@pytest.mark.parametrize("name", ["content_part", "reasoning_part", "reasoning_summary_part"])
@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "output_text", "text": "abc"}, "text"),
        ({"type": "refusal", "refusal": "abc"}, "text"),
        ({"type": "reasoning_text", "text": "abc"}, "thinking"),
        ({"type": "summary_text", "text": "abc"}, "thinking"),
    ],
)
def test_r1_the_end_of_a_part_yields_only_what_is_missing(name: str, part: Json, kind: str) -> None:
    end = {"type": f"response.{name}.done", **_place(), "part": part}
    assert _joined(_parts([end, end])) == [(kind, "abc")]


def test_r1_every_end_repeats_and_nothing_is_said_twice() -> None:
    parts = _parts(said("Hello, ", "world."))
    assert parts == [TextPart("Hello, "), TextPart("world.")]


@given(st.sets(st.integers(0, 9)))
def test_r1_whichever_events_are_missing_the_text_is_whole_and_said_once(missing: set[int]) -> None:
    events = said("Hello, ", "wor", "ld.")
    *some, last = events
    # Deltas may only be missing from their end: what was never sent cannot be put before what was.
    first_missing_delta = min((n for n in missing if n in (3, 4, 5)), default=6)
    kept = [e for n, e in enumerate(some) if n not in missing and not first_missing_delta <= n <= 5]
    assert _joined(_parts([*kept, last])) == [("text", "Hello, world.")]


def test_r1_items_under_other_ids_at_the_end_are_not_said_again() -> None:
    events = said("Hello.")
    events[-1]["response"]["output"][0] = events[-1]["response"]["output"][0] | {"id": "another"}
    assert _joined(_parts(events)) == [("text", "Hello.")]
    del events[-1]["response"]["output"][0]["id"]
    assert _joined(_parts(events)) == [("text", "Hello.")]


def test_r1_an_item_that_follows_another_at_the_same_place_is_another() -> None:
    first, second = said("One."), said("Two.")
    for event in second:
        if "item_id" in event:
            event["item_id"] = "msg_2"
        if "item" in event:
            event["item"] = event["item"] | {"id": "msg_2"}
    assert _joined(_parts([*first[:-1], *second[:-1]])) == [("text", "One.\n\nTwo.")]


def test_r1_parts_of_a_summary_are_paragraphs() -> None:
    events = [
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "r",
            "summary_index": index,
            "delta": text,
        }
        for index, text in [(0, "One"), (0, "."), (1, "Two.")]
    ]
    assert _joined(_parts(events)) == [("thinking", "One.\n\nTwo.")]


def test_r1_half_a_character_waits_for_the_other() -> None:
    deltas = [{"type": "response.output_text.delta", **_place(), "delta": d} for d in ("a\ud83d", "\udc2bb")]
    assert _parts(deltas) == [TextPart("a"), TextPart("🐫b")]
    end = {"type": "response.output_text.done", **_place(), "text": "a🐫"}
    assert _joined(_parts([deltas[0], end])) == [("text", "a🐫")]


def test_r1_what_the_text_rests_on_is_told_once_unless_it_is_in_the_text() -> None:
    def cited(url: str, title: str) -> Json:
        annotation = {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": 1}
        return {"type": "response.output_text.annotation.added", **_place("msg_1"), "annotation": annotation}

    events = said("See https://a.example/ for more.")
    events[4:4] = [
        cited("https://a.example/", "A"),
        cited("https://b.example/", "B [x]"),
        cited("https://b.example/", "B [x]"),
        cited("javascript:alert(1)", "no"),
        cited("https://c.example/> [x](command:y)", "no"),
    ]
    text = "".join(part.value for part in _parts(events) if isinstance(part, TextPart))
    assert text == "See https://a.example/ for more.\n\nSources:\n\n- [B \\[x\\]](<https://b.example/>)\n"


_COUNTED: Json = {"input_tokens": 3, "output_tokens": 4}


@pytest.mark.parametrize(
    ("usage", "parts"),
    [
        (
            {
                **_COUNTED,
                "input_tokens_details": {"cached_tokens": 2},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
            [UsagePart(3, 4, cached=2, reasoning=0)],
        ),
        ({**_COUNTED, "input_tokens_details": {"cached_tokens": -1}}, [UsagePart(3, 4)]),
        ({**_COUNTED, "input_tokens_details": {}, "output_tokens_details": "none"}, [UsagePart(3, 4)]),
        ({"input_tokens": 3}, []),
        ({"input_tokens": True, "output_tokens": 4}, []),
        ({"input_tokens": -3, "output_tokens": 4}, []),
        (None, []),
    ],
)
def test_r1_a_usage_has_what_the_endpoint_counted_and_nothing_else(usage: object, parts: list[Part]) -> None:
    end: Json = {"type": "response.completed", "response": whole("completed", usage=usage)}
    assert list(_answer().feed(end)) == parts


def test_r1_usage_and_completion() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    answer = _answer()
    end: Json = {"type": "response.completed", "response": whole("completed", usage=usage)}
    assert list(answer.feed(end)) == [UsagePart(3, 4)]
    assert answer.is_complete
    assert list(answer.feed(said("late")[3])) == []


def test_r2_arguments_are_joined_and_the_call_is_made_once() -> None:
    deltas = [
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 0, "delta": d}
        for d in ('{"to', 'wn": "Iz', 'mir"}')
    ]
    end: Json = {
        "type": "response.function_call_arguments.done",
        "item_id": "fc",
        "arguments": _call()["arguments"],
    }
    answer = _answer()
    for event in [_added(_call()), *deltas]:
        assert list(answer.feed(event)) == []
    expected = [ToolCallPart("dg_c1", "weather", {"town": "Izmir"})]
    assert list(answer.feed(end)) == expected
    over: Json = {"type": "response.completed", "response": whole("completed", _call())}
    for event in (end, _done(_call()), over):
        assert list(answer.feed(event)) == []
    # Any one of the three is enough.
    for event in (end | {"arguments": ""}, _done(_call("")), {"type": "response.completed", "response": {}}):
        assert _parts([_added(_call()), *deltas, event]) == expected


def test_r2_an_end_that_names_the_call_instead_of_the_item() -> None:
    end = {"type": "response.function_call_arguments.done", "item_id": "c1", "arguments": '{"town": "Kars"}'}
    assert _parts([_added(_call()), end]) == [ToolCallPart("dg_c1", "weather", {"town": "Kars"})]


def test_r2_a_call_that_is_announced_twice_is_made_once() -> None:
    def delta(item: str) -> Json:
        return {
            "type": "response.function_call_arguments.delta",
            "item_id": item,
            "delta": _call()["arguments"],
        }

    twice = [_added(_call()), _added(_call(id="fc2"), 1), delta("fc"), delta("fc2"), _done(_call())]
    assert len(_parts([*twice, _done(_call(id="fc2"), 1)])) == 1


def test_r2_a_call_whose_name_comes_last() -> None:
    events = [
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "delta": '{"town": "Izmir"}'},
        {"type": "response.function_call_arguments.done", "item_id": "fc", "arguments": '{"town": "Izmir"}'},
    ]
    assert _parts(events) == []
    assert len(_parts([*events, _done(_call())])) == 1
    with pytest.raises(LanguageModelError, match="never said of which tool"):
        _parts([*events, {"type": "response.completed", "response": {}}])


def test_r2_two_calls_side_by_side_keep_their_own_arguments() -> None:
    other = _call('{"town": "Kars"}', id="fc2", call_id="c2")
    deltas = [
        {"type": "response.function_call_arguments.delta", "item_id": item, "delta": d}
        for item, d in [("fc", '{"town": '), ("fc2", '{"town": '), ("fc2", '"Kars"}'), ("fc", '"Izmir"}')]
    ]
    ends = [
        {"type": "response.function_call_arguments.done", "item_id": item, "arguments": ""}
        for item in ("fc2", "fc")
    ]
    assert _parts([_added(_call()), _added(other, 1), *deltas, *ends]) == [
        ToolCallPart("dg_c2", "weather", {"town": "Kars"}),
        ToolCallPart("dg_c1", "weather", {"town": "Izmir"}),
    ]


@pytest.mark.parametrize("arguments", ['{"town": "Iz', "null", "[1]", '"x"', "", "{} {}", "NaN"])
def test_r3_arguments_that_are_no_object_are_an_error_that_names_the_call(arguments: str) -> None:
    with pytest.raises(LanguageModelError, match=r"'weather' \(dg_c1\)") as caught:
        _parts([_done(_call(arguments))])
    assert caught.value.kind == "agent_failed"
    # A consumer that answers such calls with an error gets what the model wrote.
    (part,) = _parts([_done(_call(arguments))], Features(unparsed_calls=True))
    assert part == ToolCallPart("dg_c1", "weather", {}, arguments)


@pytest.mark.parametrize("features", [Features(), Features(unparsed_calls=True)])
def test_r3_arguments_that_are_nested_too_deeply_are_an_error_for_every_consumer(features: Features) -> None:
    deep = '{"a":' * 500 + "1" + "}" * 500
    with pytest.raises(LanguageModelError, match=r"'weather' \(dg_c1\).*more than \d+ levels deep") as caught:
        _parts([_done(_call(deep))], features)
    assert caught.value.kind == "agent_failed"


def test_r3_no_arguments_are_right_where_none_are_needed() -> None:
    assert _parts([_done(_call("", name="now"))]) == [ToolCallPart("dg_c1", "now", {})]


def test_r2_names_and_inputs_are_given_back_as_the_consumer_has_them() -> None:
    request = Request((user("hi"),), RequestOptions(tools=_TOOLS))
    wire = FunctionTools(request).wire_name("files.read")
    assert "." not in wire
    (part,) = _parts([_done(_call('{"input": {"path": "a"}}', name=wire))])
    assert part == ToolCallPart("dg_c1", "files.read", {"path": "a"})


def test_a_tool_that_was_not_offered() -> None:
    with pytest.raises(LanguageModelError, match="'nonsense', which was not offered"):
        _parts([_done(_call("{}", name="nonsense"))])
    assert len(_parts([_done(_call("{}", name="nonsense"))], Features(unknown_calls=True))) == 1


@pytest.mark.parametrize(
    ("event", "kind", "message"),
    [
        (
            {"type": "error", "error": {"type": "server_error", "message": "Overheated"}},
            "unavailable",
            "Overheated",
        ),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Slow", "param": None},
            "rate_limited",
            "Slow",
        ),
        ({"type": "error", "error": "plain words"}, "unavailable", "plain words"),
        ({"type": "error"}, "unavailable", "it gives no reason"),
        (
            {
                "type": "response.failed",
                "response": whole("failed", error={"code": "invalid_prompt", "message": "No"}),
            },
            "bad_request",
            "No",
        ),
        (
            {"type": "error", "error": {"code": "context_length_exceeded", "message": "Too long"}},
            "bad_request",
            "Too long",
        ),
        ({"type": "error", "error": {"code": "content_policy_violation", "message": "x"}}, "blocked", "x"),
    ],
)
def test_r5_error_events_nested_and_flat(event: Json, kind: str, message: str) -> None:
    with pytest.raises(LanguageModelError) as caught:
        _parts([*said("Hello")[:4], event])
    assert (caught.value.kind, caught.value.message) == (kind, f"Gateway failed: {message}")


def test_r5_what_was_said_before_a_failure_is_told_once() -> None:
    *_, finished, _end = said("Half of it. ")
    failed = whole("failed", finished["item"], _call(), error={"code": "server_error", "message": "Broke"})
    for before in ([], said("Half of it. ")[:-1]):
        answer, parts = _answer(), list[Part]()
        for event in before:
            parts += answer.feed(event)
        with pytest.raises(LanguageModelError, match="Broke"):
            parts += answer.feed({"type": "response.failed", "response": failed})
        assert _joined(parts) == [("text", "Half of it. ")]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.from_the_future", "delta": "x"},
        {"type": "acme:trace", "anything": [1]},
        {"type": "response.web_search_call.searching", "item_id": "ws"},
        {"type": "response.output_item.done", "item": None},
        {"type": "response.output_text.delta", "delta": 5},
        {"type": 5},
        {},
    ],
)
def test_r5_what_is_unknown_is_passed_over(event: Json) -> None:
    events = said("Hello.")
    for place in range(len(events)):
        assert _joined(_parts([*events[:place], event, *events[place:]])) == [("text", "Hello.")]


def test_r5_a_stream_that_ends_before_the_answer_does() -> None:
    answer = _answer()
    for event in said("Hello.")[:-1]:
        list(answer.feed(event))
    with pytest.raises(LanguageModelError, match="before the answer did") as caught:
        list(answer.end(was_announced=False))
    assert caught.value.kind == "unavailable"
    # With the word that it is over, it is.
    assert list(answer.end(was_announced=True)) == []


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (
            {"reason": "max_output_tokens"},
            "The model stopped: it reached the limit of tokens for one answer.",
        ),
        ({"reason": "content_filter"}, "The model stopped: a content filter cut the answer off."),
        ({"reason": "boredom"}, "The model stopped: boredom."),
        (None, "The model stopped before the end of its answer."),
    ],
)
def test_r9_an_answer_that_was_cut_says_so_and_makes_no_half_call(details: object, told: str) -> None:
    events = said("Half an ans")[:4]
    begun = {"type": "response.function_call_arguments.delta", "item_id": "fc", "delta": '{"town": '}
    end = {
        "type": "response.incomplete",
        "response": whole("incomplete", _call('{"town": ', status="incomplete"), incomplete_details=details),
    }
    shown = Presentation(_CAREFUL, Style())
    parts = _parts([*events, _added(_call(), 1), begun, end])
    assert _joined([each for part in parts for each in shown.present(part)]) == [
        ("text", f"Half an ans{notice(told)}")
    ]


def test_r9_a_refusal_is_told_in_its_own_words() -> None:
    item = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I will not."}]}
    assert _joined(_parts([_done(item)])) == [("text", "I will not.")]


def test_reasoning_is_kept_with_the_call_it_led_to() -> None:
    def thought(name: str) -> Json:
        return {
            "type": "reasoning",
            "id": name,
            "summary": [],
            "content": None,
            "encrypted_content": f"<{name}>",
        }

    answer = _answer(Features(thinking=True))
    events = [_done(thought("r1"), 0), _done(_call(), 1), _done(thought("r2"), 2)]
    events.append(_done(_call(id="fc2", call_id="c2"), 3))
    parts = [part for event in events for part in answer.feed(event)]
    assert parts[0] == ThinkingPart("", "r1", {"model": "m", "item": thought("r1")})
    assert answer.reasoning_of == {"dg_c1": (thought("r1"),), "dg_c2": (thought("r2"),)}


def test_an_answer_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.backends.responses.events.MAX_ANSWER_CHARACTERS", 20)
    with pytest.raises(LanguageModelError, match="did not stop"):
        _parts(said("Hello, ", "hello, ", "hello, ", "hello."))
