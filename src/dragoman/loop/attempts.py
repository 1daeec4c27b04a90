"""One answer of the model, over as many attempts as transient failures make necessary.

A failure may come after half an answer. The next attempt starts from the beginning, and only one attempt is recorded,
so no text and no call is ever recorded twice. What was already shown is not shown again either: as long as the new
attempt says the same, no event is emitted; when it says something else, `Withdrawn` retracts what the watcher has seen
of this turn. What is recorded in the end is what was shown in the end.

Activities, plans and usage are emitted at once, whatever attempt they belong to: each replaces the one before.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import TypeAlias

from dragoman.clock import Clock, WorkCancelled, with_grace
from dragoman.lm import (
    ActivityPart,
    CancellationError,
    CancellationToken,
    DataPart,
    LanguageModel,
    LanguageModelError,
    Part,
    PlanPart,
    Request,
    Response,
    TextPart,
    ThinkingPart,
    UsagePart,
    until_cancelled,
)
from dragoman.loop.events import (
    ActivityReported,
    DataReported,
    PlanReported,
    Retrying,
    RunEvent,
    TextReported,
    ThinkingReported,
    UsageReported,
    Withdrawn,
)
from dragoman.loop.settings import LoopSettings

__all__ = ["ModelAttempts"]


class ModelAttempts:
    """One answer under way."""

    def __init__(
        self, model: LanguageModel, *, settings: LoopSettings, clock: Clock, emit: Callable[[RunEvent], None]
    ) -> None:
        self._model = model
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._shown = _Shown(emit)
        self._attempt = _Attempt(self._shown)

    @property
    def response(self) -> Response:
        """The answer so far: what was shown, and what came with it."""
        return self._attempt.standing

    async def ask(self, request: Request, token: CancellationToken) -> LanguageModelError | None:
        """Request the answer, with retries, until it is complete or the run is cancelled. Returns the error, if it failed."""
        retries = 0
        while True:
            error = await self._try(request, token)
            if error is None or token.cancelled():
                return None
            if retries >= self._settings.retries or not _is_worth_waiting(error, self._settings):
                return error
            retries += 1
            delay = _delay(retries, error, self._settings)
            self._emit(Retrying(retries, delay, error.sentence))
            try:
                await until_cancelled(self._clock.sleep(delay), token)
            except CancellationError:
                return None

    async def _try(self, request: Request, token: CancellationToken) -> LanguageModelError | None:
        self._attempt = attempt = _Attempt(self._shown)
        answering = self._model.respond(request, attempt, token)
        try:
            await with_grace(answering, self._settings.cancel_grace_seconds, self._clock, token)
        except CancellationError:
            return None
        except WorkCancelled:
            return LanguageModelError("internal", "The model gave up in mid-answer.")
        except LanguageModelError as error:
            return error
        if not token.cancelled():
            attempt.complete()
        return None


def _is_worth_waiting(error: LanguageModelError, settings: LoopSettings) -> bool:
    """Whether to retry. If the server asks for a longer pause than our limit, the user gets its error instead."""
    return error.is_transient and (error.retry_after or 0) <= settings.backoff_most_seconds


def _delay(retries: int, error: LanguageModelError, settings: LoopSettings) -> float:
    """The delay before a retry: the server's `Retry-After`, else exponential backoff with jitter."""
    if error.retry_after is not None:
        return error.retry_after
    step = settings.backoff_seconds * 2.0 ** (retries - 1)
    return min(step * random.uniform(0.8, 1.2), settings.backoff_most_seconds)  # noqa: S311 - spreads load, guards nothing


_Visible: TypeAlias = TextPart | ThinkingPart | DataPart


class _Shown:
    """What the watcher has seen of this turn and what was not withdrawn, with the attempt it came from."""

    def __init__(self, emit: Callable[[RunEvent], None]) -> None:
        self.emit = emit
        self._parts: list[_Visible] = []
        self.attempt = Response()

    def show(self, part: _Visible, attempt: Response) -> None:
        self.attempt = attempt
        self._parts.append(part)
        self.emit(_event_of(part))

    def withdraw(self) -> None:
        self._parts.clear()
        self.emit(Withdrawn())

    def runs(self) -> list[_Visible]:
        """The shown parts, with adjacent pieces of text joined."""
        runs: list[_Visible] = []
        for kind, parts in itertools.groupby(self._parts, type):
            if kind is TextPart:
                runs.append(TextPart("".join(part.value for part in parts if isinstance(part, TextPart))))
            elif kind is ThinkingPart:
                runs.append(
                    ThinkingPart("".join(part.text for part in parts if isinstance(part, ThinkingPart)))
                )
            else:
                runs.extend(parts)
        return runs


def _event_of(part: _Visible) -> RunEvent:
    match part:
        case TextPart(value=text):
            return TextReported(text)
        case ThinkingPart():
            return ThinkingReported(part.text)
        case _:
            return DataReported(part)


class _Attempt(Response):
    """Collects one attempt and shows what of it is new."""

    def __init__(self, shown: _Shown) -> None:
        super().__init__()
        self._shown = shown
        # What earlier attempts have shown and this one has not said yet, empty once it is ahead of them; and how much
        # of the first run it has said.
        self._ahead = shown.runs()
        self._along = 0

    @property
    def standing(self) -> Response:
        """The answer if this attempt brings no more: the text that was shown, perhaps by an earlier attempt."""
        return self._shown.attempt if self._ahead else self

    def report(self, part: Part) -> None:
        super().report(part)
        match part:
            case ActivityPart():
                self._shown.emit(ActivityReported(part))
            case PlanPart():
                self._shown.emit(PlanReported(part))
            case UsagePart():
                self._shown.emit(UsageReported(part))
            case _ if (visible := _visible(part)) is None:
                pass
            case _ if self._ahead:
                self._follow(visible, self._ahead[0])
            case _:
                self._shown.show(visible, self)

    def complete(self) -> None:
        """Make this attempt the answer, and withdraw text of an earlier attempt that it does not repeat."""
        if self._ahead:
            self._start_over()

    def _follow(self, part: _Visible, expected: _Visible) -> None:
        match part, expected:
            case (TextPart(value=said), TextPart(value=awaited)):
                self._follow_text(said, awaited, TextPart)
            case (ThinkingPart(text=said), ThinkingPart(text=awaited)):
                self._follow_text(said, awaited, ThinkingPart)
            case _ if part == expected:
                del self._ahead[0]
            case _:
                self._start_over()

    def _follow_text(self, said: str, awaited: str, kind: type[TextPart | ThinkingPart]) -> None:
        if awaited.startswith(said, self._along):
            self._along += len(said)
            if self._along == len(awaited):
                del self._ahead[0]
                self._along = 0
        elif len(self._ahead) == 1 and said.startswith(rest := awaited[self._along :]):
            self._ahead.clear()
            self._shown.show(kind(said[len(rest) :]), self)
        else:
            self._start_over()

    def _start_over(self) -> None:
        self._ahead.clear()
        self._shown.withdraw()
        for part in self.parts:
            visible = _visible(part)
            if visible is not None:
                self._shown.show(visible, self)


def _visible(part: Part) -> _Visible | None:
    """A part that a watcher sees as it comes; None for calls, which are emitted when the answer is complete."""
    match part:
        case TextPart(value=text) if text:
            return part
        case ThinkingPart() if part.text:
            return part
        case DataPart() if not part.is_internal:
            return part
        case _:
            return None
