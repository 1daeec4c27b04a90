"""What the editor sends, read: nothing in a history spoils the request."""

import json

import msgspec
import pytest

from dragoman.frontends.vscode.protocol import CountTokens, ToolInput, decode_chat_request, decoded
from dragoman.lm import (
    DataPart,
    LanguageModelError,
    RequestOptions,
    TextPart,
    ToolDefinition,
    ToolResultPart,
    user,
)
from dragoman.lm.parts import UNKNOWN_PART


def _params(*content: object, **options: object) -> bytes:
    """As JavaScript writes it: half of a character as an escape."""
    message = {"role": "user", "content": content}
    return json.dumps({"modelId": "m", "messages": [message], "options": options}).encode()


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "value": "cut \ud83d"}],
        [{"type": "tool_result", "callId": "dg_1", "content": [{"type": "text", "value": "cut \ud83d"}]}],
    ],
)
def test_f16_half_a_character_in_a_history_costs_that_half(content: list[object]) -> None:
    """VS Code cuts what tools return wherever it becomes too long, and sends it again with every request."""
    (message,) = decode_chat_request(_params(*content)).messages
    (part,) = message.content
    assert isinstance(part, TextPart | ToolResultPart)
    assert (part.value if isinstance(part, TextPart) else part.text) == "cut \ufffd"


def test_f16_half_a_character_costs_nothing_of_the_options() -> None:
    tool = {"name": "look", "description": "Looks \ud83d", "inputSchema": {"type": "object"}}
    chat = decode_chat_request(_params({"type": "text", "value": "hi"}, tools=[tool], toolMode="required"))
    definition = ToolDefinition("look", "Looks \ufffd", {"type": "object"})
    assert chat.options == RequestOptions((definition,), "required")
    assert chat.messages == (user("hi"),)


def test_f16_half_a_character_costs_no_request_of_another_kind() -> None:
    text = json.dumps({"modelId": "m", "text": "cut \ud83d"}).encode()
    assert decoded(text, CountTokens).text == "cut \ufffd"
    message = json.dumps(
        {"modelId": "m", "message": {"role": "user", "content": [{"a": "cut \ud83d"}]}}
    ).encode()
    assert decoded(message, CountTokens).message == {"role": "user", "content": [{"a": "cut \ufffd"}]}
    tool = json.dumps({"name": "t", "input": {"title": "cut \ud83d"}}).encode()
    assert decoded(tool, ToolInput).input == {"title": "cut \ufffd"}


@pytest.mark.parametrize("params", [b"{", b"[]", b'{"modelId": 1}', b"[" * 100_000, b'{"modelId":"\xff"}'])
def test_what_has_another_form_is_said_to_have_it(params: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decoded(params, CountTokens)


def test_a_part_that_nobody_knows_is_kept_out_of_the_way() -> None:
    (message,) = decode_chat_request(_params({"type": "hologram"}, {"type": "text", "value": "hi"})).messages
    assert message.content == (DataPart(UNKNOWN_PART, b'{"type":"hologram"}'), TextPart("hi"))


@pytest.mark.parametrize(
    "params", [b"{", b"[]", b'{"modelId": 1, "messages": []}', b"[" * 100_000, b'"\xff"']
)
def test_what_is_no_request_is_said_to_be_none(params: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_chat_request(params)


def test_nesting_near_the_limit_is_read_or_refused_and_nothing_else() -> None:
    ways: set[str] = set()
    for depth in (*range(100, 200), *range(900, 1_100)):
        nested = b'{"type":"x","v":' + b"[" * depth + b"]" * depth + b"}"
        try:
            decode_chat_request(_params("here").replace(b'"here"', nested))
        except (msgspec.MsgspecError, LanguageModelError):
            ways.add("refused")
        else:
            ways.add("read")
    assert ways == {"read", "refused"}
