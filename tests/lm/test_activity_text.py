"""Activities, plans and usage: as text where a consumer has no such parts, thinned where it has."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityNote,
    ActivityPart,
    DataPart,
    Features,
    Part,
    PlanEntry,
    PlanPart,
    Presentation,
    Style,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)
from dragoman.lm.activity_text import INTERRUPTION, OUTPUT_LIMIT, Activities
from dragoman.lm.gfm import escape, notice_part
from dragoman.lm.parts import USAGE
from dragoman.lm.presentation import Reasoning
from dragoman.lm.stops import Stopped

_RUN = ActivityPart("a", "Run *it*", "execute", "pending")
_NOTE = ActivityNote("n", "Wrote a", "edit", "completed", text="\n\n▸ Wrote `a`\n")
_PLAN = PlanPart((PlanEntry("one", "high", "pending"), PlanEntry("two", "low", "completed")))
_COUNTED = UsagePart(1, 2, context_used=3)


def _with(output: str, of: ActivityPart = _RUN) -> ActivityPart:
    return msgspec.structs.replace(of, output=output)


def _shown(*parts: Part, structured: bool = False, activities: Activities | None = None) -> list[Part]:
    activities = activities or Activities()
    return [shown for part in parts for shown in activities.present(part, structured=structured)]


def _text(*parts: Part) -> str:
    shown = _shown(*parts)
    assert all(isinstance(part, ThinkingPart) for part in shown)
    return "".join(part.text for part in shown if isinstance(part, ThinkingPart))


# As text.


def test_each_state_is_written_once() -> None:
    ended = msgspec.structs.replace(_RUN, status="failed", exit_status=1)
    assert _text(_RUN, _RUN, ended, ended) == "\n\n▸ Run \\*it\\*\n\n\n✗ Run \\*it\\*\n"


def test_of_an_output_that_is_new_is_written() -> None:
    assert _text(_RUN, _with("one\n"), _with("one\n"), _with("one\r\ntwo"), _with("other")) == (
        "\n\n▸ Run \\*it\\*\n\n    one\n    one\n    twoother"
    )


@pytest.mark.parametrize(
    "between",
    [
        TextPart("x"),
        ThinkingPart("x"),
        DataPart("image/png", b""),
        INTERRUPTION,
        ToolCallPart("dg_1", "x", {}),
        _NOTE,
    ],
)
def test_output_after_something_else_stands_under_its_title_again(between: Part) -> None:
    activities = Activities()
    _shown(_with("one\n"), between, activities=activities)
    (shown,) = _shown(_with("one\ntwo"), activities=activities)
    assert shown == ThinkingPart("\n\n▸ Run \\*it\\* …\n\n    two")


def test_what_says_nothing_does_not_come_between() -> None:
    activities = Activities()
    _shown(_with("one\n"), DataPart("stateful_marker", b""), activities=activities)
    assert _shown(_with("one\ntwo"), activities=activities) == [ThinkingPart("two")]


def test_an_interruption_reaches_nobody() -> None:
    assert _shown(INTERRUPTION) == _shown(INTERRUPTION, structured=True) == []


def test_a_long_output_and_a_long_diff_are_cut_and_that_is_said() -> None:
    written = _text(_with("x" * (OUTPUT_LIMIT + 1)), _with("y" * 10))
    assert written.count("x") == OUTPUT_LIMIT
    assert written.endswith("\n\n… and more\n")
    diff = "--- /dev/null\n+++ /a\n@@ -0,0 +1,99 @@\n" + "\n".join(["+x"] * 99)
    written = _text(msgspec.structs.replace(_RUN, diff=diff))
    assert "`/a`\n\n```diff\n@@" in written
    assert written.count("+x") == 59
    assert written.endswith("… 40 more lines\n```\n")


def test_each_file_of_a_diff_is_written_once() -> None:
    one, two = (f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n--- x\n+++ y" for name in ("/a", "/b"))
    written = _text(*(msgspec.structs.replace(_RUN, diff=diff) for diff in (one, f"{one}\n{two}", one)))
    assert (written.count("`/a`"), written.count("`/b`")) == (1, 1)
    assert "```diff\n@@ -1 +1 @@\n--- x\n+++ y\n```" in written


def test_what_has_changed_of_a_plan_is_written() -> None:
    begun = PlanPart((PlanEntry("one", "low", "in_progress"), PlanEntry("two", "low", "completed")))
    assert _shown(_PLAN, _PLAN, begun, PlanPart(())) == [
        ThinkingPart("\n\n☐ one  \n☑ two  \n\n"),
        ThinkingPart("\n\n◐ one  \n\n"),
    ]


def test_a_note_has_its_own_text() -> None:
    assert _shown(_NOTE) == [ThinkingPart("\n\n▸ Wrote `a`\n")]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (UsagePart(1, 2), (1, 2, 3)),
        (UsagePart(1, 2, 9), (1, 2, 9)),
        (UsagePart(output=2), (0, 2, 2)),
        (UsagePart(total=7), (0, 0, 7)),
        (UsagePart(0, 0), (0, 0, 0)),
    ],
)
def test_tokens_are_data(usage: UsagePart, counted: tuple[int, int, int]) -> None:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert _shown(usage) == [DataPart.json(dict(zip(names, counted, strict=True)), USAGE)]


def test_the_context_that_is_used_is_what_an_editor_shows() -> None:
    counted = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1, "context_size": 2}
    assert _shown(UsagePart(context_used=1, context_size=2)) == [DataPart.json(counted, USAGE)]


def test_a_usage_without_tokens_is_no_data() -> None:
    assert _shown(UsagePart(context_size=2, cost=0.5, currency="EUR")) == []


@pytest.mark.parametrize("structured", [True, False])
def test_a_session_without_end_is_not_remembered_for_ever(structured: bool) -> None:  # noqa: FBT001 - a table
    activities = Activities()
    steps = [_with("x" * 5_000, msgspec.structs.replace(_RUN, id=f"{n}")) for n in range(300)]
    _shown(*steps, activities=activities, structured=structured)
    # The last ones are known, the first ones are written again.
    assert bool(_shown(steps[0], activities=activities, structured=structured))
    assert not _shown(steps[-1], activities=activities, structured=structured)


# As they are.


def test_a_consumer_with_the_feature_gets_the_parts() -> None:
    note = ActivityPart("n", "Wrote a", "edit", "completed")
    assert _shown(_RUN, _NOTE, _PLAN, _COUNTED, TextPart("x"), structured=True) == [
        _RUN,
        note,
        _PLAN,
        _COUNTED,
        TextPart("x"),
    ]
    assert type(_shown(_NOTE, structured=True)[0]) is ActivityPart


def test_an_output_that_grows_line_by_line_costs_no_more_than_some_times_its_length() -> None:
    outputs = ["line of an output\n" * (number + 1) for number in range(3_000)]
    passed = [
        part.output or ""
        for part in _shown(*map(_with, outputs), structured=True)
        if isinstance(part, ActivityPart)
    ]
    assert sum(map(len, passed)) < 10 * len(outputs[-1]) + 2_000 * 2_000
    # What stands on a screen is passed on at once.
    assert passed[:100] == outputs[:100]


@pytest.mark.parametrize(
    "change", [{"status": "in_progress"}, {"title": "Other"}, {"exit_status": 0}, {"diff": "x"}]
)
def test_any_other_change_is_passed_on_at_once(change: dict[str, object]) -> None:
    long = _with("x" * 10_000)
    changed = msgspec.structs.replace(_with("x" * 10_001), **change)
    assert _shown(long, _with("x" * 10_001), changed, structured=True) == [long, changed]


def test_an_output_that_is_replaced_or_gone_is_passed_on_at_once() -> None:
    parts = [_with("x" * 10_000), _with("y" * 10_001), _with("y" * 9_000), _RUN]
    assert _shown(*parts, structured=True) == parts


_parts = st.lists(
    st.one_of(
        st.builds(TextPart, st.sampled_from(["", "text"])),
        st.builds(ThinkingPart, st.sampled_from(["", "hm"])),
        st.builds(
            ActivityPart,
            st.sampled_from("ab"),
            st.sampled_from(["Run", "Look"]),
            st.just("execute"),
            st.sampled_from(["pending", "in_progress"]),
            output=st.none() | st.integers(1, 5_000).map("x".__mul__),
        ),
        st.just(_NOTE),
        st.just(_PLAN),
        st.builds(UsagePart, st.integers(0, 3)),
    ),
    max_size=12,
)


@given(_parts, st.booleans())
def test_what_came_out_passes_through_another_unchanged(parts: list[Part], structured: bool) -> None:  # noqa: FBT001 - drawn
    once = _shown(*parts, structured=structured)
    assert _shown(*once, structured=structured) == once


# In the presentation.


def _presented(part: Part, features: Features, reasoning: Reasoning = "thinking") -> list[Part]:
    return list(Presentation(features, Style(reasoning)).present(part))


def test_the_text_is_shown_as_thinking_is() -> None:
    written = "\n\n▸ Run \\*it\\*\n"
    assert _presented(_RUN, Features(thinking=True)) == [ThinkingPart(written)]
    assert _presented(_RUN, Features()) == [TextPart(written)]
    assert _presented(_RUN, Features(thinking=True), "hide") == []
    assert _presented(_RUN, Features(activity=True), "hide") == [_RUN]


def test_text_after_an_activity_comes_between_here_too() -> None:
    presentation = Presentation(Features(thinking=True), Style())
    shown = [
        shown
        for part in (INTERRUPTION, TextPart("a"), _with("one\n"), TextPart("b"), _with("one\ntwo"))
        for shown in presentation.present(part)
    ]
    assert shown == [
        TextPart("a"),
        ThinkingPart("\n\n▸ Run \\*it\\*\n\n    one\n    "),
        TextPart("b"),
        ThinkingPart("\n\n▸ Run \\*it\\* …\n\n    two"),
    ]


def test_a_usage_is_data_for_those_that_take_it() -> None:
    (data,) = _presented(_COUNTED, Features(data=True))
    assert isinstance(data, DataPart)
    assert _presented(_COUNTED, Features()) == []
    for structured in (Features(activity=True), Features(reports=True)):
        assert _presented(_COUNTED, structured) == [_COUNTED]


# For consumers without Markdown.


def _plain(*parts: Part) -> str:
    presentation = Presentation(Features(thinking=True, markdown=False), Style())
    shown = [each for part in parts for each in presentation.present(part)]
    return "".join(
        each.text if isinstance(each, ThinkingPart) else each.value
        for each in shown
        if isinstance(each, ThinkingPart | TextPart)
    )


def test_without_markdown_the_text_has_no_marks() -> None:
    assert _plain(_RUN, _with("x"), msgspec.structs.replace(_RUN, status="completed", output="x")) == (
        "\n\n▸ Run *it*\n\n    x\n\n✓ Run *it*\n"
    )
    diff = "--- a/x_*\n+++ b/x_*\n@@ -1 +1 @@\n-a\n+b\n"
    changed = _plain(msgspec.structs.replace(_RUN, diff=diff))
    assert "`" not in changed
    assert "x_*\n\n" in changed
    assert "-a\n+b" in changed
    assert _plain(_NOTE) == "\n\n▸ Wrote a\n"
    assert _plain(PlanPart((PlanEntry("*one*", "high", "pending"),))) == "\n\n☐ *one*\n\n"


def test_without_markdown_notices_pictures_and_stops_have_no_marks() -> None:
    assert _plain(notice_part(f"It is {escape('<a>')}")) == "\n\nIt is <a>\n\n"
    assert _plain(TextPart("*as it is*"), notice_part("x")) == "*as it is*\n\nx\n\n"
    assert _plain(DataPart("image/x+y", b"12")) == "\n\nImage: image/x+y, 2 bytes\n\n"
    assert _plain(Stopped("length", "It *stopped*.").part) == "\n\nIt stopped.\n\n"


def test_with_markdown_a_notice_is_text_like_any_other() -> None:
    shown = list(Presentation(Features(), Style()).present(notice_part("x")))
    assert shown == [TextPart("\n\n*x*\n\n")]
    assert type(shown[0]) is TextPart
