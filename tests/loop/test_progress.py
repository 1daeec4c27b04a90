"""The record itself, where no run goes wrong enough to show it."""

import pytest

from dragoman.lm import assistant, user
from dragoman.loop import Hooks, begin
from dragoman.loop.events import Ended, MessageAdded, TurnEnded
from dragoman.loop.progress import RunProgress
from loop_kit import Person


def test_without_open_calls_there_is_no_round() -> None:
    with pytest.raises(AssertionError, match="no calls are open"):
        RunProgress(begin([user("Go.")]), Hooks()).round  # noqa: B018 - looking is enough


def test_the_last_answer_and_the_end_are_written_down_in_one_step() -> None:
    person = Person()
    progress = RunProgress(begin([user("Go.")]), person)
    progress.add_last(assistant("Done."))
    assert person.states == []
    progress.end("completed")
    assert [(len(state.messages), state.ended) for state in person.states] == [(2, "completed")]
    assert person.events == [MessageAdded(assistant("Done.")), Ended("completed")]


def test_nothing_is_told_after_the_end() -> None:
    person = Person()
    progress = RunProgress(begin([user("Go.")]), person)
    progress.end("cancelled")
    progress.emit(TurnEnded(1))
    assert person.events == [Ended("cancelled")]
