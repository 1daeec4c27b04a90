"""Checks of what a model endpoint says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.backends.responses.events import ResponseReader
from dragoman.backends.responses.failures import Address, complaint_of_body, http_failure
from dragoman.backends.responses.listing import listed_models
from dragoman.backends.responses.retries import retry_after_seconds
from dragoman.backends.responses.sse import EventTooLarge, ServerEvent, SseReader
from dragoman.jsonrpc.text import Decoder
from dragoman.lm import LanguageModelError, TextPart, ThinkingPart, ToolCallPart
from dragoman.lm.json import decode, encode
from fuzz.check import pieces

__all__ = ["endpoint_bodies", "response_events", "retry_after", "server_sent_events"]

_SMALL_LIMIT = 200
# A message of 500 characters, and a few sentences of our own.
_LONGEST_ERROR = 1_500
_event_decoder = Decoder(dict)


def server_sent_events(data: bytes) -> None:
    """Cut anywhere, the same events; those that the specification's own steps give."""
    events = _events([data])
    assert events == _events(pieces(data))
    if events is not None:
        assert [(event.name, event.data) for event in events] == list(_by_the_book(data))


def _events(cut: Iterable[bytes]) -> list[ServerEvent] | None:
    reader = SseReader(limit=_SMALL_LIMIT)
    try:
        events = [event for piece in cut for event in reader.feed(piece)]
    except EventTooLarge:
        return None
    last = reader.end()
    return events if last is None else [*events, last]


def _by_the_book(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Line by line; unlike the specification, an event that the end of the stream cuts off counts."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    name = b""
    collected: list[bytes] = []
    for line in (*lines, b""):
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if not line:
            if collected:
                yield name.decode("utf-8", "replace"), b"\n".join(collected)
            name, collected = b"", []
        elif field == b"data":
            collected.append(value)
        elif field == b"event":
            name = value


def response_events(data: bytes) -> None:
    """Nothing is told that was not said: no call twice, and no more words than came."""
    made: list[str] = []
    words = 0

    def call(call_id: str, name: str, arguments: str) -> ToolCallPart:
        made.append(call_id)
        return ToolCallPart(call_id, name, {"arguments": arguments})

    answer = ResponseReader(call, lambda wire_id: f"dg_{wire_id}")
    reader = SseReader()
    for event in (*reader.feed(data), reader.end()):
        if event is None:
            continue
        try:
            value = _event_decoder.decode(event.data)
            for part in answer.feed(value):
                encode(part)
                words += len(part.value) if isinstance(part, TextPart | ThinkingPart) else 0
        except (msgspec.DecodeError, LanguageModelError):
            break
    assert len(made) == len(set(made))
    # Notices of ours are sentences, at most one with every event.
    assert words <= 2 * len(data) + 200 * data.count(b"data")


def endpoint_bodies(data: bytes) -> None:
    """An error and a list of models: the first byte is for the status. What is told of an error can be read."""
    status = 300 + 2 * (data[0] if data else 0)
    address = Address("Gateway", "https://gateway.example/v1", "large", "the environment variable KEY")
    error = http_failure(status, complaint_of_body(data[1:]), address)
    assert len(error.sentence) < _LONGEST_ERROR
    assert error.message.startswith("Gateway answered with status")
    try:
        models = listed_models(decode(data[1:]))
    except msgspec.DecodeError:
        return
    for model in models:
        assert (model.max_input_tokens or 1) > 0
        assert (model.max_output_tokens or 1) > 0


def retry_after(data: bytes) -> None:
    seconds = retry_after_seconds(data.decode("latin-1"))
    assert seconds is None or 0 <= seconds < float("inf")
