"""Every step of a round from every status: allowed where the table says so, and otherwise nothing has changed."""

from collections.abc import Callable

import pytest

from dragoman.lm import JsonObject, Message, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.parts import ToolResult
from dragoman.loop.history import INTERRUPTED_BEFORE, INTERRUPTED_DURING
from dragoman.loop.round import CallState, CallStatus, IllegalStep, Round, interruption

ID = "dg_1"
RESULT = ToolResult.text("it went well")
ERROR = ToolResult.error("it did not")

STEPS: dict[str, tuple[Callable[[Round], Round], set[CallStatus]]] = {
    "rewritten": (lambda r: r.rewritten(ID, ToolCallPart(ID, "other", {})), {"pending"}),
    "approved": (lambda r: r.approved(ID), {"pending"}),
    "unapproved": (lambda r: r.unapproved(ID), {"approved"}),
    "running": (lambda r: r.running(ID), {"approved"}),
    "finished": (lambda r: r.finished(ID, RESULT), {"running"}),
    "erred": (lambda r: r.erred(ID, ERROR), {"running"}),
    "failed": (lambda r: r.failed(ID, ERROR), {"pending"}),
    "denied": (lambda r: r.denied(ID, ERROR), {"pending"}),
    "skipped": (lambda r: r.skipped(ID, ERROR), {"pending"}),
    "timed_out": (lambda r: r.timed_out(ID, ERROR), {"pending"}),
    "interrupted": (lambda r: r.interrupted(ID, ERROR), {"pending", "approved", "running"}),
}
STATUSES: tuple[CallStatus, ...] = ("pending", "approved", "running", "done")


def round_in(status: CallStatus) -> Round:
    fresh = Round.of((ToolCallPart(ID, "write", {"path": "a"}), ToolCallPart("dg_2", "look", {})))
    match status:
        case "pending":
            return fresh
        case "approved":
            return fresh.approved(ID)
        case "running":
            return fresh.approved(ID).running(ID)
        case "done":
            return fresh.denied(ID, ERROR)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("step", STEPS)
def test_each_step_is_allowed_from_where_it_makes_sense_and_from_nowhere_else(
    step: str, status: CallStatus
) -> None:
    take, allowed = STEPS[step]
    before = round_in(status)
    if status not in allowed:
        with pytest.raises(IllegalStep, match=f"'{ID}' is {status}"):
            take(before)
        assert before == round_in(status)
        return
    after = take(before)
    assert after != before
    assert before == round_in(status)
    # The other call is not concerned.
    assert after.calls[1] == before.calls[1]


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ("finished", "ok"),
        ("failed", "error"),
        ("denied", "denied"),
        ("skipped", "skipped"),
        ("timed_out", "timed_out"),
        ("interrupted", "interrupted"),
    ],
)
def test_each_ending_records_the_outcome_that_is_true(step: str, outcome: str) -> None:
    take, allowed = STEPS[step]
    after = take(round_in(next(iter(allowed))))
    assert after.status(ID) == "done"
    assert (after.result(ID).call_id, after.result(ID).outcome) == (ID, outcome)


def test_what_ran_and_failed_is_an_error() -> None:
    assert round_in("running").erred(ID, ERROR).result(ID).outcome == "error"


def test_the_words_and_the_flag_are_recorded_as_given() -> None:
    result = round_in("pending").denied(ID, ToolResult.text("never mind")).result(ID)
    assert (result.text, result.is_error, result.outcome) == ("never mind", False, "denied")


def test_the_result_says_what_ran_under_the_id_of_the_model() -> None:
    rewritten = round_in("pending").rewritten(ID, ToolCallPart("other", "append", {"path": "b"}))
    assert rewritten.made(ID) == ToolCallPart("other", "append", {"path": "b"})
    result = rewritten.approved(ID).running(ID).finished(ID, RESULT).result(ID)
    assert (result.call_id, result.name, result.input) == (ID, "append", {"path": "b"})


@pytest.mark.parametrize(("unparsed", "expected"), [(None, {"a": 1}), ("{", None)])
def test_the_input_is_recorded_as_far_as_it_parses(unparsed: str | None, expected: JsonObject | None) -> None:
    one = Round.of((ToolCallPart(ID, "write", {"a": 1}, unparsed),))
    assert one.failed(ID, ERROR).result(ID).input == expected


def test_the_message_has_every_result_in_call_order_and_only_once_all_are_there() -> None:
    open_round = round_in("pending").denied("dg_2", ERROR)
    with pytest.raises(IllegalStep, match="before every call has its result"):
        open_round.message()
    message = open_round.skipped(ID, ERROR).message()
    assert message.role == "user"
    assert [result.call_id for result in message.results] == [ID, "dg_2"]


def test_pending_are_those_nobody_has_looked_at() -> None:
    assert [state.call.call_id for state in round_in("approved").pending] == ["dg_2"]


def test_a_call_without_a_result_or_without_a_place_is_a_fault() -> None:
    with pytest.raises(IllegalStep, match="no result yet"):
        round_in("running").result(ID)
    with pytest.raises(IllegalStep, match="no call 'dg_9'"):
        round_in("running").status("dg_9")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("pending", INTERRUPTED_BEFORE),
        ("approved", INTERRUPTED_BEFORE),
        ("running", INTERRUPTED_DURING),
    ],
)
def test_an_interruption_says_whether_the_call_had_begun(status: CallStatus, words: str) -> None:
    assert interruption(CallState(ToolCallPart(ID, "write", {}), status)) == words


def test_a_round_of_nothing_has_an_empty_message() -> None:
    assert Round.of(()).message() == Message("user", ())


def test_results_keep_every_part_of_their_content() -> None:
    content = (TextPart("a", ("user",)), TextPart("b"))
    result = round_in("running").finished(ID, ToolResult(content)).result(ID)
    assert result == ToolResultPart(ID, content, name="write", input={"path": "a"}, outcome="ok")
