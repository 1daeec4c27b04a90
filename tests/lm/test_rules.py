"""Every rule has an id and words, and every way of breaking one is found under its id."""

import threading
from datetime import UTC, datetime

import pytest

from dragoman.lm import (
    RULES,
    ActivityLocation,
    ActivityNote,
    ActivityPart,
    DataPart,
    Features,
    PlanEntry,
    PlanPart,
    StreamWatch,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    Violation,
    assistant,
    user,
)
from dragoman.lm.rules import is_visible
from lm.providers import NO_FEATURES, ask

_itself: dict[str, object] = {}
_itself["itself"] = _itself


def _call(call_id: object = "dg_1", name: object = "read_file", arguments: object = None) -> ToolCallPart:
    """A call with anything in its fields, as a provider in Python can make one."""
    return ToolCallPart(call_id, name, {} if arguments is None else arguments)  # type: ignore[arg-type]


def _text(value: object) -> TextPart:
    return TextPart(value)  # type: ignore[arg-type]  # on purpose


def _thinking(value: object, id_: object = None, metadata: object = None) -> ThinkingPart:
    return ThinkingPart(value, id_, metadata)  # type: ignore[arg-type]  # on purpose


def _data(mime_type: object, data: object) -> DataPart:
    return DataPart(mime_type, data)  # type: ignore[arg-type]  # on purpose


def _activity(
    id_: object = "a",
    title: object = "Run it",
    kind: object = "execute",
    status: object = "pending",
    **more: object,
) -> ActivityPart:
    return ActivityPart(id_, title, kind, status, **more)  # type: ignore[arg-type]  # on purpose


def _plan(text: object = "a", priority: object = "low", status: object = "pending") -> PlanPart:
    return PlanPart((PlanEntry(text, priority, status),))  # type: ignore[arg-type]  # on purpose


def _usage(**counts: object) -> UsagePart:
    return UsagePart(**counts)  # type: ignore[arg-type]  # on purpose


_BROKEN: list[tuple[str, object]] = [
    ("S2", "a string"),
    ("S2", None),
    ("S2", {"type": "text", "value": "a"}),
    ("S2", TextPart),
    ("S2", _text(b"bytes")),
    ("S2", _text(None)),
    ("S2", _text("half an emoji: \ud83d")),
    ("S2", _thinking(3)),
    ("S2", _thinking(("a", 3))),
    ("S2", _thinking(("a", "\ud83d"))),
    ("S2", _thinking({"a"})),
    ("S2", _thinking("a", 3)),
    ("S2", _thinking("a", "t", ["not an object"])),
    ("S2", _thinking("a", "t", {"not": {"json"}})),
    ("S2", _call(call_id=3)),
    ("S2", _call(name=None)),
    ("S3", ToolResultPart("dg_1", (TextPart("42"),))),
    ("S4.legal", _call("")),
    ("S4.legal", _call("dg_" + "x" * 62)),
    ("S4.legal", _call("dg 1")),
    ("S4.legal", _call("dg_1\n")),
    ("S4.legal", _call("dg_é")),
    ("S4.legal", _call("dg_1__vscode-2")),
    ("S4.unique", _call("dg_said")),
    ("S4.unique", _call("dg_answered")),
    ("S4.namespaced", _call("call_1")),
    ("S4.namespaced", _call("DG_1")),
    ("S5", _call(name="rm")),
    ("S5", _call(name="Read_File")),
    ("S5", _call(name="")),
    ("S7", _call(arguments=[1])),
    ("S7", _call(arguments="{}")),
    ("S7", _call(arguments={1: "a key that is no string"})),
    ("S7", _call(arguments={"a": {"b": object()}})),
    ("S7", _call(arguments={"a": (1, 2)})),
    ("S7", _call(arguments={"a": [{1, 2}]})),
    ("S7", _call(arguments={"a": b"bytes"})),
    ("S7", _call(arguments={"a": datetime.now(UTC)})),
    ("S7", _call(arguments={"a": float("nan")})),
    ("S7", _call(arguments={"a": float("inf")})),
    ("S7", _call(arguments={"a": "\ud83d"})),
    ("S7", _call(arguments={"\ud83d": 1})),
    ("S7", _call(arguments=_itself)),
    ("S7", ToolCallPart("dg_1", "read_file", {}, "{oops")),
    ("S11", _data("image/png", "text")),
    ("S11", _data("image/png", bytearray(b"x"))),
    ("S11", _data("image/png", None)),
    ("S11", _data("", b"x")),
    ("S11", _data(None, b"x")),
    ("S11", _data("\ud83d", b"x")),
    ("S14", _activity("")),
    ("S14", _activity(3)),
    ("S14", _activity(title="")),
    ("S14", _activity(title="\ud83d")),
    ("S14", _activity(kind="dream")),
    ("S14", _activity(status="paused")),
    ("S14", _activity(diff=b"x")),
    ("S14", _activity(output=["x"])),
    ("S14", _activity(output="\ud83d")),
    ("S14", _activity(exit_status="0")),
    ("S14", _activity(exit_status=True)),
    ("S14", _activity(locations=[ActivityLocation("a")])),
    ("S14", _activity(locations=("a",))),
    ("S14", _activity(locations=(ActivityLocation("a", 1.5),))),  # type: ignore[arg-type]  # on purpose
    ("S14", ActivityNote("a", "b", "other", "completed", text="\ud83d")),
    ("S14", PlanPart([])),  # type: ignore[arg-type]  # on purpose
    ("S14", PlanPart(("a",))),  # type: ignore[arg-type]  # on purpose
    ("S14", _plan(3)),
    ("S14", _plan(priority="urgent")),
    ("S14", _plan(status="failed")),
    ("S16", _usage()),
    ("S16", _usage(currency="EUR")),
    ("S16", _usage(input=-1)),
    ("S16", _usage(cached=1.5)),
    ("S16", _usage(context_used=True)),
    ("S16", _usage(cost=float("nan"))),
    ("S16", _usage(cost=float("inf"))),
    ("S16", _usage(cost=-0.5)),
    ("S16", _usage(cost="0.5")),
    ("S16", _usage(cost=1, currency=3)),
]


