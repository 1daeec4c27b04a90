"""Answers as MCP content."""

import base64

import mcp_types
import pytest

from dragoman.backends.agent.toolserver import content
from dragoman.lm import ContentPart, DataPart, JsonObject, TextPart, json
from dragoman.lm.parts import ToolResult


def _sent(*parts: ContentPart, is_error: bool = False) -> JsonObject:
    sent = content.result(ToolResult(parts, is_error=is_error))
    # The official library reads out of it what we have written into it.
    read = mcp_types.CallToolResult.model_validate_json(json.encode(sent))
    assert read.model_dump(by_alias=True, mode="json", exclude_none=True) == {
        **sent,
        "resultType": "complete",
    }
    return sent


def _read(*parts: ContentPart) -> list[mcp_types.ContentBlock]:
    return mcp_types.CallToolResult.model_validate(_sent(*parts)).content


def test_t13_parts_keep_their_order_and_kind() -> None:
    sent = _sent(
        TextPart("text"),
        DataPart.image(b"png", "image/png"),
        DataPart("audio/wav", b"wav"),
        DataPart("text/csv", b"a,b"),
        DataPart("application/vnd.api+json; charset=utf-8", b"{}"),
        DataPart("application/pdf", b"%PDF\xff"),
        DataPart("text/plain", b"\xff"),
    )
    assert sent["content"] == [
        {"type": "text", "text": "text"},
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"png").decode()},
        {"type": "audio", "mimeType": "audio/wav", "data": base64.b64encode(b"wav").decode()},
        _resource(4, "text/csv", text="a,b"),
        _resource(5, "application/vnd.api+json; charset=utf-8", text="{}"),
        _resource(6, "application/pdf", blob=base64.b64encode(b"%PDF\xff").decode()),
        _resource(7, "text/plain", blob=base64.b64encode(b"\xff").decode()),
    ]
    assert sent["isError"] is False
    assert "structuredContent" not in sent


def _resource(number: int, mime_type: str, **value: str) -> JsonObject:
    resource = {"uri": f"dragoman://result/{number}", "mimeType": mime_type, **value}
    return {"type": "resource", "resource": resource}


def test_t13_an_error_is_flagged() -> None:
    assert _sent(TextPart("no"), is_error=True)["isError"] is True


def test_t13_an_object_that_is_all_there_is_goes_into_the_field_of_its_own_too() -> None:
    sent = _sent(DataPart.json({"a": [None]}))
    assert sent["structuredContent"] == {"a": [None]}
    assert sent["content"] == [_resource(1, "application/json", text='{"a":[null]}')]


@pytest.mark.parametrize(
    "parts",
    [
        (TextPart("and"), DataPart.json({"a": 1})),
        (DataPart.json([1]),),
        (DataPart("application/json", b"{broken"),),
        (DataPart.json({"a": "x" * content.MAX_STRUCTURED_BYTES}),),
    ],
    ids=["with text", "a list", "broken", "large"],
)
def test_t13_other_json_stays_a_part(parts: tuple[ContentPart, ...]) -> None:
    sent = _sent(*parts)
    assert "structuredContent" not in sent
    assert len(_read(*parts)) == len(parts)


def test_parts_that_are_not_for_the_model_are_left_out() -> None:
    sent = _sent(
        TextPart("for the user", ("user",)),
        TextPart("for both", ("user", "model")),
        TextPart("for the editor", ("extension",)),
        DataPart("usage", b"{}"),
    )
    assert sent["content"] == [{"type": "text", "text": "for both"}]


def test_an_answer_without_content_is_a_result() -> None:
    assert _sent() == {"content": [], "isError": False}


def test_t22_text_is_cut_between_characters_and_an_image_behind_it_is_kept() -> None:
    text, image, notice = _read(
        TextPart("é" * content.MAX_TEXT_BYTES), TextPart("lost"), DataPart.image(b"png", "image/png")
    )
    assert isinstance(text, mcp_types.TextContent)
    assert text.text == "é" * (content.MAX_TEXT_BYTES // 2)
    assert isinstance(image, mcp_types.ImageContent)
    assert isinstance(notice, mcp_types.TextContent)
    assert "1,048,583 bytes in 3 parts" in notice.text
    assert f"{content.MAX_TEXT_BYTES:,} bytes of text" in notice.text


def test_t22_an_image_that_is_too_large_is_left_out_whole() -> None:
    blocks = _read(
        DataPart.image(bytes(content.MAX_RESULT_BYTES + 1), "image/png"), TextPart("what it shows")
    )
    assert [block.type for block in blocks] == ["text", "text"]


def test_t22_too_many_parts_are_cut() -> None:
    blocks = _read(*(TextPart("x") for _ in range(content.MAX_RESULT_PARTS + 5)))
    assert len(blocks) == content.MAX_RESULT_PARTS + 1


def test_half_of_a_surrogate_pair_does_not_stop_a_result() -> None:
    (block,) = _read(TextPart("\ud83d!"))
    assert isinstance(block, mcp_types.TextContent)
    assert block.text == "\ufffd!"
