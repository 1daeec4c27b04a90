"""R7, R10: the tokens that a model names reach the client. No number is made up."""

from collections.abc import Callable

import pytest

from dragoman.lm import LanguageModelError, TextPart, UsagePart
from http_server.kit import Json, Site

_Play = Callable[..., Site]
_WHOLE = UsagePart(7, 3, cached=5, reasoning=2)
_SAID = TextPart("Yes.")


async def _completed(made: Site, **fields: object) -> Json:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}
    answered = await made.post("/v1/chat/completions", body)
    return answered.data[-1] if "stream" in fields else answered.json


async def test_r7_all_counts_of_a_model_are_in_a_response(playing: _Play) -> None:
    made = playing(_SAID, _WHOLE)
    expected = {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 10,
    }
    assert (await made.create(input="x")).response["usage"] == expected
    assert (await made.create(input="x", stream=True)).streamed["usage"] == expected


async def test_r10_all_counts_of_a_model_are_in_a_completion(playing: _Play) -> None:
    made = playing(_SAID, _WHOLE)
    expected = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert (await _completed(made))["usage"] == expected
    streamed = await _completed(made, stream=True, stream_options={"include_usage": True})
    assert streamed["usage"] == expected


async def test_r7_details_that_no_model_named_are_left_out_where_the_dialect_allows_it(
    playing: _Play,
) -> None:
    made = playing(_SAID, UsagePart(7, 3, 12))
    whole = (await _completed(made))["usage"]
    assert whole == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 12}
    # Open Responses requires both details.
    usage = (await made.create(input="x")).response["usage"]
    assert (usage["input_tokens_details"], usage["total_tokens"]) == ({"cached_tokens": 0}, 12)


@pytest.mark.parametrize(
    "usage", [UsagePart(7), UsagePart(output=3), UsagePart(total=10), UsagePart(context_used=7)]
)
async def test_r7_without_both_counts_there_is_no_usage(playing: _Play, usage: UsagePart) -> None:
    made = playing(_SAID, usage)
    assert (await made.create(input="x")).response["usage"] is None
    assert "usage" not in await _completed(made)


async def test_r7_a_later_usage_replaces_the_earlier_one(playing: _Play) -> None:
    made = playing(UsagePart(1, 1), _SAID, UsagePart(7, 3))
    assert (await made.create(input="x")).response["usage"]["total_tokens"] == 10


async def test_r7_an_answer_that_failed_has_its_usage(playing: _Play) -> None:
    made = playing(_SAID, _WHOLE, then=LanguageModelError("agent_failed", "It broke."))
    response = (await made.create(input="x", stream=True)).streamed
    assert (response["status"], response["usage"]["total_tokens"]) == ("failed", 10)


async def test_r7_a_usage_is_nothing_said(playing: _Play) -> None:
    """A failure after it still has a status."""
    made = playing(_WHOLE, then=LanguageModelError("unavailable", "Busy."))
    assert (await made.create(input="x", stream=True)).status == 503


async def test_r7_tokens_of_both_dialects_are_counted(playing: _Play) -> None:
    made = playing(_SAID, UsagePart(7, 3))
    await made.create(input="x")
    await _completed(made)
    counts = (await made.get("/metrics")).writes[0].decode()
    assert 'dragoman_tokens_total{model="test",direction="input"} 14' in counts


async def test_r7_packing_a_history_uses_no_tokens(playing: _Play) -> None:
    """No model is asked."""
    made = playing(_SAID)
    packed = (await made.post("/v1/responses/compact", {"model": "m", "input": "Hello."})).json
    usage = packed["usage"]
    assert [usage[f"{name}_tokens"] for name in ("input", "output", "total")] == [0, 0, 0]
