"""Messages from consumers of any version, and from hostile ones."""

import base64
import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityPart,
    DataPart,
    LanguageModelError,
    Message,
    Part,
    PlanEntry,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    assistant,
    system,
    user,
)
from dragoman.lm.json import decode, encode
from dragoman.lm.messages import messages_from
from dragoman.lm.parts import UNKNOWN_PART


def _read(wire: bytes | str) -> tuple[Message, ...]:
    return messages_from(decode(wire))


def _decoded(*parts: object) -> tuple[Part, ...]:
    (message,) = _read(json.dumps([{"role": "user", "content": parts}]))
    return message.content


def _result(**fields: object) -> Part:
    (part,) = _decoded({"type": "tool_result", "callId": "dg_1", **fields})
    return part


def _unknown(value: object) -> DataPart:
    return DataPart(UNKNOWN_PART, json.dumps(value, separators=(",", ":")).encode())


def test_messages_are_written_as_the_interface_says() -> None:
    assert encode(user("hi")) == b'{"role":"user","content":[{"type":"text","value":"hi"}]}'
    assert encode(assistant("hi", name="x")) == (
        b'{"role":"assistant","content":[{"type":"text","value":"hi"}],"name":"x"}'
    )
    assert encode(system()) == b'{"role":"system","content":[]}'


def test_a_message_is_built_of_strings_and_parts() -> None:
    call = ToolCallPart("dg_1", "list", {})
    message = assistant("a", call, "b")
    assert message.content == (TextPart("a"), call, TextPart("b"))
    assert message.text == "ab"
    assert message.calls == (call,)
    assert message.results == ()
    assert user(ToolResultPart("dg_1")).results == (ToolResultPart("dg_1"),)


def test_messages_survive_the_wire() -> None:
    messages = (
        system("Be brief."),
        user("look", DataPart.image(b"\x89PNG", "image/png"), name="me"),
        assistant(
            ActivityPart("a", "Run", "execute", "completed"),
            PlanPart((PlanEntry("x", "low", "pending"),)),
            UsagePart(1),
        ),
        assistant(ThinkingPart("hm"), "Let me see.", ToolCallPart("dg_1", "list", {"a": {"b": [1, None]}})),
        user(
            ToolResultPart("dg_1", (TextPart("x", ("model",)),), is_error=True, name="list", outcome="error")
        ),
    )
    wire = b"[" + b",".join(map(encode, messages)) + b"]"
    assert _read(wire) == messages
    assert msgspec.json.decode(wire, type=tuple[Message, ...]) == messages


def test_unknown_fields_do_no_harm() -> None:
    wire = (
        '[{"role":"user","content":[{"type":"text","value":"a","color":"red"},'
        '{"type":"tool_result","callId":"dg_1","content":[],"later":{"x":1}}],"id":7}]'
    )
    assert _read(wire) == (user("a", ToolResultPart("dg_1")),)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "video", "url": "x"},
        {"value": "no type"},
        {"type": 3},
        {"type": "text"},
        {"type": "text", "value": 3},
        {"type": "data", "mimeType": "x", "data": "not base64!"},
        {"type": "data", "mimeType": "x"},
        {"type": "tool_call", "name": "no id", "input": {}},
        {"type": "tool_result", "content": []},
        {"type": "activity", "id": "a", "title": "Run", "kind": "dream", "status": "pending"},
        {"type": "plan", "entries": [{"text": "x"}]},
        {"type": "tool_result", "callId": 3, "content": []},
        "just a string",
        17,
        None,
        ["a"],
    ],
)
def test_what_is_no_known_part_is_kept_out_of_the_way(value: object) -> None:
    before, retained, after = _decoded(
        {"type": "text", "value": "before"}, value, {"type": "text", "value": "after"}
    )
    assert (before, after) == (TextPart("before"), TextPart("after"))
    assert retained == _unknown(value)
    assert isinstance(retained, DataPart)
    assert retained.is_internal


def test_an_unknown_part_survives_the_way_back() -> None:
    (message,) = _read('[{"role":"user","content":[{"type":"video","url":"x"}]}]')
    (again,) = _read(b"[" + encode(message) + b"]")
    assert again == message


@pytest.mark.parametrize("fields", [{}, {"input": None}, {"input": {}}])
def test_a_call_without_arguments_has_none(fields: dict[str, object]) -> None:
    assert _decoded({"type": "tool_call", "callId": "dg_1", "name": "list", **fields}) == (
        ToolCallPart("dg_1", "list", {}),
    )


