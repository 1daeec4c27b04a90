"""Answers that came too late: said once, to the person who gave them, and only then."""

from __future__ import annotations

from dragoman.backends.agent.machine.types import Pending
from dragoman.backends.agent.reply.undelivered import UndeliveredResults
from dragoman.lm import TextPart, ToolCallPart, ToolResultPart, user

_CALL = Pending("k1", "call", ToolCallPart("dg_1", "look_up", {}))
_ASK = Pending("p1", "permission", ToolCallPart("dg_p", "dragoman-agent-action-read", {}))


class _Clock:
    seconds = 0.0

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing sleeps {seconds} s here")


def _brought(missed: UndeliveredResults, *results: ToolResultPart) -> list[str]:
    messages = [user("before"), *(user(result) for result in results)]
    return list(missed.brought(messages, [result.call_id for result in results]))


def _result(call: Pending, text: str = "seen") -> ToolResultPart:
    return ToolResultPart(call.call_id, (TextPart(text),))


def test_how_long_the_agent_waited_is_said_and_said_once() -> None:
    clock = _Clock()
    missed = UndeliveredResults(clock)
    missed.made("dg_1")
    clock.seconds = 61.2
    assert missed.given_up(_CALL) == 61.2
    assert _brought(missed, _result(_CALL)) == [
        "The agent stopped waiting for the result of look_up after 61 s. It was not passed on."
    ]
    assert _brought(missed, _result(_CALL)) == []


def test_each_reason_has_its_words() -> None:
    missed = UndeliveredResults(_Clock())
    missed.passed_over(_CALL)
    missed.timed_out(_ASK)
    assert _brought(missed, _result(_CALL), _result(_ASK)) == [
        "The agent went on without the result of look_up. It was not passed on.",
        "The time limit (human_minutes) for your decision had passed. It was not passed on.",
    ]


def test_a_result_of_another_call_and_what_no_person_has_given_are_no_news() -> None:
    missed = UndeliveredResults(_Clock())
    assert _brought(missed, _result(_CALL)) == []
    for words in (
        "The user cancelled the tool call.",
        "The user chose to skip the tool call, they want to proceed without running it",
    ):
        missed.passed_over(_CALL)
        assert _brought(missed, _result(_CALL, words)) == []


def test_an_answer_that_waits_for_a_ticket_is_missed_only_if_the_agent_does_not_come() -> None:
    missed = UndeliveredResults(_Clock())
    assert missed.answered(_CALL, is_taken=True) is None
    assert list(missed.uncollected(lambda _key: False)) == []
    missed.answered(_CALL, is_taken=True)
    [said] = missed.uncollected(lambda key: key == "k1")
    assert said.startswith("The agent stopped waiting for the result of look_up, and has not come back")
    assert list(missed.uncollected(lambda _key: True)) == []
    lost = missed.answered(_CALL, is_taken=False)
    assert lost == "The agent stopped waiting for the result of look_up. It was not passed on."


def test_an_answer_to_an_agent_that_is_gone_is_not_taken_for_one_of_the_next() -> None:
    missed = UndeliveredResults(_Clock())
    missed.answered(_CALL, is_taken=True)
    missed.agent_started()
    assert list(missed.uncollected(lambda _key: True)) == []


def test_only_the_latest_calls_are_remembered() -> None:
    missed = UndeliveredResults(_Clock())
    calls = [Pending(str(n), "call", ToolCallPart(f"dg_{n}", "look", {})) for n in range(300)]
    for call in calls:
        missed.passed_over(call)
    assert len(_brought(missed, *map(_result, calls))) == 256
