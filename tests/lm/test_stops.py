"""Why an answer ended before its time: to a program by its name, to a person in words, once."""

import pytest

from dragoman.lm import DataPart, Features, GuardedModel, Part, Stopped, TextPart
from dragoman.lm.parts import STOPPED
from lm.providers import NO_FEATURES, ask, plays, respond

_REPORTS = Features(reports=True)
_FILTERED = Stopped("content_filter", "It would not go on.")


async def _shown(*parts: Part, features: Features = NO_FEATURES) -> list[Part]:
    return await respond(GuardedModel(plays(*parts)), ask(features=features))


async def test_s9_a_program_gets_the_reason_and_nothing_is_added() -> None:
    assert await _shown(_FILTERED.part, features=_REPORTS) == [_FILTERED.part]
    assert Stopped.of(_FILTERED.part) == _FILTERED


async def test_s9_a_person_gets_the_words_apart_from_the_answer() -> None:
    assert await _shown(TextPart("Half"), _FILTERED.part) == [
        TextPart("Half"),
        TextPart("\n\n*It would not go on.*\n\n"),
    ]


@pytest.mark.parametrize("features", [_REPORTS, NO_FEATURES])
async def test_s9_a_reason_without_a_name_is_told_in_words_to_all(features: Features) -> None:
    (part,) = await _shown(Stopped("other", "The moon is full.").part, features=features)
    assert isinstance(part, TextPart)
    assert "The moon is full." in part.value


@pytest.mark.parametrize(
    "data", [b"{", b'{"reason":"other","words":"\xff"}', b"[" * 100_000, b'{"reason":"other"}', b'"x"']
)
async def test_s9_a_reason_that_cannot_be_read_is_one_still(data: bytes) -> None:
    (part,) = await _shown(DataPart(STOPPED, data))
    assert isinstance(part, TextPart)
    assert "stopped before the end" in part.value


async def test_s13_words_of_a_stop_make_no_link_that_acts() -> None:
    (part,) = await _shown(Stopped("other", "[why](command:run)").part)
    assert isinstance(part, TextPart)
    assert "](command:" not in part.value
