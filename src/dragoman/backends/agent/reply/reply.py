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
    assistant,
)
from dragoman.lm.activity_text import Activities

__all__ = ["Reply"]


class _Listener:
    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Reply:
    """`number` is its number in the conversation. `flow` is held while a listener is behind."""

    def __init__(
        self, number: int, features: Features, style: Style, flow: Flow, activities: Activities
    ) -> None:
        self.number = number
        # What the consumer was shown. It sends that back to us, so the guard does not present it again.
        self._shown = Response()
        self.end: ReplyEnd | None = None
        self.error: LanguageModelError | None = None
        self._listeners: list[_Listener] = []
        self._backpressure = Backpressure(flow, lambda: (listener.sink for listener in self._listeners))
        self._presentation = Presentation(features, style, activities)

    @property
    def has_spoken(self) -> bool:
        """Whether a consumer would miss any of it."""
        return bool(self._shown.calls) or bool(self._shown.text.strip())

    @property
    def answer(self) -> NormalAnswer:
        """The reply in normal form."""
        return NormalAnswer.of(assistant(self._shown.text, *self._shown.calls))

    @property
    def parts(self) -> list[Part]:
        """What was shown so far, for a listener that joins. An activity stands here once, as it is now."""
        return self._shown.parts

    def say(self, part: Part) -> None:
        for shown in self._presentation.present(part):
            if isinstance(shown, TextPart):
                self._shown.parts.append(shown)
            else:
                self._shown.report(shown)
            for listener in self._listeners:
                if not listener.done.done():
                    # A listener that cannot take a part fails alone: the conversation and the others go on.
                    try:
                        listener.sink.report(shown)
                    except Exception as error:
                        listener.done.set_exception(error)
        self._backpressure.given(part)

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
        self._backpressure.stop()
