"""Items that no part has a form for: what consumers with and without them get."""

import base64
from typing import Any

import pytest

from dragoman.lm import DataPart, Features, Part, Presentation, Style, TextPart
from dragoman.lm.foreign_items import (
    file_in_event,
    file_item,
    file_of,
    ignored_files,
    is_call,
    is_heading,
    item_line,
    item_of,
    item_part,
    picture_of,
)
from dragoman.lm.guard import EMPTY_ANSWER, GuardedModel
from dragoman.lm.parts import ANNOTATION, IGNORED, ITEM, ITEM_EVENT, LOGPROBS, REFUSAL
from lm.providers import ask, plays, respond

_WITH = Features(items=True, reports=True)
_PNG = b"\x89PNG..."
_CODED = base64.b64encode(_PNG).decode()
_PICTURE: dict[str, Any] = {"type": "image_generation_call", "id": "ig", "result": _CODED}
_SEARCH: dict[str, Any] = {"type": "web_search_call", "id": "ws"}
_HEADING: dict[str, Any] = {"type": "message", "role": "assistant"}


def _shown(features: Features, *parts: Part) -> list[Part]:
    presentation = Presentation(features, Style())
    return [shown for part in parts for shown in presentation.present(part)]


@pytest.mark.parametrize(
    ("item", "picture"),
    [
        (_PICTURE, DataPart("image/png", _PNG)),
        ({**_PICTURE, "result": base64.b64encode(b"GIF89a").decode()}, DataPart("image/gif", b"GIF89a")),
        ({**_PICTURE, "result": base64.b64encode(b"what").decode()}, DataPart("image/png", b"what")),
        ({**_PICTURE, "result": None}, None),
        ({**_PICTURE, "result": ""}, None),
        ({**_PICTURE, "result": "no base64!"}, None),
        (
            {
                "type": "message",
                "content": [{"type": "output_image", "image_url": f"data:image/jpeg;base64,{_CODED}"}],
            },
            DataPart("image/jpeg", _PNG),
        ),
        (
            {"type": "message", "content": [{"type": "output_image", "image_url": "https://a.example/x"}]},
            None,
        ),
        (_SEARCH, None),
    ],
)
def test_the_picture_of_an_item(item: dict[str, Any], picture: DataPart | None) -> None:
    assert picture_of(item) == picture


def test_an_item_of_ours_is_a_file_with_its_type_and_name() -> None:
    file = DataPart("application/pdf", b"%PDF", name="a.pdf")
    item = file_item(file, "file_1")
    assert file_of(item) == file
    assert file_of({**item, "name": None}) == DataPart("application/pdf", b"%PDF")
    assert (file_of({**item, "data": "no base64!"}), file_of({**item, "mime_type": 1})) == (None, None)
    assert file_of(_PICTURE) == picture_of(_PICTURE)
    for features in (Features(), Features(data=True)):
        assert _shown(features, item_part(item)) == _shown(features, file)


def test_what_an_item_is() -> None:
    assert (is_heading(_HEADING), is_heading({**_HEADING, "content": [{}]}), is_heading(_SEARCH)) == (
        True,
        False,
        False,
    )
    assert (is_call(_SEARCH), is_call(_HEADING)) == (True, False)
    assert item_of(item_part(_SEARCH)) == _SEARCH
    assert item_of(DataPart(ITEM, b"[1]")) == {}
    assert item_of(DataPart(ITEM, b"no JSON")) == {}
    assert "`web_search_call`" in item_line(_SEARCH)
    assert "`custom_tool_call` `patch`" in item_line({"type": "custom_tool_call", "name": "patch"})
    assert ignored_files(["a/b", "c/d"]) == DataPart.json(["input (a/b)", "input (c/d)"], IGNORED)


def test_s11_a_consumer_with_items_gets_them_and_files_as_they_are() -> None:
    parts = (
        item_part(_SEARCH),
        item_part(_HEADING),
        DataPart.json({"type": "x"}, ITEM_EVENT),
        DataPart.json({"type": "url_citation"}, ANNOTATION),
        DataPart.json([], LOGPROBS),
        DataPart(REFUSAL, b"No."),
        DataPart("image/png", _PNG),
        DataPart.json(["x"], IGNORED),
    )
    assert _shown(_WITH, *parts) == list(parts)


@pytest.mark.parametrize("features", [Features(), Features(data=True), Features(reports=True)])
def test_s11_a_consumer_without_items_gets_what_it_can_show(features: Features) -> None:
    assert _shown(features, item_part(_PICTURE)) == _shown(features, DataPart("image/png", _PNG))
    assert _shown(features, item_part(_SEARCH)) == [TextPart(item_line(_SEARCH))]
    assert _shown(features, DataPart(REFUSAL, b"No.")) == [TextPart("No.")]
    hidden = (
        item_part(_HEADING),
        DataPart.json({}, ITEM_EVENT),
        DataPart.json({}, ANNOTATION),
        DataPart.json([], LOGPROBS),
    )
    assert _shown(features, *hidden) == []
    report = DataPart.json(["x"], IGNORED)
    assert _shown(features, report) == ([report] if features.reports else [])


@pytest.mark.parametrize(
    ("part", "is_empty"),
    [
        (item_part(_SEARCH), False),
        (DataPart("image/png", _PNG), False),
        (DataPart(REFUSAL, b"No."), False),
        (item_part(_HEADING), True),
        (DataPart.json({}, ANNOTATION), True),
    ],
)
async def test_s9_an_item_or_a_file_is_an_answer(part: DataPart, is_empty: bool) -> None:  # noqa: FBT001 - a table
    parts = await respond(GuardedModel(plays(part)), ask(features=_WITH))
    assert (TextPart(EMPTY_ANSWER) in parts) == is_empty
    assert parts[0] == part


async def test_t14_a_call_of_an_endpoints_own_tool_is_the_call_that_was_required() -> None:
    request = ask(features=_WITH, tool_mode="required")
    assert await respond(GuardedModel(plays(item_part(_SEARCH))), request) == [item_part(_SEARCH)]


@pytest.mark.parametrize(
    ("event", "file"),
    [
        ({"mime_type": "image/png", "data": _CODED}, DataPart("image/png", _PNG)),
        (
            {"file": {"mediaType": "image/png", "data": _CODED, "filename": "a.png"}},
            DataPart("image/png", _PNG, name="a.png"),
        ),
        (
            {"file": {"file_data": f"data:image/png;base64,{_CODED}", "name": "b"}},
            DataPart("image/png", _PNG, name="b"),
        ),
        ({"data": _CODED}, None),
        ({"mime_type": "image/png"}, None),
        ({"mime_type": "image/png", "data": "no base64!"}, None),
    ],
)
def test_a_file_stands_in_its_event_under_the_names_that_are_in_use(
    event: dict[str, Any], file: DataPart | None
) -> None:
    assert file_in_event(event) == file
