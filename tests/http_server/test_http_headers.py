"""A header of ours has known values, and any other value is an error that names them."""

from collections.abc import Callable

import pytest

from dragoman.frontends.http.request_headers import (
    SwitchHeader,
    client_behind,
    hold_seconds,
    is_switched_on,
    renders_markdown,
)
from dragoman.lm import TextPart
from http_server.kit import Site

_Make = Callable[..., Site]
_BODIES = {
    "/v1/responses": {"model": "m", "input": "x"},
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
}


@pytest.mark.parametrize("path", _BODIES)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x-dragoman-activity", "one value: `items`. Send that,"),
        ("x-dragoman-approvals", "one value: `items`. Send that,"),
        ("x-dragoman-aside", "the values `true`, `1`, `false` and `0`. Send one of them,"),
        ("x-dragoman-files", "the values `links`, `items` and `data`. Send one of them,"),
        ("x-dragoman-markdown", "the values `true`, `1`, `false` and `0`. Send one of them,"),
        ("x-dragoman-one-shot", "the values `true`, `1`, `false` and `0`. Send one of them,"),
        ("x-dragoman-paths", "one value: `hidden`. Send that,"),
    ],
)
@pytest.mark.parametrize("value", ["text", "", "items, text", "yes", "2"])
async def test_another_value_of_a_header_is_an_error(
    playing: _Make, path: str, name: str, values: str, value: str
) -> None:
    answered = await playing(TextPart("x")).post(path, _BODIES[path], **{name: value})
    assert (answered.status, answered.error["param"], answered.error["code"]) == (400, name, "invalid_header")
    assert answered.error["message"] == f"The header {name} has {values} or leave the header out."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-dragoman-client", "a b"),
        ("x-dragoman-client", "x" * 65),
        ("x-dragoman-hold", ""),
        ("x-dragoman-hold", "-1"),
        ("x-dragoman-hold", "inf"),
        ("x-dragoman-hold", "9" * 7),
    ],
)
async def test_neither_a_client_nor_a_time_can_be_anything(playing: _Make, name: str, value: str) -> None:
    for path, body in _BODIES.items():
        answered = await playing(TextPart("x")).post(path, body, **{name: value})
        assert (answered.status, answered.error["param"]) == (400, name)
        assert "leave the header out" in answered.error["message"]


@pytest.mark.parametrize(
    ("headers", "client", "seconds"),
    [
        ({}, "", None),
        ({"x-dragoman-client": "", "x-dragoman-hold": "0"}, "", 0.0),
        ({"x-dragoman-client": " a-1_B ", "x-dragoman-hold": " 0.05 "}, "a-1_B", 0.05),
    ],
)
def test_a_server_says_which_client_it_is_and_how_long_that_waits(
    headers: dict[str, str], client: str, seconds: float | None
) -> None:
    assert (client_behind(headers), hold_seconds(headers)) == (client, seconds)


@pytest.mark.parametrize(
    ("name", "value", "is_on"),
    [
        ("x-dragoman-activity", "items", True),
        ("x-dragoman-approvals", " ITEMS ", True),
        ("x-dragoman-aside", "true", True),
        ("x-dragoman-aside", "1", True),
        ("x-dragoman-aside", " TRUE ", True),
        ("x-dragoman-aside", "False", False),
        ("x-dragoman-aside", "0", False),
        ("x-dragoman-files", "Links", True),
        ("x-dragoman-files", " DATA ", False),
        ("x-dragoman-markdown", "TRUE", True),
        ("x-dragoman-one-shot", "1", True),
    ],
)
async def test_the_case_of_a_value_does_not_matter(
    playing: _Make,
    name: SwitchHeader,
    value: str,
    is_on: bool,  # noqa: FBT001 - a case
) -> None:
    assert is_switched_on({name: value}, name) == is_on
    assert not is_switched_on({}, name)
    answered = await playing(TextPart("x")).create(input="x", headers={name: value})
    assert answered.status == 200


@pytest.mark.parametrize("path", _BODIES)
async def test_a_header_that_looks_like_ours_is_named_as_ignored(playing: _Make, path: str) -> None:
    answered = await playing(TextPart("x")).post(path, _BODIES[path], **{"x-dragoman-workspac": "/src"})
    assert (answered.status, answered.headers["x-dragoman-ignored"]) == (200, "x-dragoman-workspac")


@pytest.mark.parametrize(
    ("headers", "renders"),
    [
        ({}, False),
        ({"user-agent": "OpenAI/Python 2.0"}, False),
        ({"user-agent": "Mozilla/5.0 opencode/1.0"}, False),
        ({"user-agent": "opencode/1.15.4 (linux; x64) ai-sdk/4.0"}, True),
        ({"x-openwebui-chat-id": "c"}, True),
        ({"x-openwebui-chat-id": "c", "x-dragoman-markdown": "false"}, False),
        ({"x-dragoman-markdown": "true"}, True),
    ],
)
def test_markdown_is_for_clients_that_say_so_or_are_known_for_it(
    headers: dict[str, str],
    renders: bool,  # noqa: FBT001 - a case
) -> None:
    assert renders_markdown(headers) == renders
