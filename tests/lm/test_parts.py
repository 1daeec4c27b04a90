"""The parts: their JSON is the wire's, and they are values."""

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityLocation,
    ActivityPart,
    AnswerForm,
    Audience,
    Capabilities,
    DataPart,
    LanguageModelError,
    Message,
    ModelInfo,
    Part,
    PlanEntry,
    PlanPart,
    RequestOptions,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    UsagePart,
    with_capability_tags,
)
from dragoman.lm.json import decode, encode
from dragoman.lm.parts import ACTIVITY, CACHE_CONTROL, STATEFUL_MARKER, UNKNOWN_PART, USAGE

# As the interface says them, character for character.
_WIRE: list[tuple[Part, str]] = [
    (TextPart("Hello"), '{"type":"text","value":"Hello"}'),
    (TextPart(""), '{"type":"text","value":""}'),
    (ThinkingPart("hm"), '{"type":"thinking","value":"hm"}'),
    (ThinkingPart(("a", "b")), '{"type":"thinking","value":["a","b"]}'),
    (
        ThinkingPart("hm", "t1", {"signature": "x"}),
        '{"type":"thinking","value":"hm","id":"t1","metadata":{"signature":"x"}}',
    ),
    (
        ToolCallPart("dg_1", "read_file", {"path": "x"}),
        '{"type":"tool_call","callId":"dg_1","name":"read_file","input":{"path":"x"}}',
    ),
    (ToolCallPart("dg_1", "list", {}), '{"type":"tool_call","callId":"dg_1","name":"list","input":{}}'),
    (
        ToolCallPart("dg_1", "list", {}, "{oops"),
        '{"type":"tool_call","callId":"dg_1","name":"list","input":{},"unparsed":"{oops"}',
    ),
    (
        ToolResultPart("dg_1", (TextPart("42"),)),
        '{"type":"tool_result","callId":"dg_1","content":[{"type":"text","value":"42"}]}',
    ),
    (ToolResultPart("dg_1"), '{"type":"tool_result","callId":"dg_1","content":[]}'),
    (
        ToolResultPart("dg_1", (TextPart("no"),), is_error=True),
        '{"type":"tool_result","callId":"dg_1","content":[{"type":"text","value":"no"}],"isError":true}',
    ),
    (
        ToolResultPart("1", is_error=True, name="x", input={"a": 1}, outcome="denied"),
        '{"type":"tool_result","callId":"1","content":[],"isError":true,"name":"x","input":{"a":1},"outcome":"denied"}',
    ),
    (
        ActivityPart("a", "Run it", "execute", "pending"),
        '{"type":"activity","id":"a","title":"Run it","kind":"execute","status":"pending","locations":[]}',
    ),
    (
        ActivityPart(
            "a",
            "Edit",
            "edit",
            "failed",
            (ActivityLocation("/a", 3), ActivityLocation("/b")),
            "--- /a",
            "no",
            exit_status=1,
        ),
        (
            '{"type":"activity","id":"a","title":"Edit","kind":"edit","status":"failed",'
            '"locations":[{"path":"/a","line":3},{"path":"/b"}],"diff":"--- /a","output":"no","exitStatus":1}'
        ),
    ),
    (
        PlanPart((PlanEntry("Look", "high", "in_progress"),)),
        '{"type":"plan","entries":[{"text":"Look","priority":"high","status":"in_progress"}]}',
    ),
    (UsagePart(1, 0), '{"type":"usage","input":1,"output":0}'),
    (
        UsagePart(1, 2, 9, 3, 4, 5, 6, 0.5, "EUR"),
        (
            '{"type":"usage","input":1,"output":2,"total":9,"cached":3,"reasoning":4,"contextUsed":5,"contextSize":6,'
            '"cost":0.5,"currency":"EUR"}'
        ),
    ),
    (DataPart("image/png", b"\x89PNG"), '{"type":"data","mimeType":"image/png","data":"iVBORw=="}'),
    (
        TextPart("for you", ("user",)),
        '{"type":"text","value":"for you","audience":["user"]}',
    ),
]


