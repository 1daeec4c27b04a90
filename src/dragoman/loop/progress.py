"""The run's record: the one place that changes its state and emits its events.

Whatever a watcher raises, the run goes on. No event follows `Ended`.
"""

from __future__ import annotations

import logging

import msgspec

from dragoman.lm import LanguageModelError, Message
from dragoman.loop.events import Ended, EndReason, MessageAdded, RunEvent
from dragoman.loop.hooks import Hooks
from dragoman.loop.round import Round
from dragoman.loop.state import Failure, RunState

__all__ = ["RunProgress"]

_log = logging.getLogger(__name__)


class RunProgress:
    def __init__(self, state: RunState, hooks: Hooks) -> None:
        self.state = state
        self._hooks = hooks
        self._last_words: tuple[Message, ...] = ()
        self._has_ended = False

    def emit(self, event: RunEvent) -> None:
        if self._has_ended:
            # From a tool or a model that was abandoned.
            return
        try:
            self._hooks.on_event(event)
        except Exception:
            _log.exception("a watcher failed at %s", type(event).__name__)

    def take_up(self) -> None:
        """A run that was put aside goes on where it stopped; one that ended has ended."""
        if self.state.ended == "suspended":
            self._set(msgspec.structs.replace(self.state, ended=None))

    def begin_turn(self) -> int:
        self._set(msgspec.structs.replace(self.state, turn=self.state.turn + 1))
        return self.state.turn

    def add_last(self, answer: Message) -> None:
        """An answer without calls, which ends the run in one way or another.

        It goes into the history together with the end, so that no stored state has the answer without the end.
        """
        self._last_words = (answer,)
        self.emit(MessageAdded(answer))

    def open_round(self, answer: Message) -> None:
        self._set(msgspec.structs.replace(self.state, answer=answer, round=Round.of(answer.calls)))

    @property
    def round(self) -> Round:
        return self._open()[1]

    @round.setter
    def round(self, after: Round) -> None:
        self._set(msgspec.structs.replace(self.state, round=after))

    def close_round(self, end: EndReason | None, error: LanguageModelError | None = None) -> None:
        """Answer and results go into the history together, so that it is closed at every moment.

        So does the end, if this is one: a decision that ends the run also ends it after a crash.
        """
        answer, round_ = self._open()
        results = round_.message()
        messages = (*self.state.messages, answer, results)
        self._set(
            msgspec.structs.replace(
                self.state, messages=messages, answer=None, round=None, ended=end, error=_failure(error)
            )
        )
        self.emit(MessageAdded(answer))
        self.emit(MessageAdded(results))

    def end(self, reason: EndReason, error: LanguageModelError | None = None) -> None:
        failure = _failure(error)
        messages = (*self.state.messages, *self._last_words)
        ended = msgspec.structs.replace(self.state, messages=messages, ended=reason, error=failure)
        if ended != self.state:
            self._set(ended)
        self.emit(Ended(reason) if failure is None else Ended(reason, failure.message, failure.hint))
        self._has_ended = True

    def _open(self) -> tuple[Message, Round]:
        answer, round_ = self.state.answer, self.state.round
        if answer is None or round_ is None:
            raise AssertionError("no calls are open")
        return answer, round_

    def _set(self, state: RunState) -> None:
        self.state = state
        try:
            self._hooks.on_state(state)
        except Exception:
            _log.exception("the state of a run could not be stored")


def _failure(error: LanguageModelError | None) -> Failure | None:
    return None if error is None else Failure(error.kind, error.message, error.hint)
