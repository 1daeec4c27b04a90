"""A reply under way: what was said of it, and who listens.

Usually one request listens. A consumer that sends the same request again, because its connection broke or it lost
patience, joins: it hears all that was said so far, and then the rest. A reply nobody listens to any more is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.backends.agent.machine.types import ReplyEnd
from dragoman.backends.agent.reply.backpressure import Backpressure, Flow
from dragoman.conversations.history import NormalAnswer
from dragoman.lm import (
    Features,
    LanguageModelError,
    Part,
    Presentation,
    Response,
    Sink,
    Style,
    TextPart,
    ToolCallPart,
    assistant,
)

__all__ = ["Reply"]


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
        self.features = features
        # An activity, a plan and a usage once: as it is now, where it was first.
        self._said = Response()
        self.end: ReplyEnd | None = None
        self.error: LanguageModelError | None = None
        self._listeners: list[_Listener] = []
        self._pace = Backpressure(flow, lambda: (listener.sink for listener in self._listeners))
        # What the guard will make of our parts is what the consumer gives back to us.
        self._presentation = Presentation(features, style)
        self._words: list[str] = []
        self._calls: list[ToolCallPart] = []

    @property
    def has_spoken(self) -> bool:
        """Whether anything of it would be missed."""
        return bool(self._calls) or any(words.strip() for words in self._words)

    @property
    def answer(self) -> NormalAnswer:
        """The reply in normal form, as the consumer has it."""
        return NormalAnswer.of(assistant("".join(self._words), *self._calls))

    @property
    def parts(self) -> list[Part]:
        """What was said so far, for a listener that joins."""
        return self._said.parts

    def say(self, part: Part) -> None:
        if isinstance(part, TextPart):
            self._said.parts.append(part)
        else:
            self._said.report(part)
        for shown in self._presentation.present(part):
            if isinstance(shown, TextPart):
                self._words.append(shown.value)
            elif isinstance(shown, ToolCallPart):
                self._calls.append(shown)
        for listener in self._listeners:
            listener.hear(part)
        self._pace.given(part)

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
        self._pace.stop()