@pytest.mark.parametrize(("part", "wire"), _WIRE)
def test_the_json_of_a_part_is_that_of_the_interface(part: Part, wire: str) -> None:
    assert encode(part).decode() == wire
    decoded: Part = msgspec.json.decode(wire, type=Part)
    assert decoded == part


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(st.text(), _json_values, max_size=3)
_audiences = st.lists(st.sampled_from(["user", "model", "extension"]), max_size=2).map(tuple)
_content = st.one_of(
    st.builds(TextPart, st.text(), _audiences), st.builds(DataPart, st.text(), st.binary(), _audiences)
)
_any_part = st.one_of(
    _content,
    st.builds(
        ThinkingPart,
        st.text() | st.lists(st.text()).map(tuple),
        st.none() | st.text(),
        st.none() | _objects,
    ),
    st.builds(ToolCallPart, st.text(), st.text(), _objects, st.none() | st.text()),
    st.builds(
        ToolResultPart,
        st.text(),
        st.lists(_content, max_size=3).map(tuple),
        st.booleans(),
        st.none() | st.text(),
        st.none() | _objects,
        st.none() | st.sampled_from(["ok", "error", "denied", "skipped", "interrupted", "timed_out"]),
    ),
)


@given(_any_part)
def test_s2_every_part_survives_the_wire(part: Part) -> None:
    assert msgspec.json.decode(encode(part), type=Part) == part


@given(_any_part)
def test_the_json_of_a_part_is_plain_json(part: Part) -> None:
    assert json.loads(encode(part))["type"] in {"text", "thinking", "tool_call", "tool_result", "data"}


def test_a_part_is_a_value() -> None:
    part = TextPart("a")
    assert part == TextPart("a")
    with pytest.raises(AttributeError, match="immutable"):
        part.value = "b"  # type: ignore[misc]  # the point


@pytest.mark.parametrize(
    "text", ["", "# Markdown\n\n```py\nx\n```", "naïve 日本語 🎈", "\x00\x1b[31m", "a\r\nb"]
)
def test_text_is_any_unicode_and_passes_unchanged(text: str) -> None:
    assert msgspec.json.decode(encode(TextPart(text)), type=Part) == TextPart(text)


def test_thinking_is_one_text_or_several() -> None:
    assert ThinkingPart("ab").text == "ab"
    assert ThinkingPart(("a", "b")).text == "ab"
    assert ThinkingPart(()).text == ""


def test_data_is_made_from_an_image_a_json_value_or_a_text() -> None:
    assert DataPart.image(b"\x89PNG", "image/png") == DataPart("image/png", b"\x89PNG")
    assert DataPart.json({"a": [1]}) == DataPart("application/json", b'{"a":[1]}')
    assert DataPart.json([1], "application/vnd.x+json").mime_type == "application/vnd.x+json"
    assert DataPart.text("é") == DataPart("text/plain", "é".encode())
    assert DataPart.text("a,b", "text/csv") == DataPart("text/csv", b"a,b")


def test_an_image_has_the_type_of_an_image() -> None:
    with pytest.raises(ValueError, match="begins with 'image/', not 'text/plain'"):
        DataPart.image(b"", "text/plain")


@pytest.mark.parametrize("mime_type", [ACTIVITY, STATEFUL_MARKER, CACHE_CONTROL, USAGE, UNKNOWN_PART])
def test_data_that_programs_exchange_is_internal(mime_type: str) -> None:
    assert DataPart(mime_type, b"x").is_internal


def test_data_for_people_is_not_internal() -> None:
    assert not DataPart("image/png", b"x").is_internal
    assert not DataPart("", b"x").is_internal


@pytest.mark.parametrize("audience", [("user",), ("model",), ("extension",), ("user", "model")])
def test_result_content_may_say_for_whom_it_is(audience: tuple[Audience, ...]) -> None:
    result = ToolResultPart("dg_1", (TextPart("a", audience), DataPart("text/plain", b"b", audience)))
    assert msgspec.json.decode(encode(result), type=Part) == result


def test_content_without_an_audience_is_for_everybody() -> None:
    decoded: Part = msgspec.json.decode('{"type":"text","value":"a"}', type=Part)
    assert isinstance(decoded, TextPart)
    assert decoded.audience == ()


def test_the_text_of_a_result_is_that_of_its_text_parts() -> None:
    result = ToolResultPart("dg_1", (TextPart("a"), DataPart("image/png", b"x"), TextPart("b")))
    assert result.text == "ab"


def test_a_message_has_one_of_three_roles() -> None:
    for role in ("user", "assistant", "system"):
        message: Message = msgspec.json.decode(f'{{"role":"{role}","content":[]}}', type=Message)
        assert encode(message).decode() == f'{{"role":"{role}","content":[]}}'


