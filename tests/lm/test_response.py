"""The consumer's view: text joined, calls in order, a message for the history."""

import msgspec
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    Part,
    PlanPart,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
    assistant,
)
from dragoman.lm.json import encode


def _response(*parts: Part) -> Response:
    response = Response()
    for part in parts:
        response.report(part)
    return response


def test_three_pieces_join_to_one_greeting() -> None:
    response = _response(TextPart("Hello"), TextPart(", "), TextPart("world!"))
    assert response.text == "Hello, world!"
    assert response.message() == assistant("Hello, world!")


def test_pieces_are_joined_without_anything_between() -> None:
    assert _response(TextPart("Hello "), TextPart("world")).message().content == (TextPart("Hello world"),)


def test_text_on_both_sides_of_a_call_stays_where_it_was() -> None:
    call = ToolCallPart("dg_1", "read_file", {"path": "x"})
    response = _response(TextPart("Let me "), TextPart("look."), call, TextPart("So"), TextPart("."))
    assert response.message() == assistant("Let me look.", call, "So.")
    assert response.text == "Let me look.So."


def test_calls_are_collected_in_order() -> None:
    calls = [ToolCallPart(f"dg_{number}", "read_file", {}) for number in (3, 1, 2)]
    response = _response(calls[0], TextPart("and"), calls[1], calls[2])
    assert response.calls == tuple(calls)
    assert response.message().calls == tuple(calls)


def test_thinking_is_joined_by_its_id_and_keeps_its_metadata() -> None:
    response = _response(
        ThinkingPart("a", "1"),
        ThinkingPart(("b", "c"), "1"),
        ThinkingPart("d", "2"),
        ThinkingPart("e", "2", {"signature": "x"}),
        ThinkingPart("f", "2"),
        ThinkingPart("g"),
        ThinkingPart("h"),
    )
    assert response.thinking == "abcdefgh"
    assert response.message().content == (
        ThinkingPart("abc", "1"),
        ThinkingPart("d", "2"),
        ThinkingPart("e", "2", {"signature": "x"}),
        ThinkingPart("f", "2"),
        ThinkingPart("gh"),
    )


def test_data_stays_whole_and_in_place() -> None:
    image = DataPart("image/png", b"\x89PNG")
    response = _response(TextPart("a"), image, image, TextPart("b"))
    assert response.data == (image, image)
    assert response.message() == assistant("a", image, image, "b")


def test_empty_text_leaves_no_trace() -> None:
    assert _response(TextPart(""), TextPart("")).message() == assistant()
    assert _response(TextPart("a"), TextPart(""), TextPart("b")).message() == assistant("ab")


def test_text_for_different_audiences_is_not_joined() -> None:
    parts = (TextPart("a", ("user",)), TextPart("b", ("model",)), TextPart("c", ("model",)), TextPart("d"))
    assert _response(*parts).message().content == (
        TextPart("a", ("user",)),
        TextPart("bc", ("model",)),
        TextPart("d"),
    )


async def test_memory_is_never_behind() -> None:
    response = _response(TextPart("a"))
    await response.drain()
    assert response.parts == [TextPart("a")]


_parts = st.one_of(
    st.builds(TextPart, st.text(max_size=5)),
    st.builds(
        ThinkingPart,
        st.text(max_size=3) | st.lists(st.text(max_size=3)).map(tuple),
        st.sampled_from([None, "1"]),
    ),
    st.builds(ThinkingPart, st.text(max_size=3), st.none(), st.just({"k": 1})),
    st.builds(ToolCallPart, st.text(max_size=5), st.text(max_size=5), st.just({"a": 1})),
    st.builds(DataPart, st.text(max_size=5), st.binary(max_size=5)),
)


@given(st.lists(_parts, max_size=12))
def test_folding_says_the_same_in_fewer_parts(parts: list[Part]) -> None:
    response = _response(*parts)
    message = response.message()
    folded = _response(*message.content)
    assert (folded.text, folded.thinking, folded.calls, folded.data) == (
        response.text,
        response.thinking,
        response.calls,
        response.data,
    )
    assert len(message.content) <= len(parts)
    assert folded.message() == message, "folding twice changes nothing"
    assert _kinds(message) == _kinds_of(parts)


@given(st.lists(_parts, max_size=12))
def test_a_folded_response_survives_the_wire(parts: list[Part]) -> None:
    message = _response(*parts).message()
    assert msgspec.json.decode(encode(message), type=Message) == message


def _kinds(message: Message) -> list[str]:
    return _kinds_of(list(message.content))


def _kinds_of(parts: list[Part]) -> list[str]:
    """The order of kinds, neighbours of one kind counted once."""
    kinds: list[str] = []
    for part in parts:
        kind = type(part).__name__
        if part != TextPart("") and kinds[-1:] != [kind]:
            kinds.append(kind)
    return kinds


def test_a_later_part_takes_the_place_of_the_one_that_it_replaces() -> None:
    begun, ended = (
        ActivityPart("a", "Run", "execute", "pending"),
        ActivityPart("a", "Run", "execute", "failed"),
    )
    other, plan, usage = ActivityPart("b", "Run", "execute", "pending"), PlanPart(()), UsagePart(2)
    response = _response(
        begun, UsagePart(1), TextPart("One."), other, plan, ended, TextPart("Two."), usage, plan
    )
    assert response.message() == assistant(ended, usage, "One.", other, plan, "Two.")
    assert response.text == "One.Two."
