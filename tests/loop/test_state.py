"""A run that was written down: what comes back is what was written, and what was damaged is refused."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityLocation,
    ActivityPart,
    JsonObject,
    PlanEntry,
    PlanPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    assistant,
    user,
)
from dragoman.lm.json import decode, encode
from dragoman.lm.parts import ToolResult
from dragoman.loop import Failure, RunState, StateError, begin, dump, load
from dragoman.loop.round import Round

CALLS = (ToolCallPart("dg_1", "write", {"path": "a"}), ToolCallPart("dg_2", "look", {}))
ANSWER = assistant("I will.", *CALLS)
OPEN = RunState((user("Go."),), 3, ANSWER, Round.of(CALLS).approved("dg_1"))

WRITTEN = [
    begin([user("Go.")]),
    OPEN,
    msgspec.structs.replace(OPEN, ended="suspended"),
    RunState((user("Go."), assistant("Half")), 1, ended="failed", error=Failure("blocked", "No.", "Ask.")),
    RunState(
        (
            user("Go."),
            assistant(
                ActivityPart(
                    "a", "Run", "execute", "failed", (ActivityLocation("/a", 1),), "--- /a", "no", 1
                ),
                PlanPart((PlanEntry("Look", "high", "completed"),)),
                "Done.",
                UsagePart(1, 2, cost=0.5, currency="EUR"),
            ),
        ),
        1,
        ended="completed",
    ),
    RunState(
        (user("Go."), ANSWER, user(ToolResultPart("dg_1"), ToolResultPart("dg_2"))), 1, ended="cancelled"
    ),
]


@pytest.mark.parametrize("state", WRITTEN)
def test_what_was_written_comes_back(state: RunState) -> None:
    assert load(dump(state)) == state


def test_half_a_character_does_not_keep_a_run_from_being_written_down() -> None:
    assert load(dump(begin([user("half \ud83d")]))).messages == (user("half \ufffd"),)


def test_begin_closes_the_history() -> None:
    assert [result.outcome for result in begin([ANSWER]).messages[1].results] == ["interrupted"] * 2


@given(st.binary())
def test_arbitrary_bytes_are_refused_and_nothing_worse(data: bytes) -> None:
    with pytest.raises(StateError):
        load(data)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.long
@given(
    st.sampled_from(WRITTEN),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_flipped_bytes_are_refused_or_still_a_run_that_can_go_on(
    state: RunState, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(dump(state))
    for place, byte in flips:
        data[place % len(data)] = byte
    try:
        loaded = load(bytes(data))
    except StateError:
        return
    assert load(dump(loaded)) == loaded


@given(st.sampled_from(WRITTEN), st.data())
def test_a_field_with_another_value_is_refused_or_still_a_run_that_can_go_on(
    state: RunState, data: st.DataObject
) -> None:
    written = decode(dump(state))
    assert isinstance(written, dict)
    written[data.draw(st.sampled_from(sorted(written)))] = data.draw(_json)
    try:
        loaded = load(encode(written))
    except StateError:
        return
    assert load(dump(loaded)) == loaded


def test_nesting_without_end_is_refused() -> None:
    deep = b'{"messages":[{"role":"assistant","content":[{"type":"tool_call","callId":"dg_1","name":"x","input":{"a":'
    with pytest.raises(StateError):
        load(deep + b"[" * 100_000 + b"]" * 100_000 + b"}}]}]}")


def test_another_format_is_named() -> None:
    with pytest.raises(StateError, match="format 2; this version reads format 1"):
        load(dump(msgspec.structs.replace(OPEN, version=2)))


_DONE = Round.of(CALLS).denied("dg_1", ToolResult.error("No."))
_FOREIGN = ToolResultPart("dg_9")

DAMAGED = {
    "an open history": msgspec.structs.replace(OPEN, messages=(user("Go."), ANSWER)),
    "a round without an answer": msgspec.structs.replace(OPEN, answer=None),
    "an answer without a round": msgspec.structs.replace(OPEN, round=None),
    "an answer that is a user's": msgspec.structs.replace(OPEN, answer=user(*CALLS)),
    "other calls than the answer's": msgspec.structs.replace(OPEN, round=Round.of(CALLS[:1])),
    "no calls": msgspec.structs.replace(OPEN, answer=assistant("Hm."), round=Round(())),
    "a call twice": msgspec.structs.replace(
        OPEN, answer=assistant(CALLS[0], CALLS[0]), round=Round.of((CALLS[0], CALLS[0]))
    ),
    "ended with open calls": msgspec.structs.replace(OPEN, ended="completed"),
    "suspended without open calls": RunState((user("Go."),), 1, ended="suspended"),
    "a result before the end": msgspec.structs.replace(
        OPEN, round=Round((msgspec.structs.replace(_DONE.calls[0], status="running"), _DONE.calls[1]))
    ),
    "an end without a result": msgspec.structs.replace(
        OPEN, round=Round((msgspec.structs.replace(_DONE.calls[0], result=None), _DONE.calls[1]))
    ),
    "another call's result": msgspec.structs.replace(
        OPEN, round=Round((msgspec.structs.replace(_DONE.calls[0], result=_FOREIGN), _DONE.calls[1]))
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_no_run_could_have_written_is_refused(damage: str) -> None:
    with pytest.raises(StateError, match=r"damaged.*Start a new one"):
        load(dump(DAMAGED[damage]))


def test_unknown_fields_of_a_later_version_do_no_harm() -> None:
    written: JsonObject = decode(dump(OPEN))  # type: ignore[assignment]  # an object, as every state is
    assert load(encode({**written, "later": 1})) == OPEN
