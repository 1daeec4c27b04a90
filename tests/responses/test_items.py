"""From a request to what an endpoint is sent."""

import base64
from typing import Any

import pytest

from dragoman.backends.responses.call_ids import CallIds
from dragoman.backends.responses.items import body_of, items_of
from dragoman.backends.responses.tools import FunctionTools
from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    PlanPart,
    Request,
    RequestOptions,
    Stopped,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    UsagePart,
    assistant,
    system,
    user,
)
from dragoman.lm.parts import USAGE

Json = dict[str, Any]
_PNG = DataPart.image(b"\x89PNG", "image/png")
_PNG_ITEM = {
    "type": "input_image",
    "image_url": f"data:image/png;base64,{base64.b64encode(_PNG.data).decode()}",
    "detail": "auto",
}


def _items(*messages: Message, tools: tuple[ToolDefinition, ...] = (), **more: Any) -> list[Json]:
    request = Request(messages, RequestOptions(tools=tools))
    return items_of(messages, FunctionTools(request), CallIds().original, **more)[0]


def _message(role: str, content: object) -> Json:
    return {"type": "message", "role": role, "content": content}


def test_r4_roles_and_images() -> None:
    assert _items(
        system("Be brief."), user("What is ", "this?", _PNG), assistant("A picture."), user("Thanks.")
    ) == [
        _message("developer", "Be brief."),
        _message(
            "user",
            [{"type": "input_text", "text": "What is "}, {"type": "input_text", "text": "this?"}, _PNG_ITEM],
        ),
        _message("assistant", "A picture."),
        _message("user", "Thanks."),
    ]


def test_r4_why_an_answer_ended_is_told_in_words_behind_it() -> None:
    stop = Stopped("content_filter", "I would rather not.").part
    assert _items(assistant("Half of", stop), user("and?"), assistant(stop)) == [
        _message("assistant", "Half of\n\nI would rather not."),
        _message("user", "and?"),
        _message("assistant", "I would rather not."),
    ]


def test_r4_images_for_a_model_without_eyes_are_named() -> None:
    (item,) = _items(user("What is this? ", _PNG), images=False)
    assert item["content"] == "What is this? [image/png, 4 bytes: left out, because it cannot be sent]"


def test_r4_other_data() -> None:
    (item,) = _items(
        user(DataPart.text("a text"), DataPart(USAGE, b"{}"), DataPart("application/pdf", b"%PDF"))
    )
    text, file = item["content"]
    assert text == {"type": "input_text", "text": "a text"}
    assert file["type"] == "input_file"
    assert _items(user(DataPart(USAGE, b"{}"))) == []


def test_r4_calls_and_results_in_order() -> None:
    call_id = CallIds().issue("call_abc")
    items = _items(
        user("Weather?"),
        assistant("I look.", ToolCallPart(call_id, "weather", {"town": "Izmir"})),
        user(ToolResultPart(call_id, (TextPart("sunny"), _PNG)), "And now?"),
    )
    assert items[2:] == [
        {"type": "function_call", "call_id": "call_abc", "name": "weather", "arguments": '{"town":"Izmir"}'},
        {
            "type": "function_call_output",
            "call_id": "call_abc",
            "output": [{"type": "input_text", "text": "sunny"}, _PNG_ITEM],
        },
        _message("user", "And now?"),
    ]


def test_r4_results_say_that_they_are_errors_and_keep_to_their_audience() -> None:
    call = ToolCallPart("c", "t", {})
    result = ToolResultPart(
        "c", (TextPart("boom"), TextPart("for the user", ("user",)), TextPart("!", ("model",))), is_error=True
    )
    assert _items(user("x"), assistant(call), user(result))[-1]["output"] == "The call failed. boom!"


