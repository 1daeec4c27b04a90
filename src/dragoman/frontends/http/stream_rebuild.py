"""Computes the events of a background response from its stored parts. Values in, values out.

The same parts give the same events, with the same ids and numbers. So a client that resumes a stream gets exactly the
events that it missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from dragoman.frontends.http.approvals import is_approval
from dragoman.frontends.http.errors import ApiError, ErrorType
from dragoman.frontends.http.ignored import IGNORED_KEY, with_ignored
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.stream import ResponseStream
from dragoman.journal.events import AnyEvent
from dragoman.journal.response_events import PartsReported, ResponseClosed, ResponseOpened
from dragoman.lm import JsonObject, Part

__all__ = ["PartOrEnd", "drop", "last_events", "new_stream", "rebuilt", "server_ended"]

# Each part of a response, and then its end.
PartOrEnd: TypeAlias = Part | ResponseClosed


class _Error(msgspec.Struct, frozen=True):
    message: str
    type: ErrorType
    code: str
    param: str | None = None


def server_ended() -> ApiError:
    return ApiError(
        500,
        "server_error",
        "The server ended before the response did. What the model had said until then is in `output`.",
        code="server_ended",
    )


def new_stream(resource: Resource, opened: ResponseOpened) -> ResponseStream:
    if opened.ignored is not None:
        # A stored response names all that was ignored. Its first events did not.
        others = {key: value for key, value in resource.metadata.items() if key != IGNORED_KEY}
        resource.metadata = with_ignored(others, filter(None, opened.ignored.split(", ")))
    return ResponseStream(
        resource,
        reasoning=opened.reasoning,
        as_approval=is_approval if opened.approves_items else lambda _call: False,
    )


def rebuilt(resource: Resource, opened: ResponseOpened, events: Iterable[AnyEvent]) -> ResponseStream:
    """Return a stream that has had the parts, and perhaps the end, among these events."""
    stream = new_stream(resource, opened)
    drop(stream.begin())
    for event in events:
        if isinstance(event, PartsReported):
            for part in event.parts:
                drop(stream.take(part))
        elif isinstance(event, ResponseClosed):
            drop(last_events(stream, event))
    return stream


def drop(events: Iterator[JsonObject]) -> None:
    """Build events for no client. The stream's response changes all the same."""
    deque(events, maxlen=0)


def last_events(stream: ResponseStream, closed: ResponseClosed, after: int = -1) -> Iterator[JsonObject]:
    """Yield the events of the end. `after` is the number of the last event that the client has."""
    stream.resource.usage = closed.usage
    if closed.is_cut:
        # The client may have events that were sent and not yet stored. The end still follows them.
        stream.skip_to(after + 1)
    match closed.end:
        case "completed":
            return stream.complete(closed.at)
        case "cancelled":
            return stream.cancel()
        case "failed":
            return stream.fail(_error(closed.error))


def _error(stored: JsonObject | None) -> ApiError:
    """Return the error of an end. Without content, the journal has only the fact that the response failed."""
    if stored is None:
        return ApiError(
            500,
            "server_error",
            'The response failed. The reason is not stored, because `content` in [journal] is not "full".',
        )
    error = msgspec.convert(stored, _Error)
    return ApiError(500, error.type, error.message, code=error.code, param=error.param)