def _watch(features: Features = NO_FEATURES) -> StreamWatch:
    history = (
        user("hello"),
        assistant(ToolCallPart("dg_said", "read_file", {})),
        user(ToolResultPart("dg_said"), ToolResultPart("dg_answered")),
    )
    return StreamWatch(ask(*history, features=features))


@pytest.mark.parametrize(("rule", "part"), _BROKEN)
def test_s12_a_broken_rule_is_named_with_the_part(rule: str, part: object) -> None:
    violation = _watch().violation(part)
    assert violation is not None
    assert violation.rule.id == rule
    assert violation.part is part
    assert violation.detail
    assert str(violation).startswith(f"{rule} ({RULES[rule].title}): ")


@pytest.mark.parametrize(
    "part",
    [
        TextPart(""),
        TextPart("text 🎈"),
        ThinkingPart("a"),
        ThinkingPart(("a", "b"), "t", {"signature": "x", "n": [1, 2.5, None, True]}),
        _thinking(["a", "list"]),
        _call("dg_" + "x" * 61),
        _call("dg_A-z_09"),
        _call(arguments={"a": [1, 2.5, "x", None, True, {"b": []}]}),
        DataPart("image/png", b""),
        DataPart("stateful_marker", b"m\\x"),
        _activity(),
        _activity(
            status="failed", diff="", output="x", exit_status=-9, locations=(ActivityLocation("a", 0),)
        ),
        ActivityNote("a", "b", "other", "completed", text="x"),
        PlanPart(()),
        _plan(""),
        _usage(total=0),
        _usage(cost=0.5, currency="EUR"),
        _usage(context_used=1, context_size=2, cost=1),
    ],
)
def test_a_part_that_breaks_no_rule_passes(part: object) -> None:
    assert _watch().violation(part) is None


def test_s4_a_call_id_is_used_once_in_a_response() -> None:
    watch = _watch()
    assert watch.violation(_call("dg_1")) is None
    assert watch.violation(_call("dg_2")) is None
    violation = watch.violation(_call("dg_1", "list_files"))
    assert violation is not None
    assert violation.rule.id == "S4.unique"


