"""What is remembered of requests changes nothing but the time it takes to tell them again."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from agent.bridge import SCOPE, result
from dragoman.backends.agent.history import tell
from dragoman.backends.agent.tellings import Tellings
from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    assistant,
    system,
    user,
)
from dragoman.lm.json import encode
from dragoman.lm.parts import STATEFUL_MARKER

SHELF = (SCOPE, None)
# Few of each, so that requests begin alike, go on alike, and are cut at every seam.
TEXTS = st.sampled_from(["", " ", "hello", "hello ", "yes", "no"])
VALUES: list[object] = [
    True,
    1,
    1.0,
    0,
    False,
    None,
    "1",
    [True],
    [1],
    {"deep": [{"b": 0}]},
    {"deep": [{"b": False}]},
]
CALLS = st.builds(
    lambda id_, value: ToolCallPart(id_, "look", {"v": value}), *map(st.sampled_from, ("xy", VALUES))
)
SAID: st.SearchStrategy[Part] = TEXTS.map(TextPart)
OTHERS: st.SearchStrategy[Part] = st.sampled_from(
    [
        DataPart(STATEFUL_MARKER, b"m\\x"),
        DataPart("image/png", b"x"),
        ThinkingPart("hm"),
        ThinkingPart(("h", "m"), metadata={"v": True}),
        ActivityPart("a", "Run", "execute", "completed", output="much"),
        UsagePart(1),
        result("x", "much"),
        result("x", "m…"),
        ToolResultPart("y", (DataPart("image/png", b"x"),)),
    ]
)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "user", "assistant", "assistant", "assistant", "system"]),
    st.lists(SAID | SAID | OTHERS | CALLS, max_size=3).map(tuple),
)


def rewritten(part: Part, value: object) -> Part:
    return ToolCallPart(part.call_id, part.name, {"v": value}) if isinstance(part, ToolCallPart) else part


def remembered(tellings: Tellings) -> list[tuple[Message, ...]]:
    return [each.telling.messages for alike in tellings._told.values() for each in alike]


def size_told_anew(messages: tuple[Message, ...]) -> int:
    fresh = Tellings()
    fresh.tell(SHELF, messages)
    return fresh.size


def retold(messages: Sequence[Message]) -> tuple[Message, ...]:
    """As they come: no two requests share an object."""
    return msgspec.json.decode(encode(messages), type=tuple[Message, ...])


@st.composite
def requests(draw: st.DrawFn) -> list[list[Message]]:
    """Chats that grow, are edited, cut, forked and taken apart; and system messages that come and go."""
    chats = [draw(st.lists(MESSAGES, max_size=6))]
    sent: list[list[Message]] = []
    for _ in range(draw(st.integers(1, 8))):
        chat = draw(st.sampled_from(chats))
        match draw(
            st.sampled_from(["grow", "edit", "rewrite", "cut", "fork", "begin", "take apart", "again"])
        ):
            case "grow":
                chat += draw(st.lists(MESSAGES, min_size=1, max_size=3))
            case "edit" if chat:
                chat[draw(st.integers(0, len(chat) - 1))] = draw(MESSAGES)
            case "rewrite":
                value = draw(st.sampled_from(VALUES))
                chat[:] = [
                    Message(it.role, tuple(rewritten(part, value) for part in it.content)) for it in chat
                ]
            case "cut":
                del chat[draw(st.integers(0, len(chat))) :]
            case "fork":
                chats.append([*chat, draw(MESSAGES)])
            case "begin":
                chats.append(draw(st.lists(MESSAGES, max_size=3)))
            case "take apart" if chat:
                place = draw(st.integers(0, len(chat) - 1))
                whole = chat[place]
                middle = draw(st.integers(0, len(whole.content)))
                chat[place : place + 1] = [
                    Message(whole.role, whole.content[:middle]),
                    Message(whole.role, whole.content[middle:]),
                ]
        told = list(chat)
        for text in draw(st.lists(TEXTS, max_size=2)):
            told.insert(draw(st.integers(0, len(told))), system(text))
        sent.append(told)
    return sent


@settings(max_examples=50, deadline=None)
@given(requests(), st.sampled_from([0, 2_000, 1_000_000]))
def test_what_is_remembered_is_told_as_if_it_were_not(sent: list[list[Message]], limit: int) -> None:
    tellings = Tellings(limit, limit)
    for number, messages in enumerate(sent):
        request = retold(messages)
        assert tellings.tell(number % 3 == 0, request) == tell(request)
        assert tellings.size <= limit
        assert tellings.size == sum(map(size_told_anew, remembered(tellings)))


@pytest.mark.long
@settings(max_examples=2_000, deadline=None)
@given(requests())
def test_what_is_remembered_is_told_as_if_it_were_not_searched_at_length(sent: list[list[Message]]) -> None:
    tellings = Tellings()
    for messages in sent:
        request = retold(messages)
        assert tellings.tell(SHELF, request) == tell(request)


HISTORY = [
    user("one"),
    assistant("First.", ToolCallPart("x", "look", {"deep": True})),
    user(result("x")),
    assistant("Second."),
    user("two"),
]


def _shared(tellings: Tellings, *messages: Message) -> int:
    """How many items are the very same as those of the history, which was told before."""
    before = tellings.tell(SHELF, retold(HISTORY)).items
    after = tellings.tell(SHELF, retold(messages)).items
    return sum(one is other for one, other in zip(before, after, strict=False))


def test_only_what_is_new_is_told() -> None:
    assert _shared(Tellings(), *HISTORY, assistant("Third."), user("three")) == len(HISTORY)


def test_a_drifting_system_prompt_is_nothing_new() -> None:
    drifting = [system("It is noon."), *HISTORY[:2], system("Look!"), *HISTORY[2:], system("It rains.")]
    assert _shared(Tellings(), *drifting, user("three")) == len(HISTORY)


def test_what_stands_before_an_edit_is_not_told_again() -> None:
    assert _shared(Tellings(), *HISTORY[:4], user("two, but different")) == 3


def test_an_answer_that_goes_on_is_told_again() -> None:
    assert _shared(Tellings(), *HISTORY[:4], assistant("And more."), user("two")) == 3


def test_a_call_with_another_truth_is_another_call() -> None:
    """To Python, true is 1."""
    other = assistant("First.", ToolCallPart("x", "look", {"deep": 1}))
    assert _shared(Tellings(), HISTORY[0], other, *HISTORY[2:]) == 1


def test_a_conversation_and_its_forks_are_remembered_side_by_side() -> None:
    tellings = Tellings()
    forks = [[*HISTORY[:-2], assistant(f"Second, the {number}th."), user("two")] for number in range(3)]
    for fork in forks:
        tellings.tell(SHELF, retold(fork))
    for fork in forks:
        before = tellings.tell(SHELF, retold(fork))
        after = tellings.tell(SHELF, retold([*fork, assistant("Third."), user("three")]))
        assert all(one is other for one, other in zip(before.items, after.items, strict=False))


def test_a_last_message_that_drifts_leaves_nothing_behind() -> None:
    tellings = Tellings()
    for number in range(10):
        tellings.tell(SHELF, retold([*HISTORY, assistant("Third."), user(f"three, at {number} o'clock")]))
    assert len(tellings) == 1


def test_words_are_in_memory_once() -> None:
    tellings = Tellings()
    first = tellings.tell(SHELF, retold([user("one"), assistant("First."), user("two")]))
    again = tellings.tell(SHELF, retold([*first.messages, assistant("Second."), user("three")]))
    for message, item in zip(again.messages, again.items, strict=True):
        assert message.text is item.text  # type: ignore[union-attr]  # there are no results
    assert all(one is other for one, other in zip(first.messages, again.messages, strict=False))


def test_the_longest_unused_is_forgotten_first() -> None:
    chats = [[assistant(f"Chat {number}."), user("x" * 1_000)] for number in range(5)]
    tellings = Tellings(4 * 2_300, 4 * 2_300)
    for number in (0, 1, 2, 3, 0, 4):
        tellings.tell(SHELF, retold(chats[number]))
    assert len(tellings) == 4
    for number, is_remembered in ((0, True), (2, True), (1, False)):
        request = retold(chats[number])
        assert (tellings.tell(SHELF, request).messages[0] is not request[0]) == is_remembered


def test_the_last_one_may_be_longer_than_all_the_others() -> None:
    tellings = Tellings(limit=10_000, longest=100_000)
    for number in range(3):
        tellings.tell(SHELF, retold([assistant(f"Chat {number}."), user("x" * 1_000)]))
    assert len(tellings) == 3
    long = [assistant("A long one."), user("x" * 50_000)]
    tellings.tell(SHELF, retold(long))
    assert (len(tellings), tellings.tell(SHELF, again := retold(long)).messages[0] is again[0]) == (1, False)
    tellings.tell(SHELF, retold([assistant("A short one."), user("x")]))
    assert (len(tellings), tellings.size < 10_000) == (1, True)


def test_what_is_too_large_is_not_remembered() -> None:
    tellings = Tellings(1_000, 10_000)
    for part in (TextPart("x" * 10_000), DataPart("image/png", bytes(10_000)), result("x", "x" * 10_000)):
        tellings.tell(SHELF, retold([assistant("Hello."), user(part)]))
        assert (len(tellings), tellings.size) == (0, 0)


def test_results_without_words_count_too() -> None:
    """By what they really take: tracemalloc says how much that is."""
    requests = [
        retold(
            [
                assistant(f"Chat {number}."),
                user(*(ToolResultPart(f"dg_{number}_{each}") for each in range(1_000))),
            ]
        )
        for number in range(10)
    ]
    tellings = Tellings()
    tracemalloc.start()
    try:
        for request in requests:
            tellings.tell(SHELF, retold(request))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tellings.size > taken / 2
    tellings.forget()
    assert (len(tellings), tellings.size) == (0, 0)


def test_without_an_answer_there_is_nothing_to_remember() -> None:
    tellings = Tellings()
    tellings.tell(SHELF, retold([system("Be brief."), user("hello")]))
    assert len(tellings) == 0
