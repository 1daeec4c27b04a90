"""What a client says, as messages; and what is wrong with it, by its place."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given, strategies as st

from dragoman.frontends.http import compaction
from dragoman.frontends.http.budget import MOST_VALUES, Budget, values_in
from dragoman.frontends.http.compaction import compacted, expanded
from dragoman.frontends.http.errors import ApiError
from dragoman.frontends.http.items import messages_from_items
from dragoman.frontends.http.tools import OfferedTools, chosen, functions_of, other_tools
from dragoman.lm import (
    DataPart,
    Message,
    Part,
    Stopped,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    assistant,
    user,
)
from dragoman.lm.json import decode, encode
from dragoman.lm.rules import CALL_ID_LIMIT
from http_server.kit import Json

_PDF = base64.b64encode(b"%PDF").decode()
_CALL = {"type": "function_call", "call_id": "c", "name": "look"}
_RESULT = {"type": "function_call_output", "call_id": "c", "output": "seen"}
_OURS = "dg_0123"
# Of what a request may hold packed.
_MOST_BYTES = 8_000_000


def _told(*items: object) -> tuple[Message, ...]:
    return messages_from_items(items, "m", Budget(_MOST_BYTES)).messages


def _wrong(*items: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        messages_from_items(items, "m", Budget(_MOST_BYTES))
    assert caught.value.kind == "invalid_request"
    assert caught.value.status == (413 if caught.value.code == "body_too_large" else 400)
    return caught.value


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"type": "text", "text": "x"}, TextPart("x")),
        ({"type": "summary_text", "text": "x"}, TextPart("x")),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}, b"\x89PN"),
        ({"type": "image_url", "image_url": "data:image/png;base64,iVBO"}, b"\x89PN"),
        ({"type": "input_file", "filename": "a.pdf", "file_data": _PDF}, b"%PDF"),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{_PDF}"},
            b"%PDF",
        ),
        ({"type": "file", "file": {"file_data": _PDF}}, b"%PDF"),
        ({"type": "input_file", "file_data": "data:,a%20b"}, b"a b"),
        ({"type": "input_file", "file_data": "data:text/x;charset=utf-8,a"}, b"a"),
        (
            {"type": "input_file", "file_url": "https://a.test/x.pdf"},
            TextPart("[An attachment at https://a.test/x.pdf, which was not fetched]"),
        ),
    ],
)
def test_r7_content_in_every_form_of_the_two_dialects(part: Json, read: Part | bytes) -> None:
    (message,) = _told({"role": "user", "content": [part]})
    (said,) = message.content
    assert (said.data if isinstance(said, DataPart) else said) == read


def test_r7_an_answer_is_one_message_with_its_thoughts_its_calls_and_why_it_ended() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    thought = {
        "type": "reasoning",
        "summary": [{"text": "a"}, {"no": "text"}, "x"],
        "content": [{"text": "b"}],
    }
    empty = {"type": "reasoning", "content": None}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "So:"}, refusal]}
    assert _told({"role": "user", "content": "x"}, empty, thought, said, _CALL, _RESULT) == (
        user("x"),
        assistant(
            ThinkingPart("ba"), "So:", Stopped("content_filter", "No.").part, ToolCallPart("c", "look", {})
        ),
        Message("user", (ToolResultPart("c", (TextPart("seen"),)),)),
    )


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (None, ToolCallPart("c", "look", {})),
        ("", ToolCallPart("c", "look", {})),
        ('{"a":1}', ToolCallPart("c", "look", {"a": 1})),
        ({"a": 1}, ToolCallPart("c", "look", {"a": 1})),
        ('{"a":', ToolCallPart("c", "look", {}, '{"a":')),
        ("[1]", ToolCallPart("c", "look", {}, "[1]")),
        ([1], ToolCallPart("c", "look", {}, "[1]")),
    ],
)
def test_r7_arguments_that_are_no_object_are_kept_as_they_were_written(
    arguments: object, read: ToolCallPart
) -> None:
    (message,) = _told({**_CALL, "arguments": arguments})
    assert message.content == (read,)


def test_r7_thinking_that_comes_back_as_a_message_of_its_own_is_thinking() -> None:
    """Pydantic AI sends it so. Text that only has such a piece is text."""
    thought, both = "<think>\nHm.\n</think>", "<think>\nHm.\n</think> x <think>\nHm.\n</think>"
    said = [{"role": "assistant", "content": text} for text in ("a", thought, "b", both)]
    assert _told({"role": "user", "content": thought}, *said) == (
        user(thought),
        assistant(TextPart("a"), ThinkingPart("Hm."), TextPart("b"), TextPart(both)),
    )


def test_r7_a_refusal_that_is_no_answers_is_text() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    (said,) = _told({"role": "user", "content": [refusal]})
    assert said == user("No.")
    _, result = _told(_CALL, {**_RESULT, "output": [refusal]})
    assert result.content == (ToolResultPart("c", (TextPart("No."),)),)


def test_r7_what_nobody_said_makes_no_message() -> None:
    assert _told({"role": "user", "content": None}, {"role": "assistant", "content": ""}) == ()


@pytest.mark.parametrize(
    ("items", "param"),
    [
        (["x"], "input[0]"),
        ([{"role": "user", "content": 7}], "input[0].content"),
        ([{"role": "user", "content": ["x"]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": 7}]}], "input[0].content[0]"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:nonsense"}]}],
            "input[0].content[0]",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:a/b;base64,!"}]}],
            "input[0].content[0]",
        ),
        ([{"role": "user", "content": [{"type": "input_file", "file_data": "!"}]}], "input[0].content[0]"),
        ([{**_CALL, "call_id": ""}], "input[0].call_id"),
        ([{**_CALL, "call_id": "c" * (CALL_ID_LIMIT + 1)}], "input[0].call_id"),
        ([{**_CALL, "name": None}], "input[0].name"),
        ([_CALL, {**_RESULT, "call_id": "d"}], "input[1].call_id"),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0]"),
        (
            [{"type": "mcp_approval_response", "approval_request_id": "x", "approve": "yes"}],
            "input[0].approve",
        ),
        ([{}] * 20_001, "input"),
    ],
)
def test_r7_what_cannot_be_read_is_named_by_its_place(items: list[object], param: str) -> None:
    assert _wrong(*items).param == param


def test_r7_an_item_of_a_kind_that_nobody_knows_is_named_and_the_rest_is_told() -> None:
    told = messages_from_items(
        [{"type": "web_search_call"}, {"role": "user", "content": "x"}], "m", Budget(_MOST_BYTES)
    )
    assert (told.ignored, told.messages) == (["input[0] (web_search_call)"], (user("x"),))


def test_r10_a_result_of_a_call_of_ours_needs_no_call() -> None:
    (message,) = _told({**_RESULT, "call_id": _OURS})
    assert message.content == (ToolResultPart(_OURS, (TextPart("seen"),)),)


# Compactions.


def _packed(value: object) -> str:
    return "dg1." + base64.urlsafe_b64encode(zlib.compress(encode(value))).decode()


def test_r7_a_compaction_is_the_history_it_was_made_of() -> None:
    items: list[Json] = [{"role": "user", "content": "cobalt"}, {**_CALL, "arguments": "{}"}]
    packed = compacted(items, Budget(_MOST_BYTES))
    assert expanded(packed, "input[0]", Budget(_MOST_BYTES)) == items


def test_a_compaction_that_could_not_be_unpacked_is_not_made() -> None:
    with pytest.raises(ApiError, match="hold at most 8,000,000 bytes"):
        compacted([{"role": "user", "content": "x" * _MOST_BYTES}], Budget(_MOST_BYTES))


@pytest.mark.parametrize(
    "content",
    [
        "gAAAA-somebody-elses",
        "dg1.",
        "dg1.AAAA",
        "dg1.\N{SNOWMAN}",
        _packed([1]),
        _packed({"role": "user"}),
        # Cut off.
        _packed([{"role": "user", "content": "x" * 99}])[:-8],
        # One in another: ours are unpacked when they are packed.
        _packed([{"type": "compaction", "encrypted_content": _packed([])}]),
    ],
)
def test_r7_a_compaction_that_is_not_ours_is_refused(content: str) -> None:
    error = _wrong({"type": "compaction", "encrypted_content": content})
    assert (error.param, error.code) == ("input[0]", "invalid_compaction")


def _compaction(value: object) -> Json:
    return {"type": "compaction", "encrypted_content": _packed(value)}


def test_r7_a_small_compaction_that_would_be_a_huge_history_is_refused() -> None:
    bomb = _compaction([{"role": "user", "content": " " * _MOST_BYTES}])
    assert len(bomb["encrypted_content"]) < 20_000
    error = _wrong(bomb)
    assert (error.status, error.code, error.param) == (413, "body_too_large", "input[0]")


def test_all_compactions_of_a_request_share_one_budget_of_bytes() -> None:
    half = _compaction([{"role": "user", "content": " " * (_MOST_BYTES // 2 - 100)}])
    assert len(_told(half, half)) == 2
    assert _wrong(half, half, half).param == "input[2]"


def test_all_compactions_of_a_request_share_one_budget_of_values() -> None:
    parts = [{"type": "input_text", "text": "a, b, [c] {d}"}] * (MOST_VALUES // 8)
    half = _compaction([{"role": "user", "content": parts}])
    assert len(_told(half, half)) == 2
    error = _wrong(half, half, half)
    assert (error.status, error.code, error.param) == (413, "body_too_large", "input[2]")


def test_arguments_that_are_json_texts_count_as_what_they_hold() -> None:
    half = {**_CALL, "arguments": encode({"list": [0] * (MOST_VALUES // 2 - 10)}).decode()}
    assert len(_told(half, half)[0].calls) == 2
    assert _wrong(half, half, half).code == "body_too_large"
    # Text with such characters in it is one value.
    text = encode({"text": '[{,\\"' * MOST_VALUES}).decode()
    assert len(_told({**_CALL, "arguments": text})[0].calls) == 1


def test_the_items_in_compactions_count_as_items() -> None:
    many = _compaction([{"type": "reasoning"}] * 10_000)
    assert _told(many) == ()
    assert _wrong(many, many).message == "There are more than 20,000 items."


def test_what_is_too_much_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def seen(data: bytes) -> object:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(compaction, "decode", seen)
    assert _wrong(_compaction([{}] * (MOST_VALUES + 1))).code == "body_too_large"
    assert _wrong(_compaction([{"content": " " * _MOST_BYTES}])).code == "body_too_large"
    assert decoded == []
    assert len(_told(_compaction([{"role": "user", "content": "x"}]))) == len(decoded) == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab,[]{}:"\\\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('ab,[{"\\'), inner),
    max_leaves=30,
)


@given(_JSON)
def test_values_are_counted_as_they_would_be_decoded(value: object) -> None:
    def count(inner: object) -> int:
        match inner:
            case list():
                return 1 + sum(map(count, inner))
            case dict():
                return 1 + sum(map(count, inner.values()))
        return 1

    # An empty list or object counts as if it had one value, and the end of the text as one.
    assert count(value) <= values_in(encode(value), 10_000) <= 2 * count(value) + 2


@pytest.mark.parametrize("broken", [b'"', b"\\", b'"a\\', b'["a\\"', b"", b"[[[["])
def test_what_is_no_json_can_be_counted_too(broken: bytes) -> None:
    assert values_in(broken, 10) <= 6
    assert values_in(broken * 1_000_000, 10) <= 11


# Tools.

_LOOK, _COUNT = ToolDefinition("look", "", None), ToolDefinition("count", "", None)


def _function(name: str) -> Json:
    return {"type": "function", "name": name}


def test_t14_functions_of_both_dialects_and_the_tools_that_are_not_here() -> None:
    nested = {"type": "function", "function": {"name": "count"}}
    tools = [_function("look"), nested, {"type": "web_search"}]
    assert functions_of(tools) == (_LOOK, _COUNT)
    assert OfferedTools(others=other_tools(tools)).ignored == ("tools[2] (web_search)",)


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        (["look"], "tools[0]"),
        ([{"type": None}], "tools[0]"),
        ([{**_function("look"), "parameters": "none"}], "tools[0].parameters"),
        ([{**_function("look"), "parameters": {"type": "objekt"}}], "tools[0].parameters.type"),
        ([{**_function("look"), "parameters": {"type": ["array"]}}], "tools[0].parameters.type"),
        ([{**_function("look"), "parameters": {"properties": []}}], "tools[0].parameters.properties"),
        ([{**_function("look"), "parameters": {"required": "city"}}], "tools[0].parameters.required"),
        ([{**_function("look"), "parameters": {"required": [1]}}], "tools[0].parameters.required"),
        ([_function("look")] * 2, "tools[1].name"),
        ([_function("look")] * 1_281, "tools"),
    ],
)
def test_t14_a_tool_that_is_none_is_named(tools: list[object], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        functions_of(tools)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("choice", "offer"),
    [
        (None, OfferedTools((_LOOK, _COUNT))),
        ("none", OfferedTools()),
        ("required", OfferedTools((_LOOK, _COUNT), "required")),
        ({"type": "function", "function": {"name": "count"}}, OfferedTools((_COUNT,), "required")),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [_function("look")]}},
            OfferedTools((_LOOK,), "required"),
        ),
        ({"type": "allowed_tools", "mode": "none", "tools": [_function("look")]}, OfferedTools()),
    ],
)
def test_t14_what_is_offered_is_what_was_chosen(choice: object, offer: OfferedTools) -> None:
    assert chosen(choice, (_LOOK, _COUNT)) == offer


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "allowed_tools", "tools": "look"}, "tool_choice"),
        ({"type": "allowed_tools", "mode": "never", "tools": []}, "tool_choice"),
        ({"type": "allowed_tools", "tools": ["look"]}, "tool_choice.tools"),
        ({"type": "function"}, "tool_choice"),
    ],
)
def test_t14_a_choice_that_is_none_is_refused(choice: object, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chosen(choice, (_LOOK,))
    assert (caught.value.status, caught.value.param) == (400, param)
