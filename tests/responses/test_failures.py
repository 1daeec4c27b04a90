"""What errors mean, and whether to ask again: without a network."""

from datetime import UTC, datetime

import pytest

from dragoman.backends.responses.failures import EndpointComplaint, complaint_of_body
from dragoman.backends.responses.retries import Trouble, pause_before_retry, retry_after_seconds
from dragoman.backends.responses.settings import EndpointSettings


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            b'{"error": {"message": "m", "type": "t", "code": "c", "param": "p"}}',
            EndpointComplaint("m", "c", "p"),
        ),
        (b'{"error": {"message": "m", "type": "t", "code": null}}', EndpointComplaint("m", "t")),
        (b'{"error": {"message": "m", "code": 400}}', EndpointComplaint("m")),
        (b'{"error": "words"}', EndpointComplaint("words")),
        (
            b'{"object": "error", "message": "m", "type": "BadRequestError", "code": 400}',
            EndpointComplaint("m"),
        ),
        (b'{"detail": "Not Found"}', EndpointComplaint("Not Found")),
        (b'[{"error": {"message": "m"}}]', EndpointComplaint("m")),
        (b"<html><h1>502 Bad\n Gateway</h1></html>", EndpointComplaint("502 Bad Gateway")),
        (b"upstream \xff", EndpointComplaint("upstream �")),
        (b"[]", EndpointComplaint()),
        (b"", EndpointComplaint()),
    ],
)
def test_r5_errors_in_the_forms_that_servers_have_for_them(body: bytes, complaint: EndpointComplaint) -> None:
    found = complaint_of_body(body)
    assert found.message == complaint.message
    assert complaint.code in ("", found.code)
    assert found.param == complaint.param


@pytest.mark.parametrize(
    ("trouble", "tries", "retry_after", "pause"),
    [
        (429, 1, None, 1.0),
        (429, 2, None, 2.0),
        (429, 3, None, 4.0),
        (429, 4, None, None),
        (429, 1, 30.0, 30.0),
        (429, 1, 0.0, 0.0),
        (429, 1, 61.0, None),
        (429, 4, 1.0, None),
        (500, 1, None, 1.0),
        (500, 2, None, None),
        ("connection", 3, None, 4.0),
        (400, 1, None, None),
        (200, 1, None, None),
    ],
)
def test_r6_pauses(trouble: Trouble, tries: int, retry_after: float | None, pause: float | None) -> None:
    assert pause_before_retry(trouble, tries, retry_after, lambda: 1.0) == pause


def test_r6_pauses_are_not_all_the_same() -> None:
    assert pause_before_retry(429, 2, None, lambda: 0.0) == 1.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("5", 5.0),
        ("0.5", 0.5),
        ("soon", None),
        ("-5", None),
        ("inf", None),
        ("Fri, 02 Jan 2026 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 00:00:00 GMT", 0.0),
    ],
)
def test_r6_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, datetime(2026, 1, 2, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    "base_url", ["http://a/v1", "http://a/v1/", "http://a/v1/responses", "http://a/v1/responses/"]
)
def test_an_address_may_be_given_with_or_without_its_end(base_url: str) -> None:
    assert EndpointSettings("m", "M", base_url, "x").url == "http://a/v1"
