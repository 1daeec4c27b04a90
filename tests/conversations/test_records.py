"""Records store histories and replies; the index after changes equals a new index of the same records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from agent.bridge import SCOPE, Bridge, Chat, crowded
from dragoman.conversations.history import (
    NormalAnswer,
    NormalItem,
    NormalPrompt,
    NormalResult,
    chain,
    normalise,
)
from dragoman.conversations.identify import identify
from dragoman.conversations.records import ConversationRecord, Records, Scope
from dragoman.lm import assistant, user
from searching import examples

CALLS = (("dg_1", "look", "{}"),)


def requested(
    record: ConversationRecord, *texts: str, places: dict[int, int] | None = None, turn: int = 1
) -> ConversationRecord:
    """User and assistant take turns."""
    messages = [(user, assistant)[index % 2](text) for index, text in enumerate(texts)]
    return record.with_request(normalise(messages), places or {}, turn=turn)


def test_a_reply_grows_until_it_ends() -> None:
    record = requested(ConversationRecord("x", SCOPE), "one")
    assert record.last is not None
    assert (record.last.number, record.last.starts, record.last.ends, record.last.status) == (
        1,
        1,
        1,
        "streaming",
    )
    assert (record.is_unsettled, record.opening) == (True, 1)
    record = record.with_answer(NormalAnswer("F")).with_answer(NormalAnswer("First.", CALLS))
    assert record.items == (NormalPrompt("one"), NormalAnswer("First.", CALLS))
    assert record.links == tuple(chain(record.items))
    record = record.ended("complete", 5.0, ["dg_1"])
    assert record.last is not None
    assert (record.last.ends, record.last.call_ids, record.last.ended_at) == (2, ("dg_1",), 5.0)
    assert (record.pending, record.is_unsettled) == (frozenset(["dg_1"]), True)
    record = record.settled(["dg_1", "dg_2"])
    assert (record.pending, record.is_unsettled) == (frozenset(), False)


@pytest.mark.parametrize("status", ["cut", "failed"])
def test_a_turn_that_broke_off_is_not_settled(status: str) -> None:
    record = requested(ConversationRecord("x", SCOPE), "one").ended(status, 0.0)  # type: ignore[arg-type]
    assert record.is_unsettled


def test_an_answer_without_a_word_leaves_nothing() -> None:
    record = (
        requested(ConversationRecord("x", SCOPE), "one")
        .with_answer(NormalAnswer("First."))
        .with_answer(NormalAnswer(""))
    )
    assert (record.items, len(record.links)) == ((NormalPrompt("one"),), 1)


def test_an_answer_before_any_word_has_a_chain_too() -> None:
    record = (
        ConversationRecord("x", SCOPE)
        .with_request(normalise([]), {}, turn=1)
        .with_answer(NormalAnswer("First."))
    )
    assert record.links == tuple(chain([NormalAnswer("First.")]))


def test_what_is_told_anew_has_its_replies_where_they_are_told_to_be() -> None:
    record = (
        requested(ConversationRecord("x", SCOPE), "one")
        .with_answer(NormalAnswer("First."))
        .ended("complete", 0.0)
    )
    record = (
        requested(record, "one", "First.", "two", places={1: 2}, turn=2)
        .with_answer(NormalAnswer("Second."))
        .ended("cut", 0.0)
    )
    assert [(reply.number, reply.turn, reply.starts, reply.ends) for reply in record.replies] == [
        (1, 1, 1, 2),
        (2, 2, 3, 4),
    ]
    assert (record.opening, record.reply(1), record.reply(3)) == (3, record.replies[0], None)
    # Summarised: of the first reply nothing is left, of the second a marker without a word.
    record = requested(record, "in short", places={2: 1}, turn=3)
    assert [(reply.number, reply.starts, reply.ends) for reply in record.replies] == [(2, 1, 1), (3, 1, 1)]
    record = requested(record, places={2: 0}, turn=4)
    assert [(reply.number, reply.starts, reply.ends) for reply in record.replies] == [(2, 0, 0), (4, 0, 0)]


def test_a_turn_of_several_replies_opens_where_its_first_begins() -> None:
    record = (
        requested(ConversationRecord("x", SCOPE), "one")
        .with_answer(NormalAnswer("I look.", CALLS))
        .ended("complete", 0.0, ["dg_1"])
    )
    items = (*record.items, NormalResult("dg_1"))
    history = structs.replace(normalise([]), items=items, links=tuple(chain(items)))
    record = record.settled(["dg_1"]).with_request(history, {1: 2}, turn=1)
    assert (record.opening, record.replies[-1].starts) == (1, 3)


def test_a_reply_must_be_open_in_order_to_be_said() -> None:
    record = ConversationRecord("x", SCOPE)
    assert (record.last, record.is_unsettled, record.opening) == (None, False, 0)
    with pytest.raises(AssertionError, match="no reply under way"):
        record.with_answer(NormalAnswer("x"))
    with pytest.raises(AssertionError, match="no reply under way"):
        record.ended("cut", 0.0)


def test_h20_records_are_found_in_their_own_scope_only() -> None:
    records = Records()
    records.put(requested(ConversationRecord("x", SCOPE), "one"))
    assert records.get("x", SCOPE) is not None
    for other in (
        structs.replace(SCOPE, model="m"),
        structs.replace(SCOPE, workspace=("/",)),
        structs.replace(SCOPE, connection="c"),
    ):
        assert records.get("x", other) is None
    assert records.get("y", SCOPE) is None


def test_a_hash_is_no_proof() -> None:
    records = Records()
    record = requested(ConversationRecord("x", SCOPE), "one").with_answer(NormalAnswer("First."))
    records.put(replace(record, items=(NormalPrompt("another"), NormalAnswer("First."))))
    history = normalise([user("one"), assistant("First."), user("two")])
    assert records.beginning_like(SCOPE, None, history) == (0, ())


# The index, after anything.


class Shelves(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.records = Records()

    @rule(
        name=st.sampled_from("abcd"),
        scope=st.sampled_from([SCOPE, Scope("codex")]),
        consumer_id=st.sampled_from([None, "x", "y"]),
        words=st.lists(st.sampled_from(["hello", "yes"]), max_size=4),
        retained=st.sets(st.integers(1, 4)),
    )
    def normalise(
        self, name: str, scope: Scope, consumer_id: str | None, words: list[str], retained: set[int]
    ) -> None:
        known = next(
            (record for record in self.records if record.id == name), ConversationRecord(name, scope)
        )
        places = {number: min(2 * number, len(words)) for number in retained}
        turn = (known.last.turn if known.last else 0) + len(words) % 2
        record = requested(
            replace(known, scope=scope, consumer_id=consumer_id), *words, places=places, turn=turn
        )
        self.records.put(record)

    @precondition(lambda self: len(self.records) > 0)
    @rule(
        data=st.data(),
        text=st.sampled_from(["", "Hello!", "No."]),
        status=st.sampled_from(["complete", "cut"]),
        calls=st.booleans(),
    )
    def say(self, data: st.DataObject, text: str, status: str, calls: bool) -> None:  # noqa: FBT001
        record = data.draw(st.sampled_from(list(self.records)))
        record = record.with_answer(NormalAnswer(text, CALLS if calls else ()))
        self.records.put(record.ended(status, 0.0, ["dg_1"] if calls else []))  # type: ignore[arg-type]

    @precondition(lambda self: len(self.records) > 0)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(list(self.records)))
        self.records.put(record.settled(["dg_1"]))

    @rule(name=st.sampled_from("abcde"))
    def remove(self, name: str) -> None:
        self.records.remove(name)

    @invariant()
    def is_what_it_would_be_if_it_were_made_anew(self) -> None:
        fresh = Records()
        for record in self.records:
            fresh.put(record)
        assert self.records._prefixes._shelves == fresh._prefixes._shelves
        assert self.records._consumer_ids == fresh._consumer_ids
        assert len(fresh) == len(self.records)
        if not len(self.records):
            assert len(self.records._prefixes) == 0


Shelves.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=20, deadline=None)
TestTheIndexIsExact = Shelves.TestCase


# What a look-up costs.


class _Counted(tuple[NormalItem, ...]):
    """Items that count how often they are cut to be compared."""

    __slots__ = ()
    compared = 0

    def __getitem__(self, index: Any) -> Any:  # a tuple's, whatever it is asked
        if isinstance(index, slice):
            _Counted.compared += 1
        return tuple.__getitem__(self, index)


def _compared(bridge: Bridge, chat: Chat) -> int:
    for record in list(bridge.records):
        bridge.records.put(replace(record, items=_Counted(record.items)))
    _Counted.compared = 0
    found = chat.then("and?").identify()
    assert found.kind == "prompt"
    return _Counted.compared


@pytest.mark.parametrize("keeps_markers", [True, False])
@pytest.mark.parametrize("first", ["hello", "something rare"])
def test_b7_a_thousand_others_cost_no_more_comparisons_than_ten(keeps_markers: bool, first: str) -> None:  # noqa: FBT001
    costs = []
    for others in (10, 1_000):
        bridge = crowded(others)
        chat = Chat(bridge, keeps_markers)
        for number in range(20):
            chat.ask(f"{first} {number}" if number else first, f"Answer {number}, of which there is one.")
        costs.append(_compared(bridge, chat))
    assert costs[1] == costs[0] <= 4


def test_b7_even_when_they_all_begin_alike_two_comparisons_are_enough() -> None:
    bridge = Bridge()
    for _ in range(500):
        bridge.respond([user("hello")], "Hello!")
    for record in list(bridge.records):
        bridge.records.put(replace(record, items=_Counted(record.items)))
    _Counted.compared = 0
    assert bridge.identify([user("hello"), assistant("Hello!"), user("and?")]).kind == "fresh"
    assert _Counted.compared == 2


def test_identify_changes_nothing() -> None:
    bridge = crowded(50)
    before = list(bridge.records)
    bridge.identify([user("hello"), assistant("Hello!"), user("and?")])
    assert list(bridge.records) == before
    assert identify.__doc__


def test_a_record_that_has_answered_nothing_is_at_rest() -> None:
    record = ConversationRecord("c", SCOPE)
    assert record.at_rest() is record
