"""The buffer for output while no reply is open."""

from __future__ import annotations

from dragoman.backends.agent.reply.backlog import HELD_BYTES, PROGRESS_BYTES, Backlog
from dragoman.lm import ActivityPart, Part, PlanEntry, PlanPart, TextPart, ThinkingPart, UsagePart
from dragoman.lm.parts import ActivityStatus


class _Flow:
    def __init__(self) -> None:
        self.held: set[object] = set()

    def pause_reading(self, by: object) -> None:
        self.held.add(by)

    def resume_reading(self, by: object) -> None:
        self.held.discard(by)


def _step(output: str, status: ActivityStatus = "in_progress", id_: str = "a") -> ActivityPart:
    return ActivityPart(id_, "Run", "execute", status, output=output)


def _buffered(*parts: Part) -> list[Part]:
    backlog = Backlog(_Flow())
    for part in parts:
        backlog.add(part)
    return backlog.take()


def test_an_activity_replaces_the_one_that_is_kept() -> None:
    assert _buffered(_step("x"), _step("xy"), _step("xyz", "completed")) == [_step("xyz", "completed")]
    assert _buffered(PlanPart(()), UsagePart(1), UsagePart(2)) == [PlanPart(()), UsagePart(2)]


def test_what_was_said_in_between_keeps_its_place() -> None:
    parts: list[Part] = [_step("x"), TextPart("said"), _step("xy")]
    assert _buffered(*parts) == parts


def test_beyond_a_limit_progress_is_left_out_but_what_is_kept_goes_on() -> None:
    full = ThinkingPart("z" * PROGRESS_BYTES)
    plan = PlanPart((PlanEntry("Look", "low", "pending"),))
    done = PlanPart((PlanEntry("Look", "low", "completed"),))
    first, begun, ended, *rest = _buffered(
        plan,
        _step("x"),
        full,
        _step("xy", "completed"),
        _step("y", id_="b"),
        done,
        TextPart("said"),
        UsagePart(1),
    )
    assert (first, begun) == (done, _step("xy", "completed"))
    assert ended == full
    (left_out, said, usage) = rest
    assert isinstance(left_out, ThinkingPart)
    assert "left out" in left_out.text
    assert (said, usage) == (TextPart("said"), UsagePart(1))


def test_many_steps_at_once_do_not_take_more_than_the_limit() -> None:
    flow = _Flow()
    backlog = Backlog(flow)
    for size in range(1, 2_000):
        for id_ in "ab":
            backlog.add(_step("x" * (30 * size), id_=id_))
    parts = backlog.take()
    total = sum(len(part.output or "") for part in parts if isinstance(part, ActivityPart))
    assert total < 2 * PROGRESS_BYTES
    # Each as it was last.
    for id_ in "ab":
        last = [part for part in parts if isinstance(part, ActivityPart) and part.id == id_][-1]
        assert len(last.output or "") == 30 * 1_999
    assert not flow.held


def test_the_agent_is_held_while_there_is_too_much() -> None:
    flow = _Flow()
    backlog = Backlog(flow)
    backlog.add(TextPart("x" * (HELD_BYTES + 1)))
    assert backlog.is_full
    assert flow.held == {backlog}
    backlog.take()
    assert not flow.held
    # What was replaced in the last one is not in this one.
    backlog.add(_step("x"))
    backlog.take()
    backlog.add(_step("xy"))
    assert backlog.take() == [_step("xy")]
