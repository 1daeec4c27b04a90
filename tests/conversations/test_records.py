"""Records store histories and replies; the index after changes equals a new index of the same records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from agent.bridge import SCOPE, Bridge, Chat, crowded
from agent.timeline import Timeline
from dragoman.conversations.history import (
    NormalAnswer,
    NormalItem,
    NormalPrompt,
    NormalResult,
    chain,
    item_key,
    normalise,
)
from dragoman.conversations.identify import identify
from dragoman.conversations.records import ConversationRecord, Records, ReplyStatus, RequestKey, Scope
from dragoman.lm import RequestOptions, assistant, user
from searching import examples

CALLS = (("dg_1", "look", "{}"),)


def requested(
    timeline: Timeline,
    *texts: str,
    places: dict[int, int] | None = None,
    turn: int = 1,
    is_known: bool = False,
) -> ConversationRecord:
    """User and assistant take turns. `is_known`: the request may be repeated."""
    messages = [(user, assistant)[index % 2](text) for index, text in enumerate(texts)]
    request_key = RequestKey(tuple(messages), "", RequestOptions()) if is_known else None
    return timeline.request(normalise(messages), places, turn=turn, request_key=request_key)


def keys(*items: NormalItem) -> tuple[bytes, ...]:
    return tuple(map(item_key, items))


@pytest.fixture
def timeline() -> Timeline:
    return Timeline("x", SCOPE)


def test_a_reply_is_open_until_it_ends(timeline: Timeline) -> None:
    assert (timeline.record.last, timeline.record.is_unsettled, timeline.record.opening) == (None, False, 0)
    record = requested(timeline, "one")
    assert record.last is not None
    assert (record.last.number, record.last.starts, record.last.ends, record.last.status) == (
        1,
        1,
        1,
        "streaming",
    )
    assert (record.is_unsettled, record.opening) == (True, 1)
    record = timeline.end(NormalAnswer("First.", CALLS), "complete", 5.0, ["dg_1"])
    assert record.keys == keys(NormalPrompt("one"), NormalAnswer("First.", CALLS))
    assert record.links == tuple(chain(record.keys))
    assert record.last is not None
    assert (record.last.ends, record.last.call_ids, record.last.ended_at) == (2, ("dg_1",), 5.0)
    assert (record.pending, record.is_unsettled) == (frozenset(["dg_1"]), True)
    record = timeline.settle("dg_1", "dg_2")
    assert (record.pending, record.is_unsettled) == (frozenset(), False)


@pytest.mark.parametrize("status", ["cut", "failed"])
def test_a_turn_that_broke_off_is_not_settled(timeline: Timeline, status: ReplyStatus) -> None:
    requested(timeline, "one")
    record = timeline.end(NormalAnswer("Fir"), status)
    assert record.is_unsettled
    assert record.cut == NormalAnswer("Fir")


def test_an_answer_without_a_word_leaves_nothing(timeline: Timeline) -> None:
    requested(timeline, "one")
    record = timeline.end(NormalAnswer(""))
    assert (record.keys, len(record.links)) == (keys(NormalPrompt("one")), 1)


def test_an_answer_before_any_word_has_a_chain_too(timeline: Timeline) -> None:
    timeline.request(normalise([]))
    record = timeline.end(NormalAnswer("First."))
    assert record.links == tuple(chain(keys(NormalAnswer("First."))))


def test_a_changed_history_has_its_replies_at_their_new_places(timeline: Timeline) -> None:
    requested(timeline, "one")
    timeline.end(NormalAnswer("First."))
    requested(timeline, "one", "First.", "two", places={1: 2}, turn=2)
    record = timeline.end(NormalAnswer("Second."), "cut")
    assert [(reply.number, reply.turn, reply.starts, reply.ends) for reply in record.replies] == [
        (1, 1, 1, 2),
        (2, 2, 3, 4),
    ]
    assert (record.opening, record.reply(1), record.reply(3)) == (3, record.replies[0], None)
    # Summarised: of the first reply nothing is left, of the second a marker without a word.
    record = requested(timeline, "in short", places={2: 1}, turn=3)
    assert [(reply.number, reply.starts, reply.ends) for reply in record.replies] == [(2, 1, 1), (3, 1, 1)]
    record = requested(timeline, places={2: 0}, turn=4)
    assert [(reply.number, reply.starts, reply.ends) for reply in record.replies] == [(2, 0, 0), (4, 0, 0)]


def test_a_turn_of_several_replies_opens_where_its_first_begins(timeline: Timeline) -> None:
    requested(timeline, "one")
    record = timeline.end(NormalAnswer("I look.", CALLS), pending=["dg_1"])
    found = (*record.keys, item_key(NormalResult("dg_1")))
    history = structs.replace(
        normalise([]),
        items=(NormalPrompt("one"), NormalAnswer("I look.", CALLS), NormalResult("dg_1")),
        keys=found,
        links=tuple(chain(found)),
    )
    timeline.settle("dg_1")
    record = timeline.request(history, {1: 2})
    assert (record.opening, record.replies[-1].starts) == (1, 3)


def test_h20_records_are_found_in_their_own_scope_only() -> None:
    records = Records()
    records.put(requested(Timeline("x", SCOPE), "one"))
    assert records.get("x", SCOPE) is not None
    for other in (
        structs.replace(SCOPE, model="m"),
        structs.replace(SCOPE, workspace=("/",)),
        structs.replace(SCOPE, connection="c"),
        structs.replace(SCOPE, client="c"),
    ):
        assert records.get("x", other) is None
    assert records.get("y", SCOPE) is None


def test_a_hash_is_no_proof() -> None:
    records = Records()
    timeline = Timeline("x", SCOPE)
    requested(timeline, "one")
    record = timeline.end(NormalAnswer("First."))
    records.put(structs.replace(record, keys=keys(NormalPrompt("another"), NormalAnswer("First."))))
    history = normalise([user("one"), assistant("First."), user("two")])
    assert records.beginning_like(SCOPE, None, history) == (0, ())


# The index, after anything.


def _is_open(record: ConversationRecord) -> bool:
    return record.last is not None and record.last.status == "streaming"


class Shelves(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.records = Records()
        self.timelines: dict[str, Timeline] = {}

    @rule(
        name=st.sampled_from("abcd"),
        scope=st.sampled_from([SCOPE, Scope("codex")]),
        consumer_id=st.sampled_from([None, "x", "y"]),
        words=st.lists(st.sampled_from(["hello", "yes"]), max_size=4),
        retained=st.sets(st.integers(1, 4)),
        is_known=st.booleans(),
    )
    def normalise(
        self,
        name: str,
        scope: Scope,
        consumer_id: str | None,
        words: list[str],
        retained: set[int],
        *,
        is_known: bool,
    ) -> None:
        timeline = self.timelines.get(name)
        if timeline is None or (timeline.record.scope, timeline.record.consumer_id) != (scope, consumer_id):
            timeline = self.timelines[name] = Timeline(name, scope, consumer_id)
        places = {number: min(2 * number, len(words)) for number in retained}
        known = timeline.record
        turn = (known.last.turn if known.last else 0) + len(words) % 2
        self.records.put(requested(timeline, *words, places=places, turn=turn, is_known=is_known))

    @precondition(lambda self: any(map(_is_open, self.records)))
    @rule(
        data=st.data(),
        text=st.sampled_from(["", "Hello!", "No."]),
        status=st.sampled_from(["complete", "cut"]),
        calls=st.booleans(),
    )
    def say(self, data: st.DataObject, text: str, status: ReplyStatus, calls: bool) -> None:  # noqa: FBT001
        record = data.draw(st.sampled_from([*filter(_is_open, self.records)]))
        answer = NormalAnswer(text, CALLS if calls else ())
        self.records.put(self.timelines[record.id].end(answer, status, 0.0, ["dg_1"] if calls else []))

    @precondition(lambda self: len(self.records) > 0)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(list(self.records)))
        self.records.put(self.timelines[record.id].settle("dg_1"))

    @rule(name=st.sampled_from("abcde"))
    def remove(self, name: str) -> None:
        self.records.remove(name)
        self.timelines.pop(name, None)

    @invariant()
    def is_what_it_would_be_if_it_were_made_anew(self) -> None:
        fresh = Records()
        for record in self.records:
            fresh.put(record)
        assert self.records._prefixes._shelves == fresh._prefixes._shelves
        assert self.records._requests._shelves == fresh._requests._shelves
        assert self.records._consumer_ids == fresh._consumer_ids
        assert len(fresh) == len(self.records)
        if not len(self.records):
            assert len(self.records._prefixes) == len(self.records._requests) == 0

    @invariant()
    def has_each_request_that_may_be_repeated(self) -> None:
        for record in self.records:
            last = record.last
            if last is None or not last.starts or last.request_key is None:
                continue
            history = normalise(last.request_key.messages)
            assert record in self.records.asked(record.scope, record.consumer_id, history)
            assert record not in self.records.asked(record.scope, "another", history)


Shelves.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=20, deadline=None)
TestTheIndexIsExact = Shelves.TestCase


# What a look-up costs.


class _Counted(tuple[bytes, ...]):
    """Keys that count how often they are cut to be compared."""

    __slots__ = ()
    compared = 0

    def __getitem__(self, index: Any) -> Any:  # a tuple's, whatever it is asked
        if isinstance(index, slice):
            _Counted.compared += 1
        return tuple.__getitem__(self, index)


def _compared(bridge: Bridge, chat: Chat) -> int:
    for record in list(bridge.records):
        bridge.records.put(structs.replace(record, keys=_Counted(record.keys)))
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
        bridge.records.put(structs.replace(record, keys=_Counted(record.keys)))
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
    assert record.at_rest() == record
