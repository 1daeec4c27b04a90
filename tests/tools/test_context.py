"""Context keys: what they take, what they tell, and to whom."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from dragoman.tools.context import MAX_ROUNDS, ContextKeys
from dragoman.tools.when import evaluate, parse


class Record:
    """A subscriber that writes down what it was told."""

    def __init__(self, context: ContextKeys) -> None:
        self.events: list[set[str]] = []
        self.unsubscribe = context.on_change(lambda changed: self.events.append(set(changed)))


@pytest.fixture
def context() -> ContextKeys:
    return ContextKeys()


def test_it_is_a_mapping(context: ContextKeys) -> None:
    context.update({"a": 1, "b": "x"})
    assert isinstance(context, Mapping)
    assert dict(context) == {"a": 1, "b": "x"}
    assert context["a"] == 1
    assert context.get("c") is None
    assert "b" in context
    assert len(context) == 2
    with pytest.raises(KeyError):
        context["c"]


@pytest.mark.parametrize("value", [True, 0, 1.5, "", "x", (), ("x", "y"), {}, {"x": True, "y": 1}])
def test_values_it_takes(context: ContextKeys, value: object) -> None:
    context.set("a", value)
    assert context["a"] == value


def test_a_clause_is_evaluated_over_it(context: ContextKeys) -> None:
    context.update({"lang": "python", "langs": ["python", "go"], "folders": {"src": True}, "folder": "src"})
    assert evaluate(parse("lang in langs && folder in folders && !missing"), context)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (None, TypeError, "'a' takes a boolean, a number, text, a list of text or an object, not None"),
        (b"x", TypeError, "not b'x'"),
        ({"x"}, TypeError, "not {'x'}"),
        ([1], TypeError, "names strings, not 1"),
        (["x", None], TypeError, "names strings, not None"),
        ({1: True}, TypeError, "names strings, not 1"),
        ({"x": []}, TypeError, r"holds booleans, numbers and text, not \[\]"),
        (float("nan"), ValueError, "takes finite numbers, not nan"),
        (float("-inf"), ValueError, "takes finite numbers, not -inf"),
        ({"x": float("inf")}, ValueError, "takes finite numbers, not inf"),
    ],
)
def test_values_it_refuses(context: ContextKeys, value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        context.set("a", value)
    assert not context


def test_keys_it_refuses(context: ContextKeys) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        context.set("", 1)
    with pytest.raises(TypeError, match="is a string, not 5"):
        context.set(5, 1)  # type: ignore[arg-type]  # what an untyped caller may do


def test_an_update_with_a_bad_value_changes_nothing(context: ContextKeys) -> None:
    record = Record(context)
    with pytest.raises(TypeError):
        context.update({"a": 1, "b": None})
    assert not context
    assert record.events == []


def test_values_are_taken_over_as_they_are(context: ContextKeys) -> None:
    names = ["x"]
    table = {"x": True}
    context.update({"names": names, "table": table})
    names.append("y")
    table["y"] = True
    assert context["names"] == ("x",)
    assert context["table"] == {"x": True}


def test_a_change_is_told_once_for_all_its_keys(context: ContextKeys) -> None:
    context.update({"a": 1, "b": 1})
    record = Record(context)
    context.update({"a": 2, "b": 1, "c": 3})
    assert record.events == [{"a", "c"}]


def test_removal_is_a_change(context: ContextKeys) -> None:
    context.set("a", 1)
    record = Record(context)
    context.remove("a")
    context.remove("a")
    assert "a" not in context
    assert record.events == [{"a"}]


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, 1), (1, 1.0), (True, True), ("x", "x"), (["x"], ("x",)), ({"x": 1}, {"x": 1}), ({}, {})],
)
def test_what_is_no_change_is_not_told(context: ContextKeys, before: object, after: object) -> None:
    context.set("a", before)
    record = Record(context)
    context.set("a", after)
    context.update({})
    assert record.events == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, True),
        (False, 0),
        (1, "1"),
        ("x", ["x"]),
        (["x", "y"], ["y", "x"]),
        ([], {}),
        ({"x": 1}, {"x": True}),
        ({"x": 1}, {"y": 1}),
        ({"x": 1}, {}),
    ],
)
def test_what_a_clause_could_tell_apart_is_a_change(
    context: ContextKeys, before: object, after: object
) -> None:
    context.set("a", before)
    record = Record(context)
    context.set("a", after)
    assert record.events == [{"a"}]


def test_the_change_is_made_when_it_is_told(context: ContextKeys) -> None:
    seen: list[object] = []
    context.on_change(lambda changed: seen.append((changed, context.get("a"))))
    context.set("a", 1)
    context.remove("a")
    assert seen == [({"a"}, 1), ({"a"}, None)]


def test_nothing_is_told_after_unsubscribing(context: ContextKeys) -> None:
    record = Record(context)
    other = Record(context)
    record.unsubscribe()
    record.unsubscribe()
    context.set("a", 1)
    assert record.events == []
    assert other.events == [{"a"}]


def test_one_callback_subscribed_twice_is_two_subscriptions(context: ContextKeys) -> None:
    events: list[frozenset[str]] = []
    end = context.on_change(events.append)
    context.on_change(events.append)
    context.set("a", 1)
    end()
    context.set("a", 2)
    assert events == [{"a"}] * 3


def test_unsubscribing_during_an_event(context: ContextKeys) -> None:
    called: list[str] = []

    def first(_: frozenset[str]) -> None:
        called.append("first")
        end_first()
        end_second()

    end_first = context.on_change(first)
    end_second = context.on_change(lambda _: called.append("second"))
    context.on_change(lambda _: called.append("third"))
    context.set("a", 1)
    assert called == ["first", "third"]
    context.set("a", 2)
    assert called == ["first", "third", "third"]


def test_subscribing_during_an_event_begins_with_the_next(context: ContextKeys) -> None:
    records: list[Record] = []
    context.on_change(lambda _: records.append(Record(context)))
    context.set("a", 1)
    assert [record.events for record in records] == [[]]
    context.set("b", 1)
    assert [record.events for record in records] == [[{"b"}], []]


def test_a_subscriber_that_fails_is_logged_and_stops_nobody(
    context: ContextKeys, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: frozenset[str]) -> None:
        raise RuntimeError("no")

    context.on_change(fail)
    record = Record(context)
    with caplog.at_level(logging.ERROR, "dragoman.tools.context"):
        context.set("a", 1)
        context.set("b", 1)
    assert record.events == [{"a"}, {"b"}]
    assert [entry.message for entry in caplog.records] == ["a subscriber to context keys failed"] * 2
    assert caplog.records[0].exc_info is not None


def test_a_change_made_by_a_subscriber_is_told_to_all_in_order(context: ContextKeys) -> None:
    def follow(changed: frozenset[str]) -> None:
        if "count" in changed:
            context.set("many", context["count"] == 2)
            context.set("some", value=True)

    context.on_change(follow)
    record = Record(context)
    context.set("count", 2)
    assert record.events == [{"count"}, {"many", "some"}]


def _counting_to(end: int, context: ContextKeys) -> None:
    def count(_: frozenset[str]) -> None:
        number = context["n"]
        assert isinstance(number, int)
        context.set("n", min(number + 1, end))

    context.on_change(count)


def test_subscribers_that_settle_in_time_are_let(
    context: ContextKeys, caplog: pytest.LogCaptureFixture
) -> None:
    _counting_to(MAX_ROUNDS, context)
    record = Record(context)
    context.set("n", 1)
    assert context["n"] == MAX_ROUNDS
    assert len(record.events) == MAX_ROUNDS
    assert not caplog.records


def test_subscribers_that_never_settle_are_stopped(
    context: ContextKeys, caplog: pytest.LogCaptureFixture
) -> None:
    _counting_to(MAX_ROUNDS + 1, context)
    record = Record(context)
    with caplog.at_level(logging.ERROR, "dragoman.tools.context"):
        context.set("n", 1)
    assert len(record.events) == MAX_ROUNDS
    assert [entry.message for entry in caplog.records] == ["subscribers keep changing context keys: n"]
    # The next change is told as if nothing had been.
    context.set("other", 1)
    assert record.events[MAX_ROUNDS] == {"other"}


_KEYS = st.sampled_from("abc")
_VALUES = st.sampled_from(["", "x", 0, 1, ("x",), ()])


@given(st.lists(st.dictionaries(_KEYS, _VALUES) | _KEYS))
def test_events_are_exactly_the_differences(steps: list[dict[str, object] | str]) -> None:
    context = ContextKeys()
    record = Record(context)
    model: dict[str, object] = {}
    expected: list[set[str]] = []
    for step in steps:
        before = dict(model)
        if isinstance(step, str):
            context.remove(step)
            model.pop(step, None)
        else:
            context.update(step)
            model.update(step)
        assert dict(context) == model
        changed = {key for key in before.keys() | model.keys() if before.get(key) != model.get(key)}
        expected += [changed] if changed else []
    assert record.events == expected