def test_a_request_says_whether_a_tool_must_be_used() -> None:
    assert encode(RequestOptions()) == b"{}"
    assert msgspec.json.decode('{"toolMode":"auto"}', type=RequestOptions) == RequestOptions()
    assert msgspec.json.decode('{"toolMode":"required"}', type=RequestOptions).tool_mode == "required"
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode('{"toolMode":"sometimes"}', type=RequestOptions)
    assert not RequestOptions().has_demands
    assert RequestOptions(tool_mode="required").has_demands
    assert RequestOptions(answer_form=AnswerForm()).has_demands
    formats = [{"type": "json_object"}, {"type": "json_schema", "schema": {}}, {"type": "text"}, None]
    demanding = [RequestOptions(model_options={"text": {"format": each}}).has_demands for each in formats]
    assert demanding == [True, True, False, False]


def test_a_tool_is_offered_with_name_description_and_schema() -> None:
    tool = ToolDefinition("read_file", "Reads a file.", {"type": "object"})
    wire = '{"name":"read_file","description":"Reads a file.","inputSchema":{"type":"object"}}'
    assert encode(tool).decode() == wire
    assert msgspec.json.decode(wire, type=ToolDefinition) == tool


def test_private_model_options_are_read_and_never_forwarded() -> None:
    options = RequestOptions(model_options={"temperature": 0, "_conversationId": "c"})
    assert options.model_options["_conversationId"] == "c"
    assert options.forwarded_options == {"temperature": 0}


def test_a_model_describes_itself_and_what_it_can_do() -> None:
    info = ModelInfo(
        "m",
        "M",
        "f",
        "1",
        1000,
        100,
        Capabilities(tool_calling=64, image_input=True),
        tags=("tools", "vision"),
        is_byok=True,
    )
    assert decode(encode(info)) == {
        "id": "m",
        "name": "M",
        "family": "f",
        "version": "1",
        "maxInputTokens": 1000,
        "maxOutputTokens": 100,
        "capabilities": {"toolCalling": 64, "imageInput": True},
        "tags": ["tools", "vision"],
        "isBYOK": True,
    }
    assert msgspec.json.decode(encode(info), type=ModelInfo) == info


@pytest.mark.parametrize(
    ("capabilities", "tags"),
    [
        (Capabilities(), ("agent", "tools")),
        (Capabilities(tool_calling=64, image_input=True), ("agent", "tools", "images")),
        (Capabilities(tool_calling=False, image_input=True), ("agent", "images")),
    ],
)
def test_tags_say_what_the_capabilities_say(capabilities: Capabilities, tags: tuple[str, ...]) -> None:
    info = ModelInfo("m", "M", "f", "1", 1000, 100, capabilities, tags=("agent", "tools"))
    tagged = with_capability_tags(info)
    assert tagged.tags == tags
    assert with_capability_tags(tagged) == tagged


def test_a_model_calls_tools_and_takes_no_images_unless_it_says_otherwise() -> None:
    assert msgspec.json.decode("{}", type=Capabilities) == Capabilities(tool_calling=True, image_input=False)


@pytest.mark.parametrize("tool_calling", [True, False, 0, 1, 128])
def test_tool_calling_is_a_flag_or_a_number(tool_calling: bool | int) -> None:  # noqa: FBT001 - it is what is tested
    decoded = msgspec.json.decode(encode(Capabilities(tool_calling)), type=Capabilities)
    assert decoded.tool_calling is tool_calling or decoded.tool_calling == tool_calling
    assert isinstance(decoded.tool_calling, bool) == isinstance(tool_calling, bool)


def test_an_error_has_a_kind_a_message_and_a_next_step() -> None:
    error = LanguageModelError("unavailable", "Nobody answers", hint="Try later.", retry_after=3)
    assert (error.kind, error.message, error.hint, error.retry_after) == (
        "unavailable",
        "Nobody answers",
        "Try later.",
        3,
    )
    assert str(error) == "Nobody answers"
    assert error.sentence == "Nobody answers. Try later."
    assert LanguageModelError("internal", "Why?").sentence == "Why?"


def test_an_error_has_a_sentence_without_paths_for_those_who_may_not_see_them() -> None:
    error = LanguageModelError("internal", "It broke", hint="See /home/me.", public="It broke.")
    assert error.sentence_for(sees_paths=True) == "It broke. See /home/me."
    assert error.sentence_for(sees_paths=False) == "It broke."
    assert LanguageModelError("internal", "It broke").sentence_for(sees_paths=False) == "It broke."


@pytest.mark.parametrize(
    ("kind", "transient"), [("unavailable", True), ("timeout", True), ("blocked", False), ("internal", False)]
)
def test_some_errors_may_pass_by_themselves(kind: str, transient: bool) -> None:  # noqa: FBT001 - a table
    assert LanguageModelError(kind, "x").is_transient is transient  # type: ignore[arg-type]  # a table of literals
