"""Back-pressure: reading from the agent is paused while a listener is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from dragoman.lm import ActivityPart, DataPart, Part, PlanPart, Sink, TextPart, ThinkingPart

__all__ = ["Backpressure", "Flow", "size_of"]

# Sinks are drained after so many bytes: often enough that buffers stay small, seldom enough that a part costs nothing.
_DRAIN_BYTES = 256 * 1024
# What a part costs beside what is in it.
_PART_BYTES = 64


class Flow(Protocol):
    """A source that can be paused."""

    def pause_reading(self, by: object) -> None: ...

    def resume_reading(self, by: object) -> None: ...


class Backpressure:
    """Pauses `flow` after some output, until all sinks are drained."""

    def __init__(self, flow: Flow, sinks: Callable[[], Iterable[Sink]]) -> None:
        self._flow = flow
        self._sinks = sinks
        self._undrained = 0
        self._drain: asyncio.Task[None] | None = None

    def given(self, part: Part) -> None:
        self._undrained += _PART_BYTES + len(part.value) if isinstance(part, TextPart) else size_of(part)
        if self._undrained > _DRAIN_BYTES and self._drain is None:
            self._undrained = 0
            self._flow.pause_reading(self)
            self._drain = asyncio.create_task(self._drain_all())

    def stop(self) -> None:
        """Stop pausing. Sinks that are behind drain without it."""
        if self._drain is not None:
            self._drain.cancel()
        self._flow.resume_reading(self)

    async def _drain_all(self) -> None:
        try:
            for sink in list(self._sinks()):
                await sink.drain()
        finally:
            self._drain = None
            self._flow.resume_reading(self)


def size_of(part: Part) -> int:
    """About how many bytes of memory a part takes."""
    match part:
        case TextPart():
            return _PART_BYTES + len(part.value)
        case ThinkingPart(value=str(value)) | DataPart(data=value):
            return _PART_BYTES + len(value)
        case ActivityPart():
            return _PART_BYTES + len(part.title) + len(part.diff or "") + len(part.output or "")
        case PlanPart():
            return _PART_BYTES + sum(_PART_BYTES + len(entry.text) for entry in part.entries)
        case _:
            return _PART_BYTES
