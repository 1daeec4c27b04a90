"""A page in the user's browser, of any site, against the server on the user's machine."""

from collections.abc import Iterator

import pytest

from http_server.kit import Held, Json, Site, scripted, site_of

_BODY = b'{"model": "m", "input": "x"}'


@pytest.fixture
def site() -> Iterator[Site]:
    yield from site_of(Held(m=scripted("Yes.")))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # What a page may send without asking first, with the origin that every browser adds.
        ({"content-type": "text/plain", "origin": "https://evil.example"}, 403),
        ({"content-type": "application/x-www-form-urlencoded", "origin": "https://evil.example"}, 403),
        ({"content-type": "multipart/form-data; boundary=x", "origin": "null"}, 403),
        # A name of the page's own that was made to lead here.
        ({"host": "evil.example:8427", "origin": "http://evil.example:8427"}, 403),
        ({"host": "evil.example"}, 403),
        # A browser that names no origin is kept from everything but JSON.
        ({"content-type": "text/plain"}, 415),
    ],
)
async def test_a_simple_post_of_a_page_starts_nothing(
    site: Site, headers: dict[str, str], status: int
) -> None:
    for path in ("/v1/responses", "/v1/chat/completions", "/v1/responses/compact"):
        assert (await site.call("POST", path, _BODY, headers)).status == status
    assert site.service.metrics.text().count("dragoman_responses_total{") == 0


async def test_a_page_is_given_no_leave_by_a_preflight(site: Site) -> None:
    wanted = {"origin": "https://evil.example", "access_control_request_method": "POST"}
    answered = await site.call("OPTIONS", "/v1/responses", b"", wanted)
    assert answered.status == 403
    assert not any(name.startswith("access-control") for name in answered.headers)


@pytest.mark.parametrize(
    ("host", "origin"),
    [("localhost:8427", "https://evil.example"), ("localhost:8427", "null"), ("evil.example", None)],
)
async def test_a_websocket_of_a_page_is_not_accepted(site: Site, host: str, origin: str | None) -> None:
    """Browsers ask nobody before they open one: only the server can refuse."""
    headers = {"host": host} | ({"origin": origin} if origin else {})
    sent: list[Json] = []

    async def receive() -> Json:
        return {"type": "websocket.connect"}

    async def send(message: Json) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/v1/responses",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "extensions": {"websocket.http.response": {}},
    }
    await site.app(scope, receive, send)
    assert [message["type"] for message in sent] == [
        "websocket.http.response.start",
        "websocket.http.response.body",
    ]
    assert sent[0]["status"] == 403
