"""Histories from anywhere: closed they are left alone, open they are closed, and closing invents nothing."""

from hypothesis import given, strategies as st

from dragoman.lm import Message, Part, TextPart, ToolCallPart, ToolResultPart, assistant, system, user
from dragoman.loop.history import close, gaps, lost_result

CALL = ToolCallPart("dg_1", "write", {"path": "a"})
OTHER = ToolCallPart("dg_2", "look", {})
RESULT = ToolResultPart("dg_1", (TextPart("done"),))
OTHER_RESULT = ToolResultPart("dg_2", (TextPart("seen"),))

_ids = st.sampled_from(["dg_1", "dg_2", "dg_3"])
_parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, st.sampled_from(["", "a", "b"])),
    st.builds(ToolCallPart, _ids, st.just("write"), st.just({}), st.sampled_from([None, "{"])),
    st.builds(ToolResultPart, _ids, st.tuples(st.builds(TextPart, st.sampled_from("xyz")))),
)
_messages = st.lists(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant", "system"]),
        st.lists(_parts, max_size=4).map(tuple),
    ),
    max_size=6,
)


@given(_messages)
def test_whatever_comes_it_is_closed_afterwards_and_closing_twice_changes_nothing(
    messages: list[Message],
) -> None:
    closed = close(messages)
    assert gaps(closed) == []
    assert close(closed) == closed


@st.composite
def _closed_histories(draw: st.DrawFn) -> list[Message]:
    """Histories in which every call is answered, in order, in the message after it; with words anywhere."""
    messages: list[Message] = []
    for number in range(draw(st.integers(1, 4))):
        messages.append(user(f"prompt {number}"))
        ids = [f"dg_{number}_{index}" for index in range(draw(st.integers(0, 3)))]
        messages.append(assistant(f"answer {number}", *(ToolCallPart(id_, "tool", {}) for id_ in ids)))
        if ids:
            extra = ("by the way",) if draw(st.booleans()) else ()
            messages.append(user(*(ToolResultPart(id_, (TextPart("done"),)) for id_ in ids), *extra))
    return messages


@given(_closed_histories())
def test_what_is_closed_already_is_left_as_it_is(messages: list[Message]) -> None:
    assert gaps(messages) == []
    assert close(messages) == tuple(messages)


def test_a_result_that_stands_further_down_goes_to_its_call() -> None:
    made, result = ToolCallPart("dg_1", "tool", {}), ToolResultPart("dg_1", (TextPart("done"),))
    closed = close([user("go"), assistant(made), assistant("meanwhile"), user(result)])
    assert closed == (user("go"), assistant(made), user(result), assistant("meanwhile"))


@given(_messages)
def test_closing_keeps_every_word_and_invents_none_but_what_was_lost(messages: list[Message]) -> None:
    closed = close(messages)

    def words(history: list[Message]) -> list[tuple[str, Part]]:
        return [
            (message.role, part)
            for message in history
            for part in message.content
            if isinstance(part, TextPart)
        ]

    assert words(list(closed)) == words(messages)
    given_results = [result for message in messages for result in message.results]
    given_calls = [made for message in messages for made in message.calls]
    for message in closed:
        for result in message.results:
            assert result in given_results or result in map(lost_result, given_calls)


def test_a_call_nobody_answered_is_told_as_lost() -> None:
    closed = close([user("Go."), assistant("I will.", CALL), user("And?")])
    assert closed == (user("Go."), assistant("I will.", CALL), user(lost_result(CALL)), user("And?"))
    (result,) = closed[2].results
    assert (result.outcome, result.is_error, result.name, result.input) == (
        "interrupted",
        True,
        "write",
        {"path": "a"},
    )


def test_a_call_at_the_end_is_answered_too() -> None:
    assert close([user("Go."), assistant(CALL)])[-1] == user(lost_result(CALL))


def test_results_are_put_in_call_order_into_one_message_right_after_the_call() -> None:
    history = [assistant(CALL, OTHER), system("Be brief."), user(OTHER_RESULT), user("So?", RESULT)]
    assert close(history) == (
        assistant(CALL, OTHER),
        user(RESULT, OTHER_RESULT),
        system("Be brief."),
        user("So?"),
    )


def test_results_with_words_beside_them_stay_one_message_when_nothing_is_missing() -> None:
    history = (assistant(CALL), user(RESULT, "And now the next."))
    assert close(history) == history


def test_what_is_closed_stays_as_it_is_also_beside_what_is_not() -> None:
    whole = (assistant(CALL), user(RESULT, "Thanks."))
    assert close((*whole, assistant(OTHER)))[:2] == whole


def test_the_first_result_counts_and_one_about_nothing_is_left_out() -> None:
    twice = ToolResultPart("dg_1", (TextPart("again"),))
    stray = ToolResultPart("dg_9", (TextPart("whose?"),))
    assert close([assistant(CALL), user(RESULT, twice, stray)]) == (assistant(CALL), user(RESULT))


def test_a_call_id_that_is_used_twice_in_an_answer_can_be_answered_once() -> None:
    assert close([assistant(CALL, CALL), user(RESULT)]) == (assistant(CALL), user(RESULT))


def test_unreadable_arguments_are_not_recorded_as_an_empty_input() -> None:
    assert lost_result(ToolCallPart("dg_1", "write", {}, "{")).input is None


def test_gaps_are_told_in_words() -> None:
    assert gaps([assistant(CALL)]) == ["the history ends before its last calls are answered"]
    assert gaps([assistant(CALL), user("no")]) == ["message 1 answers [], where ['dg_1'] was called"]
    assert gaps([user(CALL), user(RESULT)]) == ["message 0 makes calls, but is the user's"]
    assert gaps([assistant(CALL), assistant(RESULT)]) == ["message 1 has results, but is the assistant's"]
    assert "uses a call id twice" in gaps([assistant(CALL, CALL), user(RESULT)])[0]
    assert gaps([]) == []
