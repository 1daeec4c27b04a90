"""Calls and their announcements, in whatever order the two ways bring them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dragoman.backends.agent.reply.announcements import Announcements

Arguments = dict[str, Any]

# How agents show the arguments of a call: as they are; beside the names of server and tool; not yet.
_FORMS: dict[str, Callable[[Arguments], Arguments]] = {
    "plain": lambda arguments: arguments,
    "deeper": lambda arguments: {"server": "dg-1", "tool": "look_up", "arguments": arguments},
    "later": lambda _arguments: {},
}
_ARGUMENTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.text(max_size=2), max_size=3)
_CALLS = st.lists(st.tuples(st.sampled_from(("look_up", "count")), _ARGUMENTS), min_size=1, max_size=5)


def _reordered(arguments: Arguments) -> Arguments:
    return dict(reversed(arguments.items()))


@given(_CALLS, st.sampled_from(("plain", "deeper")), st.data())
def test_each_call_takes_its_own_announcement_whatever_the_order(
    calls: list[tuple[str, Arguments]], form: str, data: st.DataObject
) -> None:
    announcements = Announcements()
    said = dict(enumerate(calls))
    for key in data.draw(st.permutations(list(said))):
        tool, arguments = said[key]
        assert announcements.announce(str(key), tool, _FORMS[form](arguments))
    taken = []
    for key in data.draw(st.permutations(list(said))):
        tool, arguments = said[key]
        found = announcements.make(tool, _reordered(arguments))
        assert found is not None
        # Calls that are alike in everything may have each other's.
        assert said[int(found)] == (tool, arguments)
        taken.append(found)
    assert len(set(taken)) == len(calls)
    assert announcements.make("look_up", {}) is None


@given(_CALLS, st.data())
def test_however_late_or_incomplete_announcements_are_as_many_are_awaited_as_are_to_come(
    calls: list[tuple[str, Arguments]], data: st.DataObject
) -> None:
    """Every call is made and announced once, either first, with its arguments at once or behind."""
    announcements, awaited, made = Announcements(), set[str](), list[str | None]()
    steps = data.draw(
        st.permutations(
            [(act, key) for key in range(len(calls)) for act in ("announce", "make")],
        )
    )
    for act, key in steps:
        tool, arguments = calls[key]
        if act == "make":
            found = announcements.make(tool, arguments)
            made.append(found)
            awaited.discard(found or "")
            continue
        forms = data.draw(st.sampled_from((("plain",), ("later", "plain"), ("later", "deeper"))))
        for at, form in enumerate(forms):
            if announcements.announce(str(key), tool, _FORMS[form](arguments)):
                assert at == 0, "what was told of a call that is known is no other call"
                awaited.add(str(key))
    taken = [key for key in made if key is not None]
    assert len(set(taken)) == len(taken), "no announcement is of two calls"
    # Of each tool: what is still awaited came without its own announcement being found, and never more than that.
    for name in ("look_up", "count"):
        left = [key for key in awaited if calls[int(key)][0] == name]
        unannounced = [
            key
            for key, (_, at) in zip(made, (s for s in steps if s[0] == "make"), strict=True)
            if key is None and calls[at][0] == name
        ]
        assert len(left) <= len(unannounced)


@pytest.mark.parametrize("given_late", [{}, {"word": "a"}, {"server": "dg-1", "arguments": {"word": "a"}}])
def test_a_call_that_was_quicker_than_its_announcement_is_not_waited_for(given_late: Arguments) -> None:
    announcements = Announcements()
    assert announcements.make("look_up", {"word": "a"}) is None
    assert not announcements.announce("k1", "look_up", given_late)
    # Whatever else is said of it.
    assert not announcements.announce("k1", "look_up", {"word": "a"})
    assert not announcements.end("k1")
    assert announcements.announce("k2", "look_up", {"word": "a"})


def test_a_call_is_not_taken_for_a_late_one_with_other_arguments_or_of_another_tool() -> None:
    announcements = Announcements()
    announcements.make("look_up", {"word": "a"})
    assert announcements.announce("k1", "look_up", {"word": "b"})
    assert announcements.announce("k2", "count", {"word": "a"})


def test_an_exact_announcement_comes_before_an_unknown_one_and_that_before_a_different_one() -> None:
    announcements = Announcements()
    announcements.announce("other", "look_up", {"word": "z"})
    announcements.announce("unknown", "look_up", None)
    announcements.announce("exact", "look_up", {"word": "a"})
    assert [announcements.make("look_up", {"word": "a"}) for _ in range(4)] == [
        "exact",
        "unknown",
        "other",
        None,
    ]


def test_what_is_over_is_not_waited_for_and_its_id_may_come_again() -> None:
    announcements = Announcements()
    announcements.announce("k1", "look_up", {})
    assert announcements.end("k1")
    assert not announcements.end("k1")
    assert announcements.make("look_up", {}) is None
    announcements.clear()
    assert announcements.announce("k1", "look_up", {})


def test_calls_that_nobody_announces_do_not_pile_up() -> None:
    announcements = Announcements()
    for number in range(1_000):
        announcements.make("look_up", {"number": number})
    assert announcements.announce("old", "look_up", {"number": 0})
    assert not announcements.announce("new", "look_up", {"number": 999})
