"""Results of tools: of bounded size, of text that is text."""

from __future__ import annotations

import pytest

from dragoman.lm import DataPart, TextPart
from dragoman.lm.parts import ToolResult
from dragoman.tools.result import MAX_RESULT_BYTES, MAX_RESULT_PARTS, bounded, failure_text, result_of


def test_a_result_within_the_limits_is_left_as_it_is() -> None:
    result = ToolResult((TextPart("x" * MAX_RESULT_BYTES),))
    assert bounded(result) is result


def test_t22_a_text_of_5_mb_is_cut_with_a_notice() -> None:
    cut = bounded(ToolResult((TextPart("é" * 2_500_000, audience=("model",)),), is_error=True))
    text, notice = cut.content
    assert isinstance(text, TextPart)
    assert isinstance(notice, TextPart)
    assert len(text.value.encode()) == MAX_RESULT_BYTES
    assert text.audience == ("model",)
    assert (
        "This result was cut: it has 5,000,000 bytes in 1 parts; the limit is 4,194,304 bytes" in notice.value
    )
    assert cut.is_error


def test_t22_a_character_is_never_cut_in_half() -> None:
    cut = bounded(ToolResult((TextPart("x"), TextPart("😀" * MAX_RESULT_BYTES))))
    assert isinstance(cut.content[1], TextPart)
    assert set(cut.content[1].value) == {"😀"}


def test_t22_data_that_does_not_fit_is_left_out_whole() -> None:
    image = DataPart.image(b"x" * MAX_RESULT_BYTES, "image/png")
    cut = bounded(ToolResult((TextPart("first"), image, TextPart("last"))))
    assert cut.content[0] == TextPart("first")
    assert len(cut.content) == 2
    assert isinstance(cut.content[1], TextPart)
    assert "was cut" in cut.content[1].value


def test_t22_the_number_of_parts_is_limited() -> None:
    cut = bounded(ToolResult((TextPart(""),) * (MAX_RESULT_PARTS + 1)))
    assert len(cut.content) == MAX_RESULT_PARTS
    assert isinstance(cut.content[-1], TextPart)
    assert "in 1,001 parts" in cut.content[-1].value


@pytest.mark.parametrize(("text", "mended"), [("a\ud83d\ude00b", "a😀b"), ("a\ud83d", "a\ufffd"), ("é", "é")])
def test_f16_halves_of_characters_are_joined_or_replaced(text: str, mended: str) -> None:
    assert result_of(text) == ToolResult.text(mended)
    assert failure_text(ValueError(text)) == f"Error: ValueError: {mended}"


def test_an_exception_without_words_is_told_by_its_name() -> None:
    assert failure_text(KeyboardInterrupt()) == "Error: KeyboardInterrupt"


def test_a_long_message_of_an_exception_is_cut() -> None:
    assert len(failure_text(ValueError("x" * 100_000))) < 5_000