@pytest.mark.parametrize(
    ("value", "unparsed"), [("{oops", "{oops"), ("", ""), ([1, 2], "[1,2]"), (3, "3"), (False, "false")]
)
def test_arguments_that_are_no_object_are_kept_as_they_were_written(value: object, unparsed: str) -> None:
    (part,) = _decoded({"type": "tool_call", "callId": "dg_1", "name": "list", "input": value})
    assert part == ToolCallPart("dg_1", "list", {}, unparsed)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "value": "a", "audience": ["assistant"]}, TextPart("a")),
        ({"type": "text", "value": "a", "audience": "user"}, TextPart("a")),
        ({"type": "text", "value": "a", "audience": None}, TextPart("a")),
        ({"type": "thinking", "value": "a", "id": 7, "metadata": []}, ThinkingPart("a")),
        ({"type": "thinking", "value": ["a"], "metadata": "x", "id": "t"}, ThinkingPart(("a",), "t")),
        ({"type": "data", "mimeType": "x", "data": "", "audience": [1]}, DataPart("x", b"")),
        (
            {"type": "activity", "id": "a", "title": "b", "kind": "read", "status": "pending", "diff": 1},
            ActivityPart("a", "b", "read", "pending"),
        ),
        ({"type": "plan", "entries": [], "later": 1}, PlanPart(())),
        ({"type": "usage", "input": 1, "output": "many"}, UsagePart(1)),
        (
            {"type": "tool_call", "callId": "dg_1", "name": "list", "input": {}, "unparsed": 7},
            ToolCallPart("dg_1", "list", {}),
        ),
    ],
)
def test_an_optional_field_that_makes_no_sense_costs_only_itself(part: object, expected: Part) -> None:
    assert _decoded(part) == (expected,)


@pytest.mark.parametrize(
    "fields", [{"isError": None}, {"isError": "yes"}, {"outcome": "exploded"}, {"name": 3, "input": "x"}]
)
def test_a_result_is_never_lost_for_its_optional_fields(fields: dict[str, object]) -> None:
    assert _result(content=[{"type": "text", "value": "a"}], **fields) == ToolResultPart(
        "dg_1", (TextPart("a"),)
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], ()),
        (None, ()),
        ("plain", (TextPart("plain"),)),
        ([{"type": "tsx", "value": {}}], (DataPart.json({"type": "tsx", "value": {}}),)),
        ([{"type": "thinking", "value": "x"}], (DataPart.json({"type": "thinking", "value": "x"}),)),
        (
            [{"type": "tool_result", "callId": "dg_2", "content": []}],
            (DataPart.json({"type": "tool_result", "callId": "dg_2", "content": []}),),
        ),
        ([7, {"type": "text", "value": "a"}], (DataPart.json(7), TextPart("a"))),
        ({"type": "text", "value": "a"}, (TextPart("a"),)),
        (
            [
                {"type": "data", "mimeType": "image/png", "data": base64.b64encode(b"\x89").decode()},
                {"type": "?"},
            ],
            (DataPart("image/png", b"\x89"), DataPart.json({"type": "?"})),
        ),
    ],
)
def test_a_result_is_never_lost_for_the_form_of_its_content(
    content: object, expected: tuple[TextPart | DataPart, ...]
) -> None:
    assert _result(content=content) == ToolResultPart("dg_1", expected)


def test_a_result_without_content_has_none() -> None:
    assert _result() == ToolResultPart("dg_1")


@pytest.mark.parametrize(
    ("content", "expected"), [("hi", (TextPart("hi"),)), (None, ()), ([], ()), ("", (TextPart(""),))]
)
def test_the_content_of_a_message_may_be_a_plain_string_or_missing(
    content: object, expected: tuple[Part, ...]
) -> None:
    assert _read(json.dumps([{"role": "user", "content": content}])) == (Message("user", expected),)
    assert _read('[{"role":"system"}]') == (system(),)


def test_a_name_that_is_no_string_is_ignored() -> None:
    assert _read('[{"role":"user","content":[],"name":7}]') == (user(),)


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        ('{"role":"user","content":[]}', "must be an array"),
        ("[3]", "Message 0 is not an object"),
        ('[{"role":"user","content":[]},{"role":"robot","content":[]}]', "Message 1 has the role 'robot'"),
        ('[{"content":[]}]', "Message 0 has the role None"),
        ('[{"role":"user","content":7}]', "The content of message 0 is not an array of parts"),
    ],
)
def test_what_cannot_be_understood_is_a_bad_request_that_says_where(wire: str, complaint: str) -> None:
    with pytest.raises(LanguageModelError, match=complaint) as caught:
        _read(wire)
    assert caught.value.kind == "bad_request"


def test_half_an_emoji_in_a_history_does_not_spoil_it() -> None:
    wire = r'[{"role":"user","content":[{"type":"text","value":"cut \ud83d"}]}]'
    assert _read(wire) == (user("cut �"),)


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "value", "callId", "content", "input", "name", "isError", "data", "mimeType"]
            ),
            inner | st.sampled_from(["text", "thinking", "tool_call", "tool_result", "data", "dg_1", "aGk="]),
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_junk, max_size=4))
def test_no_part_makes_a_request_fail(parts: list[object]) -> None:
    decoded = _decoded(*parts)
    assert len(decoded) == len(parts)
    (message,) = _read(b"[" + encode(Message("user", decoded)) + b"]")
    assert message.content == decoded