def test_r4_every_call_has_one_result_and_every_result_its_call() -> None:
    items = _items(
        user("x"),
        assistant(ToolCallPart("a", "t", {}), ToolCallPart("b", "t", {})),
        user(
            ToolResultPart("a", (TextPart("first"),)),
            ToolResultPart("a", (TextPart("again"),)),
            ToolResultPart("lost", (TextPart("of nobody"),)),
            ToolResultPart("named", (TextPart("of t"),), name="t", input={"x": 1}),
        ),
    )
    assert [(each["type"], each.get("call_id")) for each in items[1:]] == [
        ("function_call", "a"),
        ("function_call", "b"),
        ("function_call_output", "b"),
        ("function_call_output", "a"),
        ("message", None),
        ("function_call", "named"),
        ("function_call_output", "named"),
    ]
    assert items[3]["output"] == "The call was interrupted. There is no result."
    assert items[5]["content"] == "A tool that was called earlier returned: of nobody"


def test_r4_names_and_inputs_as_the_endpoint_takes_them() -> None:
    tools = (ToolDefinition("files.read", "", {"anyOf": [{"type": "object"}]}), ToolDefinition("n" * 90))
    request = Request((user("x"),), RequestOptions(tools=tools))
    functions = FunctionTools(request).functions
    assert all(len(str(each["name"])) <= 64 and "." not in str(each["name"]) for each in functions)
    assert all(each["strict"] is False for each in functions)
    items = _items(user("x"), assistant(ToolCallPart("a", "files.read", {"p": 1})), user("y"), tools=tools)
    assert items[1]["arguments"] == '{"input":{"p":1}}'
    assert items[1]["name"] == functions[0]["name"]
    # A name of up to sixty-four characters is the endpoint's own limit.
    assert (
        FunctionTools(Request((user("x"),), RequestOptions(tools=(ToolDefinition("n" * 64),)))).wire_name(
            "n" * 64
        )
        == "n" * 64
    )


def test_arguments_that_could_not_be_read_are_sent_as_valid_json() -> None:
    items = _items(user("x"), assistant(ToolCallPart("a", "t", {}, '{"half')), user(ToolResultPart("a")))
    assert items[1]["arguments"] == '{"unparsed":"{\\"half"}'


def test_reasoning_goes_back_to_whom_it_came_from_and_to_nobody_else() -> None:
    kept = {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "x"}
    mine = ThinkingPart("", "r1", {"model": "m", "item": kept})
    foreign = ThinkingPart("", "r2", {"model": "other", "item": kept | {"id": "r2"}})
    call = ToolCallPart("a", "t", {})
    history = (user("x"), assistant(ThinkingPart("hm"), mine, foreign, call), user(ToolResultPart("a")))
    remembered = {"a": [kept, kept | {"id": "r3"}]}
    items = _items(*history, model_id="m", remembered=lambda call_id: remembered.get(call_id, []))
    # What the history has itself is not sent twice.
    assert [each.get("id") for each in items if each["type"] == "reasoning"] == ["r1", "r3"]
    assert [each["type"] for each in _items(*history)] == ["message", "function_call", "function_call_output"]


def _body(request: Request, options: Json | None = None) -> Json:
    return body_of(request, FunctionTools(request), [], "some/model", options or {}, keeps_reasoning=True)


def test_r4_options_are_passed_on_but_those_that_are_ours() -> None:
    options = RequestOptions(
        model_options={"temperature": 0.1, "_secret": 1, "stream": False, "model": "x", "top_p": 0.5}
    )
    body = _body(Request((user("x"),), options), {"temperature": 1, "reasoning": {"effort": "low"}})
    assert body == {
        "model": "some/model",
        "input": [],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "temperature": 0.1,
        "reasoning": {"effort": "low"},
        "top_p": 0.5,
    }


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_t14_the_tool_mode_is_told(mode: Any) -> None:
    options = RequestOptions(tools=(ToolDefinition("t"),), tool_mode=mode, model_options={})
    assert _body(Request((user("x"),), options))["tool_choice"] == mode


def test_t14_no_option_undoes_what_is_required() -> None:
    options = RequestOptions(
        tools=(ToolDefinition("t"),), tool_mode="required", model_options={"tool_choice": "none"}
    )
    assert _body(Request((user("x"),), options))["tool_choice"] == "required"


def test_what_an_agent_did_is_not_sent_on() -> None:
    progress = (
        ActivityPart("a", "Run", "execute", "completed", output="much"),
        PlanPart(()),
        UsagePart(1),
    )
    assert _items(user("a"), assistant(*progress, "b"), assistant(*progress)) == _items(
        user("a"), assistant("b")
    )
