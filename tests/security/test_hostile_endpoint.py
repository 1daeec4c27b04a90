"""A model endpoint that means ill: it has the conversation, and should get nothing else of the machine."""

import json
import zlib

import pytest

from dragoman.backends.responses.sse import MAX_EVENT_BYTES
from dragoman.lm import CancellationToken, LanguageModelError, Request, Response, user
from responses.endpoint import EVERYTHING, Endpoint, Reply, endpoint as endpoint_, model_of, sse

_HELLO = Request((user("Hello."),), consumer=EVERYTHING)
_EVENTS = {"Content-Type": "text/event-stream"}


async def _failure(served: Endpoint, key: str | None = None) -> LanguageModelError:
    model = model_of(served.url, key=key)
    try:
        with pytest.raises(LanguageModelError) as caught:
            await model.respond(_HELLO, Response(), CancellationToken())
    finally:
        await model.close()
    return caught.value


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirection_does_not_carry_the_key_elsewhere(endpoint: Endpoint, status: int) -> None:
    async with endpoint_() as other:
        endpoint.will(Reply((), status, {"Location": f"{other.url}/responses"}))
        await _failure(endpoint, key="sk-very-secret-key")
        assert other.asked == []


def _bomb() -> tuple[bytes, ...]:
    """A gzip of an event without end: each block is a megabyte when it is unpacked."""
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    begin = packing.compress(b"data: ") + packing.flush(zlib.Z_FULL_FLUSH)
    block = packing.compress(b"x" * 1024 * 1024) + packing.flush(zlib.Z_FULL_FLUSH)
    return (b"\x1f\x8b\x08\0\0\0\0\0\0\xff", begin, *[block] * (MAX_EVENT_BYTES // 1024 // 1024 + 8))


@pytest.mark.long
async def test_a_compressed_bomb_ends_at_the_limit_of_an_event(endpoint: Endpoint) -> None:
    bomb = _bomb()
    assert sum(map(len, bomb)) < MAX_EVENT_BYTES // 500
    endpoint.will(Reply(bomb, headers={**_EVENTS, "Content-Encoding": "gzip"}, then="hold"))
    error = await _failure(endpoint)
    assert error.kind == "agent_failed"
    assert f"{MAX_EVENT_BYTES:,} bytes" in error.message
    assert endpoint.posts[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "event", [b'{"type":"x","a":"\xff"}', b'{"type":"x","a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"]
)
async def test_an_event_that_is_no_json_is_told_and_nothing_breaks(endpoint: Endpoint, event: bytes) -> None:
    endpoint.will(Reply((sse({"type": "response.created"}) + b"data: " + event + b"\n\n",)))
    error = await _failure(endpoint)
    assert error.kind == "unavailable"
    assert "not JSON" in error.message


async def test_an_error_without_end_is_read_up_to_a_limit(endpoint: Endpoint) -> None:
    body = json.dumps({"error": {"message": "x" * 10_000_000}}).encode()
    endpoint.will(Reply((body,), 400, {"Content-Type": "application/json"}))
    assert len((await _failure(endpoint)).sentence) < 100_000