def test_s4_a_call_that_was_refused_has_not_used_its_id() -> None:
    watch = _watch()
    assert watch.violation(_call("dg_1", "rm")) is not None
    assert watch.violation(_call("dg_1")) is None


@pytest.mark.parametrize("ended", ["completed", "failed"])
def test_an_activity_that_has_ended_does_not_go_back(ended: str) -> None:
    watch = _watch()
    assert watch.violation(_activity(status="in_progress")) is None
    assert watch.violation(_activity(status="pending")) is None
    assert watch.violation(_activity(status=ended)) is None
    for status in {"pending", "in_progress", "completed", "failed"} - {ended}:
        violation = watch.violation(_activity(status=status))
        assert violation is not None
        assert violation.rule.id == "S15"
    # It may still say more about itself, and others go on.
    assert watch.violation(_activity(status=ended, output="x")) is None
    assert watch.violation(_activity("b")) is None


def test_s7_a_consumer_may_ask_for_calls_with_unreadable_arguments() -> None:
    part = ToolCallPart("dg_1", "read_file", {}, "{oops")
    assert _watch(Features(unparsed_calls=True)).violation(part) is None
    assert _watch().violation(part) is not None


def test_s1_nothing_is_reported_after_the_end() -> None:
    watch = _watch()
    watch.ended = True
    violation = watch.violation(TextPart("late"))
    assert violation is not None
    assert (violation.rule.id, violation.detail) == ("S1", "a part was reported after the response had ended")


def test_s1_nothing_is_reported_from_another_thread() -> None:
    watch = _watch()
    found: list[Violation | None] = []
    thread = threading.Thread(target=lambda: found.append(watch.violation(TextPart("elsewhere"))))
    thread.start()
    thread.join(timeout=10)
    assert [violation and violation.rule.id for violation in found] == ["S1"]


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ([], True),
        ([TextPart(""), TextPart(" \n\t ")], True),
        ([TextPart("\u200b\ufeff\u2060\x00")], True),
        ([ThinkingPart("a thought")], True),
        ([DataPart("image/png", b"x")], True),
        ([_activity(), _plan(), _usage(input=1)], True),
        ([TextPart(" "), TextPart("x")], False),
        ([TextPart("🎈")], False),
        ([_call()], False),
        ([_call(name="rm")], True),
    ],
)
def test_s9_what_is_not_visible_is_missing(parts: list[object], missing: bool) -> None:  # noqa: FBT001 - a table
    watch = _watch()
    for part in parts:
        watch.violation(part)
    violation = watch.missing()
    assert (violation is not None) is missing
    if violation is not None:
        assert violation.rule.id == "S9"


def test_s12_every_rule_has_an_id_a_title_a_sentence_and_a_source() -> None:
    assert {id_.partition(".")[0] for id_ in RULES} == {*(f"S{number}" for number in range(1, 17)), "T14"}
    for id_, rule in RULES.items():
        assert rule.id == id_
        assert rule.title
        assert rule.sentence.endswith(".")
        assert rule.source
        assert rule.level in {"must", "should"}
    assert len({rule.title for rule in RULES.values()}) == len(RULES)


def test_s12_every_rule_about_a_single_part_is_broken_in_this_file() -> None:
    """The others are about a whole response, and are broken in the tests of the guard and of the checker."""
    about_responses = {"S1", "S6", "S8", "S9", "S10", "S12", "S13", "S15", "T14"}
    assert {rule for rule, _ in _BROKEN} == RULES.keys() - about_responses


@pytest.mark.parametrize("text", ["a", "  a", "🎈", "日", "#", "\u200ba"])
def test_visible(text: str) -> None:
    assert is_visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\r\t\x0b\x0c",
        "\xa0\u2003",
        "\u200b\u200d",
        "\ufeff",
        "\x00\x1b",
        "\xad",
        "\u3164\u2800",
        "\u115f\ufe0f",
    ],
)
def test_invisible(text: str) -> None:
    assert not is_visible(text)
