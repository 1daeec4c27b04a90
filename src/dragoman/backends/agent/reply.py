"""A reply under way: what was said of it, and who listens.

Usually one request listens. A consumer that sends the same request again, because its connection broke or it lost
patience, joins: it hears all that was said so far, and then the rest. A reply nobody listens to any more is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from dragoman.backends.agent.history import Answer
from dragoman.backends.agent.vocabulary import ReplyEnd
from dragoman.lm import Features, LanguageModelError, Part, Presentation, Response, Sink, Style

__all__ = ["Flow", "Reply", "size_of"]

# A sink is waited for after so many bytes: often enough that little piles up, seldom enough to cost nothing a part.
_DRAIN_BYTES = 256 * 1024
# What a part costs beside what is in it.
_PART_BYTES = 64


class Flow(Protocol):
    """Where the agent's words come from: it can be held while a listener is behind."""

    def pause_reading(self, by: object) -> None: ...

    def resume_reading(self, by: object) -> None: ...


class _Listener:
    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(self, part: Part) -> None:
        """A listener that cannot take a part fails by itself: the conversation and the others go on."""
        if self.done.done():
            return
        try:
            self.sink.report(part)
        except Exception as error:
            self.done.set_exception(error)


class Reply:
    """`number` is its number in the conversation. `flow` is held while a listener is behind."""

    def __init__(self, number: int, features: Features, style: Style, flow: Flow) -> None:
        self.number = number
        self.parts: list[Part] = []
        self.end: ReplyEnd | None = None
        self.error: LanguageModelError | None = None
        self._flow = flow
        self._listeners: list[_Listener] = []
        self._undrained = 0
        self._drain: asyncio.Task[None] | None = None
        # What the guard will make of our parts is what the consumer gives back to us.
        self._presentation = Presentation(features, style)
        self._shown = Response()

    @property
    def has_spoken(self) -> bool:
        """Whether anything of it would be missed."""
        return bool(self._shown.text.strip() or self._shown.calls)

    @property
    def answer(self) -> Answer:
        """The reply in normal form, as the consumer has it."""
        return Answer.of(self._shown.message())

    def say(self, part: Part) -> None:
        self.parts.append(part)
        for shown in self._presentation.present(part):
            self._shown.report(shown)
        for listener in self._listeners:
            listener.hear(part)
        self._undrained += size_of(part)
        if self._undrained > _DRAIN_BYTES and self._drain is None:
            self._undrained = 0
            self._flow.pause_reading(self)
            self._drain = asyncio.create_task(self._drain_all())

    async def listen(self, sink: Sink, on_leave: Callable[[], None]) -> None:
        """Until the reply ends. Raises what it failed with. A caller that is cancelled leaves."""
        listener = _Listener(sink)
        for part in self.parts:
            sink.report(part)
        if self.end is not None:
            if self.error is not None:
                raise self.error
            return
        self._listeners.append(listener)
        try:
            await listener.done
        finally:
            self._listeners.remove(listener)
            if not self._listeners and self.end is None:
                on_leave()

    def finish(self, end: ReplyEnd, error: LanguageModelError | None = None) -> None:
        self.end, self.error = end, error
        for listener in self._listeners:
            if not listener.done.done():
                if error is not None:
                    listener.done.set_exception(error)
                else:
                    listener.done.set_result(None)
        # Whoever is still behind takes the rest in their own time; the agent need not wait for that.
        if self._drain is not None:
            self._drain.cancel()
        self._flow.resume_reading(self)

    async def _drain_all(self) -> None:
        try:
            for listener in list(self._listeners):
                await listener.sink.drain()
        finally:
            self._drain = None
            self._flow.resume_reading(self)


def size_of(part: Part) -> int:
    """About how many bytes of memory a part takes."""
    value = getattr(part, "value", None) or getattr(part, "data", None)
    return _PART_BYTES + (len(value) if isinstance(value, str | bytes) else 0)
