"""A reply under way: its parts so far, and its listeners.

Usually one request listens. A consumer that sends the same request again, because its connection broke or timed out,
joins: it gets all parts so far, and then the rest. A reply without listeners is cancelled. A request that comes after that
gets the parts and an error: what was cut is no answer.

If the request demands a form or a call, the text is held back (`held_text`) until the reply is judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TypeVar

from dragoman.backends.agent.machine.types import ReplyEnd
from dragoman.backends.agent.prompt.demands import Demand
from dragoman.backends.agent.reply.backpressure import Backpressure, Flow
from dragoman.backends.agent.reply.held_text import HeldText, only_thinking, style_of_form
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

_CUT = (
    "The answer to this request was cut off when its connection was closed, and the agent was stopped. "
    "It may have acted before that, so this retry did not ask it again."
)
_ASK_ANEW = (
    "To ask it again, send a new request, with another idempotency key or none and without a retry count."
)
_T = TypeVar("_T")


class _Listener:
    """A request that listens. It has a presentation if its features differ from those of the first request."""

    def __init__(self, sink: Sink, features: Features, presentation: Presentation | None) -> None:
        self.sink = sink
        self.features = features
        self.presentation = presentation
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Reply:
    """One reply, with any number of listeners.

    `number` is its number in the conversation. `flow` is paused while a listener is behind.
    """

    def __init__(
        self,
        number: int,
        features: Features,
        style: Style,
        flow: Flow,
        activities: Activities,
        demand: Demand | None = None,
    ) -> None:
        self.number = number
        self.demand = demand
        self._features = features
        # Whether its text is JSON and nothing else.
        self._has_form = demand is not None and demand.form is not None
        self._held = HeldText(features, has_form=self._has_form) if demand is not None else None
        self._style = style
        # What the agent said, and the same as the consumer got it. The consumer sends that back, so it is presented here
        # and not by the guard. Where a part is passed on as it is, both hold the same object.
        self._said = Response()
        self._shown = Response()
        self.end: ReplyEnd | None = None
        self.error: LanguageModelError | None = None
        self._listeners: list[_Listener] = []
        self._backpressure = Backpressure(flow, lambda: (listener.sink for listener in self._listeners))
        self._presentation = Presentation(features, self._style_for(features), activities)
        # Set when the end may be seen: after it is stored.
        self._is_over = asyncio.Event()
        # What is done for this reply only.
        self._works: set[asyncio.Task[object]] = set()

    @property
    def has_spoken(self) -> bool:
        """Whether it has text, calls or files."""
        return self.answer != NormalAnswer("")

    @property
    def answer(self) -> NormalAnswer:
        """The reply in normal form."""
        files = (part for part in self._shown.data if not part.is_internal)
        return NormalAnswer.of(assistant(self._shown.text, *self._shown.calls, *files))

    @property
    def said(self) -> list[Part]:
        """The parts as the agent said them. An activity is in it once, in its current state."""
        return self._said.parts

    @property
    def parts(self) -> list[Part]:
        """The parts that the consumer got so far. An activity is in it once, in its current state."""
        return self._shown.parts

    @property
    def held_text(self) -> str:
        """The text that is held back."""
        return self._held.text if self._held is not None else ""

    def report(self, part: Part) -> None:
        """Report a part, or hold it back."""
        if self._held is None:
            self._report(part)
        else:
            for each in self._held.take(part):
                self._report(each)

    def show_held(self) -> None:
        """Report the text that was held back as thinking, because it is not the answer."""
        if self._held is not None:
            for part in self._held.release():
                self._report(part)

    def settle(self, answer: Iterable[Part]) -> None:
        """Report the answer in the place of the text that was held back."""
        if self._held is not None:
            self._held.clear()
        for part in answer:
            self._report(part)

    def _style_for(self, features: Features) -> Style:
        return style_of_form(self._style, features) if self._has_form else self._style

    def _presented(self, part: Part, presentation: Presentation, features: Features) -> Iterable[Part]:
        shown = presentation.present(part)
        # All text but the answer was held back, so other text is only a line about another part.
        return only_thinking(shown, features) if self._has_form and not isinstance(part, TextPart) else shown

    def _report(self, part: Part) -> None:
        shown = tuple(self._presented(part, self._presentation, self._features))
        if isinstance(part, TextPart):
            self._said.parts.append(part)
            self._shown.parts.extend(shown)
        else:
            self._said.report(part)
            for each in shown:
                self._shown.report(each)
        for listener in self._listeners:
            if listener.done.done():
                continue
            # A listener that cannot take a part fails alone: the conversation and the others go on.
            try:
                for each in (
                    shown
                    if listener.presentation is None
                    else self._presented(part, listener.presentation, listener.features)
                ):
                    listener.sink.report(each)
            except Exception as error:
                listener.done.set_exception(error)
        self._backpressure.given(part)

    async def listen(self, sink: Sink, features: Features, on_leave: Callable[[], None]) -> None:
        """Report all parts to `sink` until the reply ends. Raises the error it failed with.

        A request that joins may have other features than the first: it gets the parts presented for it. `on_leave` is
        called when the last listener is cancelled before the end.
        """
        presentation = (
            None if features == self._features else Presentation(features, self._style_for(features))
        )
        listener = _Listener(sink, features, presentation)
        if presentation is None:
            for part in self._shown.parts:
                sink.report(part)
        else:
            for part in self._said.parts:
                for shown in self._presented(part, presentation, features):
                    sink.report(shown)
        if self.end is not None:
            await self._is_over.wait()
            if self.error is not None:
                raise self.error
            if self.end == "cut":
                raise LanguageModelError("agent_failed", _CUT, hint=_ASK_ANEW)
            return
        self._listeners.append(listener)
        try:
            await listener.done
        finally:
            self._listeners.remove(listener)
            if not self._listeners and self.end is None:
                on_leave()

    def finish(self, end: ReplyEnd, error: LanguageModelError | None = None) -> None:
        """End it: nothing more is reported. The listeners learn of the end by `release`."""
        self.end, self.error = end, error
        self._backpressure.stop()
        for work in self._works:
            work.cancel()

    async def while_open(self, work: Coroutine[object, object, _T]) -> _T | None:
        """Do `work`. If the reply ends first, the work is cancelled and the result is None."""
        working = asyncio.create_task(work)
        self._works.add(working)
        try:
            await asyncio.wait({working})
        finally:
            working.cancel()
            await asyncio.wait({working})
            self._works.discard(working)
        return None if working.cancelled() else working.result()

    def release(self) -> None:
        """Let every listener see the end."""
        self._is_over.set()
        error = self.error
        for listener in self._listeners:
            if not listener.done.done():
                if error is not None:
                    listener.done.set_exception(error)
                else:
                    listener.done.set_result(None)
